"""`JoinedReader`: the rows of several readers as those of one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .base_reader import ElasticReader


class JoinedReader(ElasticReader):
    """The rows of all readers, in their order.

    Attributes:
      readers: The readers.
    """

    def __init__(self, readers: Sequence[Any]) -> None:
        """Takes the readers.

        Args:
          readers: ElasticReaders, at least one.
        """
        super().__init__(",".join(str(reader.path) for reader in readers))
        self.readers = list(readers)
        self._ends: list[int] = []

    def count_data(self) -> None:
        """Counts the rows of all readers."""
        self._ends = list(itertools.accumulate(reader.counted() for reader in self.readers))
        self._data_nums = self._ends[-1]

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[Any]:
        """Returns the rows of a range, which may be of several readers."""
        if not self._ends:
            self.count_data()
        rows: list[Any] = []
        for reader, begin, end in zip(self.readers, [0, *self._ends], self._ends, strict=False):
            first, last = max(start_index, begin), min(end_index, end)
            if first < last:
                rows += reader.read_range(first - begin, last - begin)
        return rows

    @property
    def thread_safe(self) -> bool | None:
        """True when all readers say so of themselves."""
        return all(getattr(reader, "thread_safe", None) for reader in self.readers) or None

    @property
    def skip_header(self) -> bool:
        """Whether the first row of every file is left out."""
        return any(getattr(reader, "skip_header", False) for reader in self.readers)

    @skip_header.setter
    def skip_header(self, skip_header: bool) -> None:
        self._ends = []
        for reader in self.readers:
            reader.skip_header = skip_header

    def header(self) -> str | None:
        """Returns the row that is left out of the first file; None when there is none."""
        header = getattr(self.readers[0], "header", None)
        return header() if header else None
