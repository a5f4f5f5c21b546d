"""The payload format of example files; `inputs.data_accessor` reads them."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import plugins

INPUT_FORMATS = "generic_trainer.input_formats"
TF_EXAMPLE = "FORMAT_TF_EXAMPLE"
SEQUENCE_EXAMPLE = "FORMAT_TF_SEQUENCE_EXAMPLE"
PROTO = "FORMAT_PROTO"


@dataclasses.dataclass(frozen=True)
class ExamplesFormat:
    """Payload format of example files.

    Attributes:
      payload: Name of a value of TFX's `PayloadFormat`, such as FORMAT_TF_EXAMPLE, or of another installed format.
      data_view: Directory of the DataView that decodes FORMAT_PROTO records, or None.

    Raises:
      ValueError: If no installed format has the `payload`.
    """

    payload: str = TF_EXAMPLE
    data_view: str | None = None

    def __post_init__(self) -> None:
        # The default needs no look-up, which imports all formats.
        if self.payload != TF_EXAMPLE and self.payload not in payload_formats():
            raise ValueError(f"payload format {self.payload!r} is not one of {', '.join(payload_formats())}.")


def has_examples(payload: str) -> bool:
    """Whether files of a payload format can be read as tf.Examples."""
    return payload not in (SEQUENCE_EXAMPLE, PROTO)


def payload_formats() -> list[str]:
    """Returns the payload formats that installed packages read, the default first."""
    installed: list[Any] = list(plugins.load(INPUT_FORMATS).values())
    installed.sort(key=lambda form: TF_EXAMPLE not in form.payloads)
    return [payload for form in installed for payload in form.payloads]
