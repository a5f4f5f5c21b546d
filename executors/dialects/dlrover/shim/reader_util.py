"""The reader registry of DLRover's first releases, with which confs register custom path schemes.

Usage, as in a conf:

    reader_registery.register_reader("clicks", ClicksReader)
    train_set = {"path": "clicks://2023-01", …}      # ClicksReader(path="2023-01")
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import did_you_mean
from .common_util import singleton
from .log_util import default_logger


@singleton
class ReaderRegistry:
    """Reader classes by path scheme.

    Attributes:
      reader_registry: The classes by scheme name, such as "file" for "file://…".
    """

    def __init__(self) -> None:
        """Creates an empty registry."""
        self.reader_registry: dict[str, Callable[..., object]] = {}

    def register_reader(self, reader_name: str, reader_class: Callable[..., object]) -> None:
        """Sets the reader class for a scheme, replacing an existing one."""
        if self.reader_registry.get(reader_name, reader_class) is not reader_class:
            default_logger.info("Paths %s://… are now read by %s.", reader_name, reader_class)
        self.reader_registry[reader_name] = reader_class

    def get_reader(self, reader_name: str) -> Callable[..., object] | None:
        """Returns the reader class for a scheme; logs a warning and returns None if there is none."""
        if reader_name not in self.reader_registry:
            hint = did_you_mean(reader_name, self.reader_registry)
            default_logger.warning("There is no reader for paths %s://….%s", reader_name, hint)
        return self.reader_registry.get(reader_name)

    def unregister_reader(self, reader_name: str) -> None:
        """Removes the reader class for a scheme, if there is one."""
        self.reader_registry.pop(reader_name, None)


reader_registery = ReaderRegistry()  # DLRover's spelling
