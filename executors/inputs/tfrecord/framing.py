"""Parses TFRecord files in Python and verifies both checksums of every record, to locate corruption.

A record consists of an 8-byte length, the checksum of the length, the data, and the checksum of the data. If the data
is corrupt, the length still gives the start of the next record. If the length is corrupt, the next record cannot be
found, since later bytes that look like a record may be part of another record's data. In a truncated file, all records
before the truncation are readable.

Usage:

    for frame in frames("part-0.tfrecord"):
        frame.number, frame.offset, frame.record, frame.problem
"""

from __future__ import annotations

import dataclasses
import gzip
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...errors import InputError
from ...runtime.files import file_io
from ..readers.record_files import GZIP_ERRORS, is_gzipped
from ..recordio.snappy_framing import masked_crc32c

if TYPE_CHECKING:
    from ..readers.record_files import BinaryFile

HEADER = struct.Struct("<QI")  # a record's length and the checksum of the length
FOOTER = struct.Struct("<I")  # the checksum of the data
_AT_ONCE = 16 << 20  # bytes per read: a corrupt file may claim a length far beyond its size
_OTHER_FORMATS = {
    b"\x1f\x8b": "gzip",
    b"x\x01": "zlib",
    b"x\x9c": "zlib",
    b"x\xda": "zlib",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"\x89PNG": "a PNG image",
    b"PAR1": "Parquet",
    b"PK\x03\x04": "a zip file",
    b"\x04\x03\x02\x01": "RecordIO",
}


@dataclasses.dataclass(frozen=True)
class Frame:
    """A record and its position in the file.

    Attributes:
      number: Index of the record in the file, from 0; None if unknown.
      offset: Byte offset of the record; for gzipped files, in the uncompressed data.
      record: The data; None if it is corrupt or truncated.
      problem: Why the record cannot be read, or "".
    """

    number: int | None
    offset: int
    record: bytes | None
    problem: str = ""


def frames(path: str) -> Iterator[Frame]:
    """Yields all records of a file, including corrupt ones; a truncated record is the last one.

    Raises:
      InputError: If a corrupt length makes it impossible to find the next record, or a gzipped file is damaged; the
        message names the file, and for a corrupt length the record number and offset.
    """
    zipped = is_gzipped(path)
    with file_io.file_system(path).open(path, mode="rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if zipped else raw
        number = offset = 0
        while True:
            head, is_cut = read_exactly(file, HEADER.size, path)
            if not head and not is_cut:
                return
            if len(head) < HEADER.size:
                yield Frame(number, offset, None, f"it is truncated: its header has {len(head)} of {HEADER.size} bytes")
                return
            length, checksum = HEADER.unpack(head)
            if masked_crc32c(head[:8]) != checksum:
                raise wrong_length_error(path, number, offset, head)
            record, _ = read_exactly(file, length, path)
            foot, _ = read_exactly(file, FOOTER.size, path) if len(record) == length else (b"", False)
            if len(foot) < FOOTER.size:
                yield Frame(number, offset, None, f"it is truncated: it has {len(record)} of {length} bytes")
                return
            is_good = masked_crc32c(record) == FOOTER.unpack(foot)[0]
            yield Frame(number, offset, record if is_good else None, "" if is_good else "its checksum is wrong")
            number, offset = number + 1, offset + HEADER.size + length + FOOTER.size


def wrong_length_error(path: str, number: int | None, offset: int, head: bytes) -> InputError:
    """Returns the error for a record whose length is corrupt, or for a file that is not a TFRecord file.

    Args:
      path: The file.
      number: Index of the record, from 0; None if unknown.
      offset: Byte offset of the record.
      head: The bytes at the offset, to recognize other formats.
    """
    if number == 0:
        form = next((form for magic, form in _OTHER_FORMATS.items() if head.startswith(magic)), "")
        what = f"it is {form}" if form else f"it begins with {head.hex(' ')}"
        return InputError(f"{path} is not a TFRecord file, or is damaged from its first byte: {what}.")
    return InputError(
        f"{path}: the TFRecord file is damaged: corrupted record at {place_of(number, offset)}: its length is wrong, "
        "so the later records of the file cannot be found. Write the file again, or exclude it."
    )


def place_of(number: int | None, offset: int) -> str:
    """Formats the position of a record for messages: "1024, record 7", counted from 1, or only the byte offset."""
    return str(offset) if number is None else f"{offset}, record {number + 1}"


def damaged_record_error(path: str, frame: Frame) -> InputError:
    """Returns the error for a corrupt or truncated record."""
    place = place_of(frame.number, frame.offset)
    return InputError(
        f"{path}: the TFRecord file is damaged or truncated: corrupted record at {place}: {frame.problem}. Write the "
        "file again, or pass --on-bad-records=skip:N to skip up to N such records."
    )


def find_damage(path: str) -> InputError | None:
    """Reads a file up to its first corrupt record and returns the error; None if the file is intact."""
    try:
        return next((damaged_record_error(path, frame) for frame in frames(path) if frame.record is None), None)
    except InputError as error:
        return error


def describe_damage(patterns: Iterable[str]) -> Iterator[str]:
    """Yields the error message of the first damaged file that matches the glob patterns, if there is one."""
    for path in (path for pattern in patterns for path in file_io.glob(pattern) if not file_io.isdir(path)):
        if (error := find_damage(path)) is not None:
            yield str(error)
            return


def read_exactly(file: BinaryFile, size: int, path: str) -> tuple[bytes, bool]:
    """Reads `size` bytes, or fewer at the end of the file.

    Returns:
      The bytes, and whether a gzipped file is truncated at this point.

    Raises:
      InputError: If a gzipped file is damaged.
    """
    parts: list[bytes] = []
    try:
        while size and (part := file.read(min(size, _AT_ONCE))):
            parts.append(part)
            size -= len(part)
    except EOFError:
        return b"".join(parts), True
    except GZIP_ERRORS as error:
        raise InputError(f"{path} is a damaged gzip file: {error}. The rest of it cannot be read.") from error
    return b"".join(parts), False
