"""`FileReader`: the lines of a text file as rows.

Usage, as in a conf:

    train_set = {"reader": FileReader("clicks.csv", skip_header=False), …}
"""

from __future__ import annotations

import os

from ....errors import InputError
from ....inputs.csv.line_file import LineFile
from .base_reader import WAYS_TO_READ, ElasticReader
from .constants import TFConstants
from .reader_util import reader_registery


class FileReader(ElasticReader):
    """The lines of a text file. Any number of threads may read them at once.

    The file is opened when its rows are first counted or read, and isn't held in memory; see `LineFile` for what a row
    is.
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
        """Takes the file.

        Args:
          path: The file, with or without "file://" before it; gzipped or not.
          skip_header: Whether the first row is left out.
          num_epochs: See ElasticReader.
          batch_size: See ElasticReader.
          enable_dynamic_sharding: See ElasticReader.
          file_name: What `path` was called in DLRover 0.1.
        """
        super().__init__(file_name if path is None else path, num_epochs, batch_size, enable_dynamic_sharding)
        self._skip_header = skip_header

    @property
    def thread_safe(self) -> bool | None:
        """True, unless a subclass reads otherwise: then it is for the subclass to say."""
        return True if self._is_plain() else None

    @property
    def skip_header(self) -> bool:
        """Whether the first row is left out."""
        return self._skip_header

    @skip_header.setter
    def skip_header(self, skip_header: bool) -> None:
        self._skip_header = skip_header

    def count_data(self) -> None:
        """Sets `_data_nums` to the number of rows.

        Raises:
          InputError: When the file cannot be read.
        """
        self._data_nums = max(len(self._lines()) - bool(self._skip_header), 0)

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        """Returns the rows of a range; the header has no number. For bytes that are not UTF-8 see `LineFile.text_rows`.

        Raises:
          InputError: When the file cannot be read, or was changed while it was read.
          IndexError: When the file does not have these rows.
        """
        lines, header = self._lines(), self._rows_before()
        return lines.text_rows(start_index + header, end_index + header)

    def read_text(self, start_index: int, end_index: int) -> bytes | None:
        r"""Returns the rows of a range with "\n" between them, faster than one by one; None if a subclass has its own.

        Raises:
          InputError: As `read_data_by_index_range`.
          IndexError: As `read_data_by_index_range`.
        """
        if not self._is_plain():
            return None
        lines, header = self._lines(), self._rows_before()
        return lines.text(start_index + header, end_index + header)

    def header(self) -> str | None:
        """Returns the row that is left out as the header; None when there is none."""
        lines = self._lines()
        return lines.text_rows(0, 1)[0] if self._skip_header and len(lines) else None

    def _is_plain(self) -> bool:
        """Returns whether no subclass reads otherwise."""
        return all(getattr(type(self), name) is getattr(FileReader, name) for name in WAYS_TO_READ)

    def _rows_before(self) -> int:
        return 1 if self._skip_header and len(self._lines()) else 0

    def _lines(self) -> LineFile:
        if not self._path:
            raise InputError(f"{type(self).__qualname__} has no path. Give it a file: FileReader('train.csv').")
        path = os.fspath(self._path).removeprefix(TFConstants.FILE_SCHEME())
        file = self._file
        # Two threads may open it at the same time; one of the two is dropped then.
        if file is None or file.path != path:
            file = self._file = LineFile(path)
        return file


reader_registery.register_reader(TFConstants.FILE_SCHEME.name, FileReader)
