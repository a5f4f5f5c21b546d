"""Snappy framing format: decompression verifies all checksums, and its result survives a round trip."""

from __future__ import annotations

import pyarrow as pa

from generic_trainer.executors.dialects.elasticdl.recordio import snappy_framing
from generic_trainer.executors.inputs.checksums import masked_crc32c

SEEDS = [snappy_framing.compress(data) for data in (b"", b"one", b"two" * 1000, bytes(range(256)) * 3)]


def check(data: bytes) -> None:
    """Reads the data as a stream, and as a raw block in a frame with a valid checksum."""
    _check_stream(data)
    try:
        plain = pa.Codec("snappy").decompress(data, decompressed_size=len(data) * 3, asbytes=True)
    except (OSError, ValueError):
        plain = data
    for kind in (0, 1, 0x7F, 0xFE):
        body = masked_crc32c(plain).to_bytes(4, "little") + data
        _check_stream(b"\xff\x06\0\0sNaPpY" + bytes([kind]) + len(body).to_bytes(3, "little") + body)


def _check_stream(data: bytes) -> None:
    try:
        plain = snappy_framing.decompress(data)
    except ValueError as error:
        assert str(error)
        return
    assert snappy_framing.decompress(snappy_framing.compress(plain)) == plain
    assert len(plain) <= 65536 * (len(data) // 8)  # no frame holds more
