"""`FileReader`: the lines of a text file as rows.

Usage, as in a conf:

    train_set = {"reader": FileReader("clicks.csv", skip_header=False), …}
"""

from __future__ import annotations

import os

from ....errors import InputError
from ..text.line_file import LineFile
from .base_reader import READ_METHODS, ElasticReader
from .constants import TFConstants
from .reader_util import reader_registery


class FileReader(ElasticReader):
    """A thread-safe reader of the lines of a text file.

    The file is opened when its rows are first counted or read, and is not held in memory; see `LineFile` for the
    definition of a row.
    """

    _skip_header = True
    _file: LineFile | None = None

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        skip_header: bool = True,
        num_epochs: int = 1,
        batch_size: int = 64,
        enable_dynamic_sharding: bool = True,
        file_name: str | os.PathLike[str] | None = None,
    ) -> None:
        """Sets the file; it is not opened yet.

        Args:
          path: The file, optionally with the prefix "file://"; it may be gzipped.
          skip_header: Whether to skip the first row.
          num_epochs: See ElasticReader.
          batch_size: See ElasticReader.
          enable_dynamic_sharding: See ElasticReader.
          file_name: The name of `path` in DLRover 0.1; used if `path` is None.
        """
        super().__init__(file_name if path is None else path, num_epochs, batch_size, enable_dynamic_sharding)
        self._skip_header = skip_header

    @property
    def thread_safe(self) -> bool | None:
        """True, or None (unknown) for a subclass that overrides how rows are read."""
        return True if self._is_plain() else None

    @property
    def skip_header(self) -> bool:
        """Whether the first row is skipped."""
        return self._skip_header

    @skip_header.setter
    def skip_header(self, skip_header: bool) -> None:
        self._skip_header = skip_header

    def count_data(self) -> None:
        """Sets `_data_nums` to the number of rows, without the header row.

        Raises:
          InputError: When the file cannot be read.
        """
        self._data_nums = max(len(self._lines()) - bool(self._skip_header), 0)

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        """Returns the rows of a range; the header row is not counted.

        See `LineFile.text_rows` for the handling of bytes that are not UTF-8.

        Raises:
          InputError: When the file cannot be read, or was modified while it was read.
          IndexError: When the range exceeds the file's rows.
        """
        lines, header = self._lines(), self._rows_before()
        return lines.text_rows(start_index + header, end_index + header)

    def read_text(self, start_index: int, end_index: int) -> bytes | None:
        r"""Returns the rows of a range joined by "\n", which is faster than a list of rows.

        Returns None for a subclass that overrides how rows are read.

        Raises:
          InputError: As `read_data_by_index_range`.
          IndexError: As `read_data_by_index_range`.
        """
        if not self._is_plain():
            return None
        lines, header = self._lines(), self._rows_before()
        return lines.text(start_index + header, end_index + header)

    def header(self) -> str | None:
        """Returns the skipped header row; None if no row is skipped or the file is empty."""
        lines = self._lines()
        return lines.text_rows(0, 1)[0] if self._skip_header and len(lines) else None

    def _is_plain(self) -> bool:
        """Returns whether the reading methods are those of FileReader, not overridden by a subclass."""
        return all(getattr(type(self), name) is getattr(FileReader, name) for name in READ_METHODS)

    def _rows_before(self) -> int:
        return 1 if self._skip_header and len(self._lines()) else 0

    def _lines(self) -> LineFile:
        if not self._path:
            raise InputError(f"{type(self).__qualname__} has no path. Give it a file: FileReader('train.csv').")
        path = os.fspath(self._path).removeprefix(TFConstants.FILE_SCHEME())
        file = self._file
        # If two threads open it at the same time, one of the two objects is discarded.
        if file is None or file.path != path:
            file = self._file = LineFile(path)
        return file


reader_registery.register_reader(TFConstants.FILE_SCHEME.name, FileReader)
