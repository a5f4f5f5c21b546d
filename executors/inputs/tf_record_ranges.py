"""Records of TFRecord files by their numbers, for readers that share them.

A plain file is entered in the middle: one pass over the lengths of its records finds out where they begin. A gzipped
one cannot be; it is read on from where the last range ended, and from its beginning for a range before that.

Usage:

    records = TfRecordRanges(["a.tfrecord", "b.gz"])
    records.count_data()                  # sets _data_nums
    records.read_range(100, 200)          # a list of bytes
"""

from __future__ import annotations

import array
import gzip
import itertools
import struct
import threading
import zlib
from collections.abc import Sequence
from typing import Any

from .. import file_io
from ..errors import InputError
from .record_files import is_gzipped
from .snappy_framing import masked_crc32c

_HEAD = struct.Struct("<QI")  # a record's length, and the checksum of that
_FOOT = struct.Struct("<I")  # the checksum of the record
_STRIDE = 64  # records between two that are found at once


class TfRecordRanges:
    """The records of all files, in the files' order.

    Attributes:
      path: The files' names.
      thread_safe: Whether several threads may read: of gzipped files only in the records' order.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self.path = ",".join(files)
        self._files = [_GzippedFile(path) if is_gzipped(path) else _PlainFile(path) for path in files]
        self.thread_safe = not any(isinstance(file, _GzippedFile) for file in self._files)
        self._ends: list[int] = []
        self._data_nums = 0

    def count_data(self) -> None:
        """Sets `_data_nums` to the number of records.

        Raises:
          InputError: When a file is damaged or cut off.
        """
        self._ends = list(itertools.accumulate(file.count() for file in self._files))
        self._data_nums = self._ends[-1]

    def read_range(self, start: int, end: int) -> list[bytes]:
        """Returns the records [start, end).

        Raises:
          InputError: When a file is damaged, or was changed since its records were counted.
        """
        if not self._ends:
            self.count_data()
        found: list[bytes] = []
        for file, begin, stop in zip(self._files, [0, *self._ends], self._ends, strict=False):
            first, last = max(start, begin), min(end, stop)
            if first < last:
                found += file.read(first - begin, last - begin)
        return found


class _PlainFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._places = array.array("Q")  # of every _STRIDE-th record

    def count(self) -> int:
        """Returns the number of records, and finds out where they are."""
        place, number, places = 0, 0, array.array("Q")
        with _opened(self._path) as file:
            while (length := _length(file, self._path)) is not None:
                if number % _STRIDE == 0:
                    places.append(place)
                place += _HEAD.size + length + _FOOT.size
                file.seek(place)
                number += 1
        if place > file_io.size_of(self._path):
            raise _damaged(self._path, place)
        self._places = places
        return number

    def read(self, first: int, last: int) -> list[bytes]:
        """Returns the records [first, last)."""
        with _opened(self._path) as file:
            file.seek(self._places[first // _STRIDE])
            return _records(file, self._path, last - first // _STRIDE * _STRIDE)[first % _STRIDE :]


class _GzippedFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: Any = None
        self._next = 0

    def count(self) -> int:
        """Returns the number of records."""
        number = 0
        with _opened(self._path) as raw, gzip.GzipFile(fileobj=raw) as file:
            while _record(file, self._path) is not None:
                number += 1
        return number

    def read(self, first: int, last: int) -> list[bytes]:
        """Returns the records [first, last)."""
        with self._lock:
            if self._file is None or first < self._next:
                self._file, self._next = gzip.GzipFile(fileobj=_opened(self._path)), 0
            while self._next < first:
                skipped = min(first - self._next, _STRIDE)
                self._next += len(_records(self._file, self._path, skipped))
            self._next = last
            return _records(self._file, self._path, last - first)


def _opened(path: str) -> Any:
    return file_io.file_system(path).open(path, mode="rb")


def _length(file: Any, path: str) -> int | None:
    """Returns the length of the record that begins here; None at the file's end."""
    head = file.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size or masked_crc32c(head[:8]) != _HEAD.unpack(head)[1]:
        raise _damaged(path, file.tell() - len(head))
    return int(_HEAD.unpack(head)[0])


def _record(file: Any, path: str) -> bytes | None:
    """Returns the record that begins here; None at the file's end."""
    try:
        place, length = file.tell(), _length(file, path)
        if length is None:
            return None
        record, foot = file.read(length), file.read(_FOOT.size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is gzipped, and cut off or damaged: {error}") from error
    if len(record) < length or len(foot) < _FOOT.size or masked_crc32c(record) != _FOOT.unpack(foot)[0]:
        raise _damaged(path, place)
    return bytes(record)


def _records(file: Any, path: str, count: int) -> list[bytes]:
    found = [_record(file, path) for _ in range(count)]
    if found and found[-1] is None:
        raise InputError(f"{path} has fewer records than when they were counted; was it changed meanwhile?")
    return found  # type: ignore[return-value]


def _damaged(path: str, place: int) -> InputError:
    return InputError(f"{path}: the TFRecord file is damaged or cut off: corrupted record at {place}.")
