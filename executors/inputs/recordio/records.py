"""RecordIO files, the ones of wangkuiyi/recordio that ElasticDL trains on: read by ranges, and written.

A file is a row of chunks. A chunk is a header of five little-endian words (magic, CRC-32 of the payload as it is
stored, compressor, size of the payload, number of records) and the payload: length and bytes of each record, compressed
as a whole. The source is that package, header.go and chunk.go.

Usage:

    with RecordWriter("train.recordio") as writer:
        writer.write(example.SerializeToString())
    for records in read_chunks("train.recordio", start=1000, end=2000):
        records     # [b"…", …], those of one chunk that are in the range
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

from ...errors import InputError
from ...runtime.files import file_io
from ..bad_records import policy
from ..readers.reader_params import RECORD_IO
from . import snappy_framing

NO_COMPRESSION, SNAPPY, GZIP = 0, 1, 2
MAGIC = b"\x04\x03\x02\x01"
CHUNK_BYTES = 32 << 20  # what the Go writer fills before it begins another chunk

_HEADER = struct.Struct("<4sIIII")
_LENGTH = struct.Struct("<I")
_MAX_RECORD_BYTES = (1 << 31) - 1  # the largest protobuf message, and lengths stay clear of their 32 bits


class BrokenChunkError(InputError):
    """A chunk cannot be read.

    Attributes:
      problem: What is wrong with it.
    """

    problem = ""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Where a chunk lies and what its header says.

    Attributes:
      offset: Of the header, in bytes from the file's start.
      first: The number of its first record in the file, counted from 0.
      records: How many records it holds.
      size: Of the payload, in bytes.
      crc32: Of the payload.
      compressor: NO_COMPRESSION, SNAPPY or GZIP.
    """

    offset: int
    first: int
    records: int
    size: int
    crc32: int
    compressor: int


def read_index(path: str) -> list[Chunk]:
    """Returns a file's chunks; reads their headers and nothing else. An empty file has none.

    Raises:
      InputError: When the file is cut off, or something else than a chunk begins where one should.
    """
    with _opened(path) as file:
        return list(_headers(path, file))


def read_chunks(path: str, start: int = 0, end: int | None = None) -> Iterator[list[bytes]]:
    """Yields the records of each chunk that are within a range; chunks outside of it are not read.

    Args:
      path: The file.
      start: Number of the first record, counted from 0.
      end: Number of the record to stop before; None for the file's end. Ranges beyond it are cut there.

    Raises:
      InputError: When a chunk is cut off or damaged; it names the file and the chunk's byte offset. Where bad records
        are left out, so are all records of a chunk that does not decode; one that is cut off is an error yet, as then
        nobody knows where the next one would have begun.
    """
    bad = policy(RECORD_IO)
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
    """Writes records to a file, chunk by chunk."""

    def __init__(self, path: str, compressor: int = SNAPPY, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Makes the file, or empties it.

        Args:
          path: The file; its folder must be there.
          compressor: NO_COMPRESSION, SNAPPY (what the Go writer takes by default) or GZIP.
          chunk_bytes: A chunk ends before its records get larger than this, uncompressed.
        """
        self._compress = _COMPRESS[compressor]
        self._compressor = compressor
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._records: list[bytes] = []
        self._bytes = 0
        self._file = file_io.file_system(path).open(path, mode="wb")

    def write(self, record: bytes) -> None:
        """Adds a record; one larger than a chunk gets a chunk of its own.

        Raises:
          InputError: When the record has 2 GiB or more.
        """
        if len(record) > _MAX_RECORD_BYTES:
            raise InputError(
                f"{self._path}: a record has {len(record)} bytes; at most {_MAX_RECORD_BYTES} can be kept."
            )
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
            raise _broken(path, offset, f"its header is cut off: {len(header)} of {_HEADER.size} bytes are there")
        magic, crc32, compressor, size, records = _HEADER.unpack(header)
        if magic != MAGIC:
            raise _broken(path, offset, f"it begins with {magic.hex()}, not with {MAGIC.hex()}")
        there = size_of_file - offset - _HEADER.size
        if size > there:
            raise _broken(path, offset, f"it is cut off: {there} of {size} bytes are there")
        if not records:  # it would hide what it holds; no writer writes such a chunk
            raise _broken(path, offset, "it has no records")
        yield Chunk(offset, first, records, size, crc32, compressor)
        offset += _HEADER.size + size
        first += records


def _decoded(path: str, chunk: Chunk, payload: bytes) -> list[bytes]:
    if zlib.crc32(payload) != chunk.crc32:
        raise _broken(path, chunk.offset, f"its checksum is {zlib.crc32(payload):08x}, not {chunk.crc32:08x}")
    decompress = _DECOMPRESS.get(chunk.compressor)
    if decompress is None:
        raise _broken(path, chunk.offset, f"its compressor {chunk.compressor} is none of {sorted(_DECOMPRESS)}")
    try:
        return _split(decompress(payload), chunk.records)
    except (ValueError, EOFError, OSError, zlib.error, struct.error) as error:
        raise _broken(path, chunk.offset, f"it does not decode: {error}") from error


def _split(data: bytes, count: int) -> list[bytes]:
    records = []
    position = 0
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        position = start + length
        records.append(data[start:position])
    if position != len(data):
        raise ValueError(f"its {count} records take {position} bytes, and it has {len(data)}")
    return records


def _framed(record: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(record)), record


def _broken(path: str, offset: int, what: str) -> BrokenChunkError:
    error = BrokenChunkError(f"{path}: the RecordIO chunk at byte {offset} is broken: {what}. Write the file again.")
    error.problem = what
    return error


def _as_it_is(data: bytes) -> bytes:
    return data


_COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NO_COMPRESSION: _as_it_is,
    SNAPPY: snappy_framing.compress,
    GZIP: functools.partial(gzip.compress, mtime=0),  # the same records give the same bytes
}
_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NO_COMPRESSION: _as_it_is,
    SNAPPY: snappy_framing.decompress,
    GZIP: gzip.decompress,
}
