"""`JoinedReader`: concatenates the rows of several readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from .base_reader import ElasticReader


class JoinedReader(ElasticReader):
    """A reader of the concatenated rows of several readers.

    Attributes:
      readers: The readers, in order.
    """

    def __init__(self, readers: Sequence[ElasticReader]) -> None:
        """Sets the readers.

        Args:
          readers: At least one ElasticReader.
        """
        super().__init__(",".join(str(reader.path) for reader in readers))
        self.readers: list[Any] = list(readers)
        self._ends: list[int] = []

    def count_data(self) -> None:
        """Counts the rows of all readers."""
        self._ends = list(itertools.accumulate(reader.counted() for reader in self.readers))
        self._data_nums = self._ends[-1]

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str | bytes]:
        """Returns the rows of a range, which may span several readers."""
        return [
            row for reader, first, last in self._parts(start_index, end_index) for row in reader.read_range(first, last)
        ]

    def read_text(self, start_index: int, end_index: int) -> bytes | None:
        r"""Returns the rows of a range joined by "\n"; None if one of the readers does not support `read_text`."""
        texts = []
        for reader, first, last in self._parts(start_index, end_index):
            text = reader.read_text(first, last) if hasattr(reader, "read_text") else None
            if text is None:
                return None
            texts.append(text)
        return b"\n".join(texts)

    def _parts(self, start: int, end: int) -> Iterator[tuple[ElasticReader, int, int]]:
        """Yields (reader, first row, row to stop before) for each reader with rows in the range."""
        if not self._ends:
            self.count_data()
        for reader, begin, stop in zip(self.readers, [0, *self._ends], self._ends, strict=False):
            first, last = max(start, begin), min(end, stop)
            if first < last:
                yield reader, first - begin, last - begin

    @property
    def thread_safe(self) -> bool | None:
        """True if all readers are thread-safe, else None (unknown)."""
        return all(getattr(reader, "thread_safe", None) for reader in self.readers) or None

    @property
    def skip_header(self) -> bool:
        """Whether any reader skips its first row; setting it applies to all readers."""
        return any(getattr(reader, "skip_header", False) for reader in self.readers)

    @skip_header.setter
    def skip_header(self, skip_header: bool) -> None:
        self._ends = []
        for reader in self.readers:
            reader.skip_header = skip_header

    def header(self) -> str | None:
        """Returns the header row that the first reader skips; None if it skips none."""
        header = getattr(self.readers[0], "header", None)
        return header() if header else None
