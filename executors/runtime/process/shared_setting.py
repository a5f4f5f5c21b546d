"""A setting of the whole process that several threads need at the same time.

_TEMPORARY = SharedSetting(temporary_folder)   # a function that returns a context manager

with _TEMPORARY.held():                        # in any number of threads
    …
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class SharedSetting:
    """Enters a context manager for the first of the threads that hold it, and leaves it after the last one.

    Threads that each restore the value which they have found would leave that of another thread, for good.

    Args:
      make: Returns the context manager that makes and undoes the setting.
    """

    def __init__(self, make: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._holders = 0
        self._setting = contextlib.ExitStack()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Holds the setting during the block."""
        with self._lock:
            if not self._holders:
                self._setting.enter_context(self._make())
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._setting.close()
