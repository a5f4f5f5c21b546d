"""RecordIO files: reading by ranges and as a whole give the same records, and all checksums are verified."""

from __future__ import annotations

import struct
import zlib

from generic_trainer.executors.dialects.elasticdl.recordio import records as recordio
from generic_trainer.executors.dialects.elasticdl.recordio.records import MAGIC

from .target import answer, file_of

_RECORDS = [b"", b"one", b"two" * 100, b"\0\xff", b"5"]


def _seed(compressor: int, chunk_bytes: int) -> bytes:
    path = file_of(b"", "seed.recordio")
    with recordio.RecordWriter(path, compressor, chunk_bytes) as writer:
        for record in _RECORDS:
            writer.write(record)
    with open(path, "rb") as file:
        return file.read()


_PAYLOADS = [_seed(compressor, 1 << 20)[20:] for compressor in (0, 1, 2)]
SEEDS = [b"", *(bytes([kind, len(_RECORDS)]) + payload for kind, payload in enumerate(_PAYLOADS))]
SEEDS += [*(_seed(compressor, size) for compressor in (0, 1, 2) for size in (1 << 20, 8))]


def check(data: bytes) -> None:
    """Reads the data as a file, and as the payload of a chunk with a valid checksum, which fuzzing would not find."""
    _check_file(data)
    if len(data) > 2:
        payload = data[2:]
        header = MAGIC + struct.pack("<IIII", zlib.crc32(payload), data[0] % 4, len(payload), data[1])
        _check_file(header + payload)


def _check_file(data: bytes) -> None:
    path = file_of(data, "data.recordio")
    records = answer(lambda: [record for chunk in recordio.read_chunks(path) for record in chunk], path)
    if records is None:
        return
    index = recordio.read_index(path)
    assert len(records) == sum(chunk.records for chunk in index)
    assert all(zlib.crc32(data[c.offset + 20 : c.offset + 20 + c.size]) == c.crc32 for c in index)
    parts = [record for n in range(len(records)) for chunk in recordio.read_chunks(path, n, n + 1) for record in chunk]
    assert parts == records
    plain = b"".join(struct.pack("<I", len(record)) + record for record in records)
    stored = b"".join(data[c.offset + 20 : c.offset + 20 + c.size] for c in index)
    assert plain == stored or any(c.compressor for c in index)
