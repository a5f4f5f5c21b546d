r"""Opens files for reading on any file system, gzipped or not.

Gzip is detected from the first bytes, not from the name.

Usage:

    with opened("clicks.csv.gz") as file:
        file.readline()     # b"clicks,age\n"
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

from ..errors import InputError
from ..runtime.files import file_io

BinaryFile: TypeAlias = io.BufferedReader | gzip.GzipFile

# Exceptions of reading a truncated or damaged gzip file.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)

_MAGIC = b"\x1f\x8b\x08"  # the first two bytes alone could be the length of a TFRecord


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryFile]:
    """Opens a file for reading its content, decompressed if it is gzipped.

    Raises:
      InputError: If a gzipped file is found to be truncated or damaged while it is read in the block.
    """
    with opened_as_is(path) as raw:
        try:
            yield gzip.GzipFile(fileobj=raw) if raw.peek(len(_MAGIC)).startswith(_MAGIC) else raw
        except GZIP_ERRORS as error:
            raise InputError(f"{path} is a truncated or damaged gzip file: {error}") from error


def position(file: BinaryFile) -> int:
    """Returns how many bytes of an opened file have been read, compressed ones if it is gzipped."""
    return int(getattr(file, "fileobj", file).tell())


def is_gzipped(path: str) -> bool:
    """Whether the content of a file is gzipped."""
    return head_of(path, len(_MAGIC)) == _MAGIC


def head_of(path: str, size: int) -> bytes:
    """Returns the first bytes of a file, without decompression."""
    with opened_as_is(path) as file:
        return file.read(size)


def unzipped_head(path: str, size: int) -> bytes:
    """Returns the first bytes of a file's content, decompressed if it is gzipped.

    Raises:
      InputError: If a gzipped file is damaged, or truncated before these bytes.
    """
    with opened(path) as file:
        return file.read(size)


def opened_as_is(path: str) -> io.BufferedReader:
    """Opens a file for reading, without decompression."""
    file = file_io.file_system(path).open(path, mode="rb")
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(_RemoteFile(file))


class _RemoteFile(io.RawIOBase):
    """Adapter for TensorFlow's files, which lack part of Python's interface of binary files."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # a memoryview
        block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()
