"""Reads ranges of RecordIO files, and writes them, in the format of wangkuiyi/recordio, which ElasticDL uses.

A file is a sequence of chunks. A chunk consists of a header and a payload. The header has five little-endian 32-bit
words: magic number, CRC-32 of the stored payload, compressor, size of the payload, and number of records. The payload
contains the length and data of each record, compressed as a whole. The format is defined by that package's header.go
and chunk.go.

Usage:

    with RecordWriter("train.recordio") as writer:
        writer.write(example.SerializeToString())
    for records in read_chunks("train.recordio", start=1000, end=2000):
        records     # [b"…", …], the records of one chunk that are in the range
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO

from ....errors import InputError
from ....inputs.bad_records import policy
from ....runtime.files import file_io
from . import snappy_framing

MAGIC = b"\x04\x03\x02\x01"
NO_COMPRESSION, SNAPPY, GZIP = 0, 1, 2
CHUNK_BYTES = 32 << 20  # default chunk size of the Go writer

_READER = "RecordIO"  # its name for `bad_records.policy`
_HEADER = struct.Struct("<4sIIII")
_LENGTH = struct.Struct("<I")
_MAX_RECORD_BYTES = (1 << 31) - 1  # the maximum size of a protobuf message; fits into the 32-bit length


class BrokenChunkError(InputError):
    """A chunk is corrupt or truncated.

    Attributes:
      problem: The reason, for reports of skipped records.
    """

    problem = ""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Position and header fields of a chunk.

    Attributes:
      offset: Byte offset of the header in the file.
      first: Number of the chunk's first record in the file, counted from 0.
      records: Number of records in the chunk.
      size: Size of the payload in bytes.
      crc32: CRC-32 of the payload.
      compressor: NO_COMPRESSION, SNAPPY or GZIP.
    """

    offset: int
    first: int
    records: int
    size: int
    crc32: int
    compressor: int


def read_index(path: str) -> list[Chunk]:
    """Returns a file's chunks, reading only their headers; an empty list for an empty file.

    Raises:
      BrokenChunkError: If the file is truncated, a chunk does not begin with the magic number, or it has no records.
    """
    with _opened(path) as file:
        return list(_headers(path, file))


def read_chunks(path: str, start: int = 0, end: int | None = None) -> Iterator[list[bytes]]:
    """Yields the records [start, end) chunk by chunk; chunks outside of the range are not read.

    Args:
      path: The file.
      start: Number of the first record, counted from 0.
      end: Number of the record to stop before; None, or a number beyond the last record, for the end of the file.

    Raises:
      BrokenChunkError: If a chunk is truncated or corrupt; the message names the file and the chunk's byte offset. If
        bad records are skipped, all records of a chunk that does not decode are skipped; a truncated chunk or a corrupt
        header is still an error, since the next chunk cannot be found.
    """
    bad = policy(_READER)
    with _opened(path) as file:
        for chunk in list(_headers(path, file)):
            inside = slice(max(start - chunk.first, 0), None if end is None else max(end - chunk.first, 0))
            if range(chunk.records)[inside]:
                file.seek(chunk.offset + _HEADER.size)
                try:
                    records = _decoded(path, chunk, file.read(chunk.size))
                except BrokenChunkError as error:
                    if bad is None:
                        raise
                    bad.skip(path, f"byte {chunk.offset}, {chunk.records} records", error.problem, chunk.records)
                    continue
                yield records[inside]


