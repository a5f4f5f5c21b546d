r"""A text file as rows that are read by their numbers, without holding the file in memory.

The file is scanned once for its line ends, block by block through NumPy. Of every sixteenth row the place is kept, half
a byte a row; the rows of a range are then read at once and split.

* "\n" and "\r\n" end a line; the last one may have no end. Nothing else is stripped: a tab at a row's end is a field.
* Lines with nothing in them are no rows, wherever they stand.
* A UTF-8 byte-order mark at the beginning is dropped.
* Files that are gzipped, or that lie on a file system with a scheme, are read from a temporary copy on the local disk.

Usage:

    file = LineFile("clicks.csv")
    len(file)               # 1000000
    file.rows(10, 12)       # [b"1,0.5,a", b"0,0.1,b"]
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, AnyStr

import numpy as np

from ...errors import InputError, did_you_mean
from ...runtime.files import file_io
from ..readers.record_files import check_text

if TYPE_CHECKING:
    from ..readers.record_files import BinaryFile

_GZIP_MAGIC = b"\x1f\x8b\x08"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END, _CARRIAGE_RETURN = b"\n", b"\r"
_BLOCK_BYTES = 4 << 20
_STRIDE = 16  # of so many rows one's place is kept; a range reads up to 15 rows too many at either end


class LineFile:
    """The rows of a text file. Any number of threads may read them at once.

    Attributes:
      path: The file.
    """

    def __init__(self, path: str) -> None:
        """Finds the file's rows.

        Args:
          path: A file on any file system that TFX's fileio knows, gzipped or not.

        Raises:
          InputError: When it cannot be read, or is gzipped and damaged.
        """
        self.path = path
        if not file_io.is_remote(path) and os.path.isfile(path):
            check_text(path)
        self._descriptor = _opened(path)
        weakref.finalize(self, os.close, self._descriptor)
        self._size = os.fstat(self._descriptor).st_size
        self._places, self._count = _places(self._descriptor, self._size)

    def __reduce__(self) -> tuple[type[LineFile], tuple[str]]:
        return type(self), (self.path,)  # a copy needs a descriptor of its own

    def __len__(self) -> int:
        return self._count

    def rows(self, start: int, end: int) -> list[bytes]:
        """Returns the rows of a range, without their line ends.

        Args:
          start: Number of the first row, counted from 0.
          end: Number of the row to stop before.

        Raises:
          IndexError: When the file does not have these rows.
          InputError: When the file has changed since its rows were found.
        """
        return self._cut(self._read(start, end).split(_LINE_END), start, end)

    def text_rows(self, start: int, end: int) -> list[str]:
        """Returns the rows of a range as text; see `rows`.

        Bytes that are not UTF-8 come as lone surrogates, as in Python's names of files: encoding with the handler
        "surrogateescape" gives the row as it is in the file.
        """
        block = self._read(start, end).decode("utf-8", "surrogateescape")
        return self._cut(block.split("\n"), start, end)

    def text(self, start: int, end: int) -> bytes:
        r"""Returns the rows of a range as they stand in the file, in a fifth of the time of `rows`.

        "\n" is between them, and may be behind the last; there may be empty lines. Of a file that has changed since its
        rows were found, there may be more or fewer rows.

        Raises:
          IndexError: When the file does not have these rows.
        """
        block = self._read(start, end)
        skip, more = start % _STRIDE, min(-end % _STRIDE, self._count - end)
        begin, stop = 0, len(block)
        while skip and (line_end := block.find(_LINE_END, begin)) >= 0:
            skip -= line_end > begin  # an empty line is no row
            begin = line_end + 1
        while more and (line_end := block.rfind(_LINE_END, begin, stop)) >= 0:
            more -= stop - line_end > 1
            stop = line_end
        return block[begin : stop + 1]

    def _read(self, start: int, end: int) -> bytes:
        """Returns the lines from the last kept place before the range to the first one after it."""
        if not 0 <= start <= end <= self._count:
            raise IndexError(f"{self.path} has {self._count} rows; there is no range from {start} to {end} in it.")
        if start == end:
            return b""
        after = -(-end // _STRIDE)
        stop = int(self._places[after]) if after < len(self._places) else self._size
        block = b"".join(_blocks(self._descriptor, int(self._places[start // _STRIDE]), stop))
        if stop == self._size:
            block = block.removesuffix(_CARRIAGE_RETURN)
        return block.replace(b"\r\n", _LINE_END) if _CARRIAGE_RETURN in block else block

    def _cut(self, lines: list[AnyStr], start: int, end: int) -> list[AnyStr]:
        skip = start % _STRIDE
        rows = list(filter(None, lines))[skip : skip + end - start]
        if len(rows) != end - start:
            raise InputError(
                f"{self.path} was changed while it was read: rows {start} to {end} are not there any more."
            )
        return rows


def _places(descriptor: int, size: int) -> tuple[np.ndarray, int]:
    """Returns where every `_STRIDE`th row begins, in bytes, and the number of rows."""
    begin = len(_BYTE_ORDER_MARK) if os.pread(descriptor, len(_BYTE_ORDER_MARK), 0) == _BYTE_ORDER_MARK else 0
    kept: list[np.ndarray] = []
    count, position, before = 0, begin, _LINE_END
    for block in _blocks(descriptor, begin, size):
        data = np.frombuffer(before + block, np.uint8)
        ends: np.ndarray = np.flatnonzero(data[1:] == ord(_LINE_END)) + position
        first = position - 1  # where `data` begins
        position += len(block)
        before = block[-1:]
        if position == size and before != _LINE_END:
            ends = np.append(ends, size)  # the last line has no end
        starts = np.concatenate([[begin], ends[:-1] + 1]) if len(ends) else ends
        lengths = ends - starts
        # The byte before a line's end is in this block, or it is the one before it.
        blank = (lengths == 0) | ((lengths == 1) & (data[ends - 1 - first] == ord(_CARRIAGE_RETURN)))
        starts = starts[~blank]
        kept.append(starts[-count % _STRIDE :: _STRIDE])
        count += len(starts)
        begin = int(ends[-1]) + 1 if len(ends) else begin
    return np.concatenate(kept) if kept else np.zeros(0, np.int64), count


def _blocks(descriptor: int, start: int, stop: int) -> Iterator[bytes]:
    """Yields the bytes of a file from one place to another; fewer, when the file has got shorter."""
    while start < stop:
        block = os.pread(descriptor, min(_BLOCK_BYTES, stop - start), start)
        if not block:
            return
        yield block
        start += len(block)


def _opened(path: str) -> int:
    """Returns a file descriptor that the text can be read from at any place."""
    try:
        with _on_disk(path) as file:
            if os.pread(file.fileno(), len(_GZIP_MAGIC), 0) != _GZIP_MAGIC:
                return os.dup(file.fileno())
            with _copy(gzip.GzipFile(fileobj=file)) as unpacked:
                return os.dup(unpacked.fileno())
    except FileNotFoundError as error:
        raise InputError(_nothing_there(path)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _on_disk(path: str) -> IO[bytes]:
    """Returns a file, opened; a copy of it where it lies on another file system."""
    if not file_io.is_remote(path):
        return open(path, "rb")
    if not file_io.exists(path):
        raise FileNotFoundError(path)
    with file_io.file_system(path).open(path, mode="rb") as file:
        return _copy(file)


def _copy(file: BinaryFile) -> IO[bytes]:
    """Returns a copy that vanishes when it is closed."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    try:
        shutil.copyfileobj(file, copy, _BLOCK_BYTES)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def _nothing_there(path: str) -> str:
    folder, name = file_io.parent(path), os.path.basename(path)
    beside = file_io.listdir(folder) if file_io.isdir(folder) else []
    return f"{path}: there is no such file.{did_you_mean(name, beside)} A relative path begins at {os.getcwd()}."
