"""TFRecord files: every way of reading gives the same records and verifies both checksums."""

from __future__ import annotations

import gzip
import struct

from generic_trainer.executors.dialects.dlrover.sharding.tfrecord_ranges import TfRecordRanges
from generic_trainer.executors.inputs.checksums import masked_crc32c

from .target import answer, file_of


def framed(record: bytes) -> bytes:
    """Returns a record in the TFRecord file format, with length and checksums."""
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))


_PLAIN = b"".join(map(framed, [b"", b"one", b"two" * 50, b"\0"]))
SEEDS = [b"", _PLAIN, gzip.compress(_PLAIN, mtime=0), gzip.compress(_PLAIN, mtime=0)[:-20], _PLAIN[:-3]]


def check(data: bytes) -> None:
    """Counts the records, reads all of them at once and one by one, and compares the results."""
    path = file_of(data, "data.tfrecord")
    reader = answer(lambda: TfRecordRanges([path]), path)
    if reader is None or answer(lambda: (reader.count_data(), 1), path) is None:
        return
    count = reader._data_nums
    records = answer(lambda: reader.read_range(0, count), path)
    if records is None:
        return
    assert len(records) == count
    assert [reader.read_range(n, n + 1)[0] for n in reversed(range(min(count, 70)))] == records[:70][::-1]
    if not data.startswith(b"\x1f\x8b\x08"):
        assert b"".join(map(framed, records)) == data