class RecordWriter:
    """Writes records to a file, chunk by chunk; a context manager that closes the file."""

    def __init__(self, path: str, compressor: int = SNAPPY, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Creates the file, or truncates an existing one.

        Args:
          path: The file; its directory must exist.
          compressor: NO_COMPRESSION, SNAPPY (the Go writer's default) or GZIP.
          chunk_bytes: Maximum total size of a chunk's uncompressed records in bytes, unless it has a single record.
        """
        self._compress = _COMPRESS[compressor]
        self._compressor = compressor
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._records: list[bytes] = []
        self._bytes = 0
        self._file = file_io.file_system(path).open(path, mode="wb")

    def write(self, record: bytes) -> None:
        """Adds a record; a record larger than `chunk_bytes` gets its own chunk.

        Raises:
          InputError: If the record has 2 GiB or more.
        """
        if len(record) > _MAX_RECORD_BYTES:
            raise InputError(f"{self._path}: a record has {len(record)} bytes; the limit is {_MAX_RECORD_BYTES}.")
        if self._records and self._bytes + len(record) > self._chunk_bytes:
            self._end_chunk()
        self._records.append(record)
        self._bytes += len(record)

    def close(self) -> None:
        """Writes the last chunk and closes the file."""
        try:
            self._end_chunk()
        finally:
            self._file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _end_chunk(self) -> None:
        if not self._records:
            return
        payload = self._compress(b"".join(part for record in self._records for part in _framed(record)))
        count = len(self._records)
        self._file.write(_HEADER.pack(MAGIC, zlib.crc32(payload), self._compressor, len(payload), count) + payload)
        self._records, self._bytes = [], 0


def _opened(path: str) -> IO[bytes]:
    file: IO[bytes] = file_io.file_system(path).open(path, mode="rb")
    return file


def _headers(path: str, file: IO[bytes]) -> Iterator[Chunk]:
    size_of_file = file_io.size_of(path)
    offset = first = 0
    while offset < size_of_file:
        file.seek(offset)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise _damaged_chunk(path, offset, f"its header is truncated: it has {len(header)} of {_HEADER.size} bytes")
        magic, crc32, compressor, size, records = _HEADER.unpack(header)
        if magic != MAGIC:
            raise _damaged_chunk(path, offset, f"it begins with {magic.hex()}, not with {MAGIC.hex()}")
        there = size_of_file - offset - _HEADER.size
        if size > there:
            raise _damaged_chunk(path, offset, f"it is truncated: it has {there} of {size} bytes")
        if not records:  # no writer writes such chunks, and the payload would be silently ignored
            raise _damaged_chunk(path, offset, "it has no records")
        yield Chunk(offset, first, records, size, crc32, compressor)
        offset += _HEADER.size + size
        first += records


def _decoded(path: str, chunk: Chunk, payload: bytes) -> list[bytes]:
    if zlib.crc32(payload) != chunk.crc32:
        raise _damaged_chunk(path, chunk.offset, f"its checksum is {zlib.crc32(payload):08x}, not {chunk.crc32:08x}")
    decompress = _DECOMPRESS.get(chunk.compressor)
    if decompress is None:
        raise _damaged_chunk(
            path, chunk.offset, f"its compressor {chunk.compressor} is not one of {sorted(_DECOMPRESS)}"
        )
    try:
        return _split(decompress(payload), chunk.records)
    except (ValueError, EOFError, OSError, zlib.error, struct.error) as error:
        raise _damaged_chunk(path, chunk.offset, f"it cannot be decoded: {error}") from error


def _split(data: bytes, count: int) -> list[bytes]:
    records = []
    position = 0
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        position = start + length
        records.append(data[start:position])
    if position != len(data):
        raise ValueError(f"its {count} records take {position} bytes, but it has {len(data)}")
    return records


def _framed(record: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(record)), record


def _damaged_chunk(path: str, offset: int, what: str) -> BrokenChunkError:
    error = BrokenChunkError(f"{path}: the RecordIO chunk at byte {offset} is damaged: {what}. Write the file again.")
    error.problem = what
    return error


def _unchanged(data: bytes) -> bytes:
    return data


_COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NO_COMPRESSION: _unchanged,
    SNAPPY: snappy_framing.compress,
    GZIP: functools.partial(gzip.compress, mtime=0),  # no timestamp, for reproducible files
}
_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NO_COMPRESSION: _unchanged,
    SNAPPY: snappy_framing.decompress,
    GZIP: gzip.decompress,
}
