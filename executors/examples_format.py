"""The payload format of example files; `inputs.data_accessor` reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from . import plugins

GROUP = "generic_trainer.input_formats"
TF_EXAMPLE = "FORMAT_TF_EXAMPLE"
SEQUENCE_EXAMPLE = "FORMAT_TF_SEQUENCE_EXAMPLE"
PROTO = "FORMAT_PROTO"


@dataclasses.dataclass(frozen=True)
class ExamplesFormat:
    """Payload format of example files.

    Attributes:
      payload: Name of a value of TFX's `PayloadFormat`, such as FORMAT_TF_EXAMPLE, or of another installed format: one
        of `payload_formats()`.
      data_view: Directory of the DataView that decodes FORMAT_PROTO records, or None.

    Raises:
      ValueError: If no installed format has the `payload`.
    """

    payload: str = TF_EXAMPLE
    data_view: str | None = None

    def __post_init__(self) -> None:
        if not is_payload_format(self.payload):
            raise ValueError(f"payload format {self.payload!r} is not one of {', '.join(payload_formats())}.")

    @property
    def has_examples(self) -> bool:
        """Whether the examples are tf.Examples, or can be converted to them: not records of another kind."""
        return self.payload not in (SEQUENCE_EXAMPLE, PROTO)


def is_payload_format(payload: str) -> bool:
    """Whether an installed package reads a payload format; for the default, without importing the formats."""
    return payload == TF_EXAMPLE or payload in payload_formats()


def payload_formats() -> tuple[str, ...]:
    """Returns the payload formats that installed packages read, the default first."""
    known = sorted(_installed(), key=lambda form: TF_EXAMPLE not in form.payloads)
    return tuple(payload for form in known for payload in form.payloads)


def payload_format_of(patterns: Sequence[str]) -> str:
    """Returns the payload format that the extensions of the training files stand for."""
    for form in _installed() if patterns else ():
        if form.payloads and form.endings and all(pattern.endswith(form.endings) for pattern in patterns):
            return str(form.payloads[0])
    return TF_EXAMPLE


def _installed() -> list[Any]:
    return list(plugins.load(GROUP).values())
