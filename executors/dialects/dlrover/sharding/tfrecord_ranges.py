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
import itertools
import threading
from collections.abc import Iterator, Sequence

from ....errors import InputError
from ....inputs.bad_records import BadRecords
from ....inputs.gzipped_files import is_gzipped, opened
from ....inputs.tfrecord.framing import Frame, frames, handle_damage, read_frames
from ....runtime.files import file_io

_STRIDE = 64  # records per index entry

DAMAGED = object()  # placeholder for a record that is skipped


class TfRecordRanges:
    """The records of several TFRecord files, in the order of the files.

    Attributes:
      path: The files' paths, separated by commas.
      thread_safe: Whether several threads should read at once; False if a file is gzipped, as it is read sequentially.
    """

    def __init__(self, files: Sequence[str], bad: BadRecords | None = None) -> None:
        """Detects which files are gzipped; reads no records.

        Args:
          files: TFRecord files, each gzipped or not.
          bad: Collects the bad records that are skipped: a corrupt one is returned as DAMAGED, a truncated one ends the
            file. None to raise an InputError instead.
        """
        self.path = ",".join(files)
        self._paths = files
        self._files = [_GzippedFile(path, bad) if is_gzipped(path) else _PlainFile(path, bad) for path in files]
        self.thread_safe = not any(isinstance(file, _GzippedFile) for file in self._files)
        self._ends: list[int] = []
        self._data_nums = 0

    def count_data(self) -> None:
        """Counts the records of all files and sets `_data_nums`; indexes uncompressed files.

        Raises:
          InputError: If a record length is corrupt, or if a file is damaged and `bad` is None.
        """
        self._ends = list(itertools.accumulate(file.count() for file in self._files))
        self._data_nums = self._ends[-1]

    def read_range(self, start: int, end: int) -> list[object]:
        """Returns the records [start, end) as bytes, with DAMAGED in place of corrupt ones.

        Raises:
          InputError: If a file is damaged and `bad` is None, or has fewer records than were counted.
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
    def __init__(self, path: str, bad: BadRecords | None) -> None:
        self._path = path
        self._bad = bad
        self._places = array.array("Q")  # byte offsets of every _STRIDE-th record

    def count(self) -> int:
        """Returns the number of records, and indexes their offsets."""
        number, places = 0, array.array("Q")
        with opened(self._path) as file:
            headers = read_frames(file, self._path, size=file_io.size_of(self._path))
            for frame in _complete(self._path, headers, self._bad):
                if number % _STRIDE == 0:
                    places.append(frame.offset)
                number += 1
        self._places = places
        return number

    def read(self, first: int, last: int) -> list[object]:
        """Returns the records [first, last)."""
        begin = first // _STRIDE * _STRIDE
        place = self._places[first // _STRIDE]
        with opened(self._path) as file:
            file.seek(place)
            found = read_frames(file, self._path, begin, place)
            return _records(self._path, found, last - begin, self._bad)[first - begin :]


class _GzippedFile:
    def __init__(self, path: str, bad: BadRecords | None) -> None:
        self._path = path
        self._bad = bad
        self._lock = threading.Lock()
        self._frames: Iterator[Frame] = iter(())
        self._next: int | None = None  # number of the next frame

    def count(self) -> int:
        """Returns the number of records."""
        return sum(1 for _ in _complete(self._path, frames(self._path), self._bad))

    def read(self, first: int, last: int) -> list[object]:
        """Returns the records [first, last)."""
        with self._lock:
            if self._next is None or first < self._next:
                self._frames, self._next = frames(self._path), 0
            while self._next < first:
                skipped = min(first - self._next, _STRIDE)
                self._next += len(_records(self._path, self._frames, skipped, self._bad))
            self._next = last
            return _records(self._path, self._frames, last - first, self._bad)


def _complete(path: str, found: Iterator[Frame], bad: BadRecords | None) -> Iterator[Frame]:
    """Yields the frames up to the end of the file, or to a truncated one; handles the damaged ones."""
    for frame in found:
        if frame.problem:
            handle_damage(path, frame, bad)
        if not frame.is_truncated:
            yield frame


def _records(path: str, found: Iterator[Frame], count: int, bad: BadRecords | None) -> list[object]:
    complete = itertools.islice(_complete(path, found, bad), count)
    records = [DAMAGED if frame.record is None else frame.record for frame in complete]
    if len(records) < count:
        raise InputError(
            f"{path} has fewer records than when they were counted; check whether it was changed meanwhile."
        )
    return records
