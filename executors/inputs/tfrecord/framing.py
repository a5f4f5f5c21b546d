"""Parses TFRecord files in Python and verifies both checksums of every record, to locate corruption.

A record consists of an 8-byte length, the checksum of the length, the data, and the checksum of the data. If the data
is corrupt, the length still gives the start of the next record. If the length is corrupt, the next record cannot be
found, since later bytes that look like a record may be part of another record's data. In a truncated file, all records
before the truncation are readable. TensorBoard's event files are TFRecord files.

Usage:

    for frame in frames("part-0.tfrecord"):
        frame.number, frame.offset, frame.record, frame.problem
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...errors import InputError
from ...runtime.files import file_io
from ..bad_records import BadRecords
from ..checksums import masked_crc32c
from ..file_signatures import signature_of
from ..gzipped_files import GZIP_ERRORS, BinaryFile, opened

_HEADER = struct.Struct("<QI")  # a record's length and the checksum of the length
_FOOTER = struct.Struct("<I")  # the checksum of the data
HEADER_BYTES = _HEADER.size
FRAME_BYTES = _HEADER.size + _FOOTER.size  # that a record takes besides its data
_AT_ONCE = 16 << 20  # bytes per read: a corrupt file may claim a length far beyond its size


class Frame(NamedTuple):
    """A record and its position in the file.

    Attributes:
      number: Index of the record in the file, from 0.
      offset: Byte offset of the record; for gzipped files, in the uncompressed data.
      record: The data; None if it is corrupt or truncated.
      problem: Why the record cannot be read, or "".
      is_truncated: Whether the file ends inside of the record.
    """

    number: int
    offset: int
    record: bytes | None
    problem: str = ""
    is_truncated: bool = False

    @property
    def place(self) -> str:
        """The position for messages, "1024, record 7": the byte offset, and the number counted from 1."""
        return f"{self.offset}, record {self.number + 1}"


def frames(path: str) -> Iterator[Frame]:
    """Yields all records of a file, including corrupt ones; a truncated record is the last one.

    Raises:
      InputError: If a corrupt length makes it impossible to find the next record, or a gzipped file is damaged; the
        message names the file, and for a corrupt length the record number and offset.
    """
    with opened(path) as file:
        yield from read_frames(file, path)


def read_frames(
    file: BinaryFile, path: str, number: int = 0, offset: int = 0, size: int | None = None
) -> Iterator[Frame]:
    """Yields the records of an open file from a position on; see `frames`.

    Args:
      file: The file, at the position.
      path: Its path, for messages.
      number: Index of the first record to read.
      offset: Byte offset of the first record to read.
      size: Size of an uncompressed file in bytes, to skip over the data: frames then have an empty record. None to read
        and verify the data.
    """
    while True:
        head, is_cut = _read_exactly(file, _HEADER.size, path)
        if not head and not is_cut:
            return
        if len(head) < _HEADER.size:
            problem = f"it is truncated: its header has {len(head)} of {_HEADER.size} bytes"
            yield Frame(number, offset, None, problem, is_truncated=True)
            return
        if not begins_record(head):
            raise _wrong_length_error(path, Frame(number, offset, None), head)
        length = int(_HEADER.unpack(head)[0])
        if size is None:
            body = _read_exactly(file, length + _FOOTER.size, path)[0]
            record, foot, there = body[:length], body[length:], min(length, len(body))
        else:
            record, there = b"", min(length, size - offset - _HEADER.size)
            file.seek(offset + _HEADER.size + there)
            foot = _read_exactly(file, _FOOTER.size, path)[0]
        if len(foot) < _FOOTER.size:
            yield Frame(number, offset, None, f"it is truncated: it has {there} of {length} bytes", is_truncated=True)
            return
        is_good = size is not None or masked_crc32c(record) == _FOOTER.unpack(foot)[0]
        yield Frame(number, offset, record) if is_good else Frame(number, offset, None, "its checksum is wrong")
        number, offset = number + 1, offset + FRAME_BYTES + length


def begins_record(head: bytes) -> bool:
    """Whether bytes begin with the length of a record and its checksum."""
    if len(head) < _HEADER.size:
        return False
    return masked_crc32c(head[:8]) == int(_HEADER.unpack_from(head)[1])


def check_head(path: str, head: bytes) -> None:
    """Checks the first bytes of a file's content; an empty file, or one that is truncated before them, passes.

    Raises:
      InputError: If they are not those of a TFRecord file.
    """
    if len(head) >= _HEADER.size and not begins_record(head):
        raise _wrong_length_error(path, Frame(0, 0, None), head)


def handle_damage(path: str, frame: Frame, bad: BadRecords | None) -> None:
    """Skips a corrupt or truncated record.

    Args:
      path: The file.
      frame: The record.
      bad: Collects the skipped records; None if a bad record is an error.

    Raises:
      InputError: If bad records are not skipped, or if there are too many.
    """
    if bad is None:
        raise InputError(
            f"{path}: the TFRecord file is damaged or truncated: corrupted record at {frame.place}: {frame.problem}. "
            "Write the file again, or pass --on-bad-records=skip:N to skip up to N such records."
        )
    bad.skip(path, f"byte {frame.place}", frame.problem)


def intact_records(path: str, framed: Iterable[Frame], bad: BadRecords | None = None) -> Iterator[bytes]:
    """Yields the data of the records of a file; skips a damaged one, or raises an error, as `handle_damage` does."""
    for frame in framed:
        if frame.record is None:
            handle_damage(path, frame, bad)
        else:
            yield frame.record


def check_tf_records(paths: Iterable[str]) -> None:
    """Reads files completely, to find the damaged one after an error of tf.data, which does not name it.

    Raises:
      InputError: If a file is damaged.
    """
    for path in paths:
        for _ in intact_records(path, frames(path)):
            pass


def describe_damage(patterns: Iterable[str]) -> Iterator[str]:
    """Yields the error message of the first damaged file that matches the glob patterns, if there is one."""
    paths = (path for pattern in patterns for path in file_io.glob(pattern) if not file_io.isdir(path))
    try:
        check_tf_records(paths)
    except InputError as error:
        yield str(error)


def _wrong_length_error(path: str, frame: Frame, head: bytes) -> InputError:
    """Returns the error for a record whose length is corrupt, or for a file that is not a TFRecord file.

    Args:
      path: The file.
      frame: The record.
      head: The bytes at its offset, to recognize other formats.
    """
    if frame.number == 0:
        what = f"it is {form}" if (form := signature_of(head)) else f"it begins with {head.hex(' ')}"
        return InputError(f"{path} is not a TFRecord file, or is damaged from its first byte: {what}.")
    return InputError(
        f"{path}: the TFRecord file is damaged: corrupted record at {frame.place}: its length is wrong, so the later "
        "records of the file cannot be found. Write the file again, or exclude it."
    )


def _read_exactly(file: BinaryFile, size: int, path: str) -> tuple[bytes, bool]:
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
