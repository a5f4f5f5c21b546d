"""The masked CRC-32C of TFRecords and of snappy streams."""

from __future__ import annotations

import google_crc32c

_MASK = 0xA282EAD8


def masked_crc32c(data: bytes) -> int:
    """Returns the masked CRC-32C of some bytes: the checksum rotated right by 15 bits, plus a constant."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF
