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
from .framing import FOOT, HEAD, Frame, damaged, lost, read_of

if TYPE_CHECKING:
    from ..readers.record_files import BinaryFile

_STRIDE = 64  # records between two that are found at once

OnDamage = Callable[[str, int, str], None]
DAMAGED = object()  # stands for a record that is left out


class TfRecordRanges:
    """The records of all files, in the files' order.

    Attributes:
      path: The files' names.
      thread_safe: Whether several threads may read: of gzipped files only in the records' order.
    """

    def __init__(self, files: Sequence[str], on_damage: OnDamage | None = None) -> None:
        """Takes the files; reads nothing yet.

        Args:
          files: The files; gzipped ones may be among them.
          on_damage: Called with a file, a byte offset and a problem for each record that is damaged, which is DAMAGED
            among the records then; and for one that is cut off, which is none. None to raise an InputError.
        """
        self.path = ",".join(files)
        self._paths = files
        said = on_damage or _raised
        self._files = [_GzippedFile(path, said) if is_gzipped(path) else _PlainFile(path, said) for path in files]
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

    def read_range(self, start: int, end: int) -> list[object]:
        """Returns the records [start, end).

        Raises:
          InputError: When a file is damaged, or was changed since its records were counted.
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
        """Returns the file of a record, and which of its records it is: ("b.gz", "record 3")."""
        index = bisect.bisect_right(self._ends, number)
        return self._paths[index], f"record {number + 1 - [0, *self._ends][index]}"


class _PlainFile:
    def __init__(self, path: str, on_damage: OnDamage) -> None:
        self._path = path
        self._on_damage = on_damage
        self._places = array.array("Q")  # of every _STRIDE-th record

    def count(self) -> int:
        """Returns the number of records, and finds out where they are."""
        place, number, places = 0, 0, array.array("Q")
        size = file_io.size_of(self._path)
        with _opened(self._path) as file:
            while (length := _length(file, self._path, self._on_damage)) is not None:
                end = place + HEAD.size + length + FOOT.size
                if end > size:
                    self._on_damage(self._path, place, "it is cut off")
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
    """Returns the length of the record that begins here; None at the file's end."""
    head, is_cut = read_of(file, HEAD.size, path)
    if not head and not is_cut:
        return None
    place = file.tell() - len(head)
    if len(head) < HEAD.size:
        on_damage(path, place, "it is cut off")
        return None
    if masked_crc32c(head[:8]) != HEAD.unpack(head)[1]:
        raise lost(path, None if place else 0, place, head)
    return int(HEAD.unpack(head)[0])


def _record(file: BinaryFile, path: str, on_damage: OnDamage) -> object:
    """Returns the record that begins here, or DAMAGED; None at the file's end."""
    place = file.tell()
    length = _length(file, path, on_damage)
    if length is None:
        return None
    record, foot = read_of(file, length, path)[0], read_of(file, FOOT.size, path)[0]
    if len(record) < length or len(foot) < FOOT.size:
        on_damage(path, place, "it is cut off")
        return None
    if masked_crc32c(record) != FOOT.unpack(foot)[0]:
        on_damage(path, place, "its checksum is wrong")
        return DAMAGED
    return record


def _records(file: BinaryFile, path: str, count: int, on_damage: OnDamage) -> list[object]:
    found = [_record(file, path, on_damage) for _ in range(count)]
    if found and found[-1] is None:
        raise InputError(f"{path} has fewer records than when they were counted; was it changed meanwhile?")
    return found


def _raised(path: str, place: int, problem: str) -> None:
    raise damaged(path, Frame(None, place, None, problem))
