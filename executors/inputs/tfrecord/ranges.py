"""Reads TFRecord files by ranges of record numbers, for workers that share the data.

Uncompressed files support random access: one pass over the record lengths builds an index of offsets. Gzipped files are
read sequentially: a range is read on from the end of the last one, or from the start of the file if it lies before it.

Usage:

    records = TfRecordRanges(["a.tfrecord", "b.gz"])
    records.count_data()                  # sets _data_nums
    records.read_range(100, 200)          # a list of bytes
"""

from __future__ import annotations

import array
import bisect
import gzip
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING

from ...errors import InputError
from ...runtime.files import file_io
from ..readers.record_files import is_gzipped
from ..recordio.snappy_framing import masked_crc32c
from .framing import FOOTER, HEADER, Frame, damaged_record_error, read_exactly, wrong_length_error

if TYPE_CHECKING:
    from ..readers.record_files import BinaryFile

_STRIDE = 64  # records per index entry

OnDamage = Callable[[str, int, str], None]
DAMAGED = object()  # placeholder for a record that is skipped


class TfRecordRanges:
    """The records of several TFRecord files, in the order of the files.

    Attributes:
      path: The files' paths, separated by commas.
      thread_safe: Whether several threads should read at once; False if a file is gzipped, as it is read sequentially.
    """

    def __init__(self, files: Sequence[str], on_damage: OnDamage | None = None) -> None:
        """Detects which files are gzipped; reads no records.

        Args:
          files: TFRecord files, each gzipped or not.
          on_damage: Called with the path, byte offset and problem of each bad record. A corrupt record is then returned
            as DAMAGED; a truncated one ends the file. None to raise an InputError instead.
        """
        self.path = ",".join(files)
        self._paths = files
        handle_damage = on_damage or _raise_damaged
        self._files = [
            _GzippedFile(path, handle_damage) if is_gzipped(path) else _PlainFile(path, handle_damage) for path in files
        ]
        self.thread_safe = not any(isinstance(file, _GzippedFile) for file in self._files)
        self._ends: list[int] = []
        self._data_nums = 0

    def count_data(self) -> None:
        """Counts the records of all files and sets `_data_nums`; indexes uncompressed files.

        Raises:
          InputError: If a record length is corrupt, or if a file is damaged and `on_damage` is None.
        """
        self._ends = list(itertools.accumulate(file.count() for file in self._files))
        self._data_nums = self._ends[-1]

    def read_range(self, start: int, end: int) -> list[object]:
        """Returns the records [start, end) as bytes, with DAMAGED in place of corrupt ones.

        Raises:
          InputError: If a file is damaged and `on_damage` is None, or has fewer records than were counted.
        """
        if not self._ends:
            self.count_data()
        found: list[object] = []
        for file, begin, stop in zip(self._files, [0, *self._ends], self._ends, strict=False):
            first, last = max(start, begin), min(end, stop)
            if first < last:
                found += file.read(first - begin, last - begin)
        return found

    def place_of(self, number: int) -> tuple[str, str]:
        """Returns the file of a record and its position there, counted from 1: ("b.gz", "record 3")."""
        index = bisect.bisect_right(self._ends, number)
        return self._paths[index], f"record {number + 1 - [0, *self._ends][index]}"


class _PlainFile:
    def __init__(self, path: str, on_damage: OnDamage) -> None:
        self._path = path
        self._on_damage = on_damage
        self._places = array.array("Q")  # byte offsets of every _STRIDE-th record

    def count(self) -> int:
        """Returns the number of records, and indexes their offsets."""
        place, number, places = 0, 0, array.array("Q")
        size = file_io.size_of(self._path)
        with _opened(self._path) as file:
            while (length := _length(file, self._path, self._on_damage)) is not None:
                end = place + HEADER.size + length + FOOTER.size
                if end > size:
                    self._on_damage(self._path, place, "it is truncated")
                    break
                if number % _STRIDE == 0:
                    places.append(place)
                place = end
                file.seek(place)
                number += 1
        self._places = places
        return number

    def read(self, first: int, last: int) -> list[object]:
        """Returns the records [first, last)."""
        with _opened(self._path) as file:
            file.seek(self._places[first // _STRIDE])
            return _records(file, self._path, last - first // _STRIDE * _STRIDE, self._on_damage)[first % _STRIDE :]


class _GzippedFile:
    def __init__(self, path: str, on_damage: OnDamage) -> None:
        self._path = path
        self._on_damage = on_damage
        self._lock = threading.Lock()
        self._file: gzip.GzipFile | None = None
        self._next = 0

    def count(self) -> int:
        """Returns the number of records."""
        number = 0
        with _opened(self._path) as raw, gzip.GzipFile(fileobj=raw) as file:
            while _record(file, self._path, self._on_damage) is not None:
                number += 1
        return number

    def read(self, first: int, last: int) -> list[object]:
        """Returns the records [first, last)."""
        with self._lock:
            if self._file is None or first < self._next:
                self._file, self._next = gzip.GzipFile(fileobj=_opened(self._path)), 0
            while self._next < first:
                skipped = min(first - self._next, _STRIDE)
                self._next += len(_records(self._file, self._path, skipped, self._on_damage))
            self._next = last
            return _records(self._file, self._path, last - first, self._on_damage)


def _opened(path: str) -> IO[bytes]:
    file: IO[bytes] = file_io.file_system(path).open(path, mode="rb")
    return file


def _length(file: BinaryFile, path: str, on_damage: OnDamage) -> int | None:
    """Reads a record's head and returns the record's length; None at the end of the file."""
    head, is_cut = read_exactly(file, HEADER.size, path)
    if not head and not is_cut:
        return None
    place = file.tell() - len(head)
    if len(head) < HEADER.size:
        on_damage(path, place, "it is truncated")
        return None
    if masked_crc32c(head[:8]) != HEADER.unpack(head)[1]:
        raise wrong_length_error(path, None if place else 0, place, head)
    return int(HEADER.unpack(head)[0])


def _record(file: BinaryFile, path: str, on_damage: OnDamage) -> object:
    """Reads a record and returns its data, or DAMAGED if it is corrupt; None at the end of the file."""
    place = file.tell()
    length = _length(file, path, on_damage)
    if length is None:
        return None
    record, foot = read_exactly(file, length, path)[0], read_exactly(file, FOOTER.size, path)[0]
    if len(record) < length or len(foot) < FOOTER.size:
        on_damage(path, place, "it is truncated")
        return None
    if masked_crc32c(record) != FOOTER.unpack(foot)[0]:
        on_damage(path, place, "its checksum is wrong")
        return DAMAGED
    return record


def _records(file: BinaryFile, path: str, count: int, on_damage: OnDamage) -> list[object]:
    found = [_record(file, path, on_damage) for _ in range(count)]
    if found and found[-1] is None:
        raise InputError(
            f"{path} has fewer records than when they were counted; check whether it was changed meanwhile."
        )
    return found


def _raise_damaged(path: str, place: int, problem: str) -> None:
    raise damaged_record_error(path, Frame(None, place, None, problem))
