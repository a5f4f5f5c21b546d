"""`JoinedReader`: the rows of several readers as those of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from .base_reader import ElasticReader


class JoinedReader(ElasticReader):
    """The rows of all readers, in their order.

    Attributes:
      readers: The readers.
    """

    def __init__(self, readers: Sequence[ElasticReader]) -> None:
        """Takes the readers.

        Args:
          readers: ElasticReaders, at least one.
        """
        super().__init__(",".join(str(reader.path) for reader in readers))
        self.readers: list[Any] = list(readers)
        self._ends: list[int] = []

    def count_data(self) -> None:
        """Counts the rows of all readers."""
        self._ends = list(itertools.accumulate(reader.counted() for reader in self.readers))
        self._data_nums = self._ends[-1]

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str | bytes]:
        """Returns the rows of a range, which may be of several readers."""
        return [
            row for reader, first, last in self._parts(start_index, end_index) for row in reader.read_range(first, last)
        ]

    def read_text(self, start_index: int, end_index: int) -> bytes | None:
        """Returns what `FileReader.read_text` does; None if one of the readers gives none."""
        texts = []
        for reader, first, last in self._parts(start_index, end_index):
            text = reader.read_text(first, last) if hasattr(reader, "read_text") else None
            if text is None:
                return None
            texts.append(text)
        return b"\n".join(texts)

    def _parts(self, start: int, end: int) -> Iterator[tuple[ElasticReader, int, int]]:
        """Yields the readers with rows of the range, and which of theirs."""
        if not self._ends:
            self.count_data()
        for reader, begin, stop in zip(self.readers, [0, *self._ends], self._ends, strict=False):
            first, last = max(start, begin), min(end, stop)
            if first < last:
                yield reader, first - begin, last - begin

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
