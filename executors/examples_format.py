"""The payload format of example files; `inputs.data_accessor` reads them."""

from __future__ import annotations

import dataclasses

TF_EXAMPLE = "FORMAT_TF_EXAMPLE"
SEQUENCE_EXAMPLE = "FORMAT_TF_SEQUENCE_EXAMPLE"
PROTO = "FORMAT_PROTO"
PARQUET = "FORMAT_PARQUET"
PAYLOAD_FORMATS = (TF_EXAMPLE, SEQUENCE_EXAMPLE, PROTO, PARQUET)


@dataclasses.dataclass(frozen=True)
class ExamplesFormat:
    """Payload format of example files.

    Attributes:
      payload: Name of a value of TFX's `PayloadFormat`: one of PAYLOAD_FORMATS, such as FORMAT_TF_EXAMPLE.
      data_view: Directory of the DataView that decodes FORMAT_PROTO records, or None.

    Raises:
      ValueError: If `payload` is not one of PAYLOAD_FORMATS.
    """

    payload: str = TF_EXAMPLE
    data_view: str | None = None

    def __post_init__(self) -> None:
        if self.payload not in PAYLOAD_FORMATS:
            raise ValueError(f"payload format {self.payload!r} is not one of {', '.join(PAYLOAD_FORMATS)}.")
