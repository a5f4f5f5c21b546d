"""Finds the record files that a path, folder or glob pattern matches, and detects their format.

Usage:

    files = find_record_files(["train/", "more-*.tfrecord"])
    kind_of(files, columns_wanted=False)      # "TFRecord"
"""

from __future__ import annotations

import gzip
import os
import posixpath
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import IO, TypeAlias

from ...errors import InputError, did_you_mean
from ...runtime.files import file_io
from ..recordio.records import MAGIC as RECORD_IO_MAGIC
from ..recordio.snappy_framing import masked_crc32c
from .reader_params import CSV, PARQUET, RECORD_IO, TEXT, TF_RECORD

BinaryFile: TypeAlias = "IO[bytes] | gzip.GzipFile"  # open for reading, plain or decompressed

# Exceptions of reading a truncated or damaged gzip file.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)

_GZIP_MAGIC = b"\x1f\x8b\x08"  # the first two bytes alone could be the length of a TFRecord
_PARQUET_MAGIC = b"PAR1"
_BYTES_CHECKED = 1024  # bytes
_BINARY_FORMATS = {
    **{b"x" + level: "compressed by zlib" for level in (b"\x01", b"\x5e", b"\x9c", b"\xda")},
    b"\xff\x06\x00\x00sNaPpY": "compressed by snappy",
    b"BZh91AY": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"PK\x03\x04": "a zip file",
    b"\x89PNG": "a PNG image",
    b"\x08\x01\x12": "a SavedModel",
    _PARQUET_MAGIC: "Parquet",
    RECORD_IO_MAGIC: "RecordIO",
}
_TF_RECORD_HEADER = struct.Struct("<QI")  # a record's length and the checksum of the length


def find_record_files(origins: Sequence[str]) -> list[str]:
    """Returns the files that paths, folders and glob patterns match: sorted within each one, without duplicates.

    In folders, files whose names begin with "." or "_" are ignored; Spark and Hadoop write such files next to the data.

    Raises:
      InputError: If a path, folder or pattern matches no file.
    """
    files: dict[str, None] = {}
    for origin in origins:
        found = _files_of(origin)
        if not found:
            raise InputError(_missing_file_message(origin))
        files.update(dict.fromkeys(found))
    return list(files)


def kind_of(files: Iterable[str], columns_wanted: bool, default: str | None = None) -> tuple[str, list[str]]:
    """Detects the format of files by extension, or else by their first bytes.

    Args:
      files: The files; empty files are ignored.
      columns_wanted: Whether to read CSV by columns; if False, .csv files are TEXT, as in ElasticDL's last versions.
      default: Format to return for unrecognized files; None to raise an error.

    Returns:
      The format, one of READER_TYPES, and the files that are not empty.

    Raises:
      InputError: If the files are of different formats, of an unknown one, or all empty.
    """
    kinds: dict[str, list[str]] = {}
    for path in files:
        if not _is_empty(path):
            kinds.setdefault(_kind_of_file(path, columns_wanted, default), []).append(path)
    if not kinds:
        raise InputError(f"{', '.join(files)}: there are no records; every file is empty.")
    if len(kinds) > 1:
        examples = ", ".join(f"{paths[0]} ({kind})" for kind, paths in kinds.items())
        raise InputError(f"the files are of different kinds: {examples}. Name the ones to read, as in 'folder/*.csv'.")
    return kinds.popitem()


def is_gzipped(path: str) -> bool:
    """Returns whether the content of a file is gzipped, regardless of its name."""
    return head_of(path, len(_GZIP_MAGIC)) == _GZIP_MAGIC


def check_text(path: str) -> None:
    """Checks by its first 1024 bytes, decompressed if gzipped, that a file is text.

    Raises:
      InputError: If the bytes are those of a binary format or of UTF-16, or a gzipped file is damaged.
    """
    head = unzipped_head(path, _BYTES_CHECKED) if is_gzipped(path) else head_of(path, _BYTES_CHECKED)
    form = next((form for magic, form in _BINARY_FORMATS.items() if head.startswith(magic)), "")
    if _begins_tf_record(head[: _TF_RECORD_HEADER.size]):
        form = "TFRecords"
    if not form and b"\0" in head:
        form = f"binary, or text in UTF-16, with a zero at byte {head.index(0)}"
    if form:
        raise InputError(
            f"{path} is not text: it is {form}, and begins with {head[:12].hex(' ')}. Convert it to UTF-8, gzipped or "
            "not."
        )


def _files_of(origin: str) -> list[str]:
    if file_io.isdir(origin):
        paths = [posixpath.join(origin, name) for name in file_io.listdir(origin) if name[0] not in "._"]
    else:  # a file name may contain brackets
        paths = [origin] if file_io.exists(origin) else file_io.glob(origin)
    return [path for path in paths if not file_io.isdir(path)]


def _missing_file_message(origin: str) -> str:
    if file_io.isdir(origin):
        return f"{origin}: there are no records; the folder contains no file."
    folder, name = file_io.parent(origin), os.path.basename(origin)
    beside = file_io.listdir(folder or ".") if file_io.isdir(folder or ".") else []
    return f"{origin}: there is no such file, and nothing matches it as a pattern.{did_you_mean(name, beside)}"


def _is_empty(path: str) -> bool:
    """Returns whether a file has no content; the file of an empty shard may be a gzip file of zero bytes."""
    return not file_io.size_of(path) or (is_gzipped(path) and not unzipped_head(path))


def _kind_of_file(path: str, columns_wanted: bool, default: str | None) -> str:
    name = path.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        return CSV if columns_wanted else TEXT
    if name.endswith(".txt"):
        return TEXT
    head = head_of(path, _TF_RECORD_HEADER.size)
    if name.endswith(".parquet") or head.startswith(_PARQUET_MAGIC):
        return PARQUET
    if head.startswith(RECORD_IO_MAGIC) or name.endswith(".recordio"):
        return RECORD_IO
    if _begins_tf_record(unzipped_head(path) if head.startswith(_GZIP_MAGIC) else head):
        return TF_RECORD
    if name.endswith((".tfrecord", ".tfrecords")):
        return TF_RECORD  # damaged; the reader will raise an error
    if default is not None:
        return default
    raise InputError(
        f"{path}: it begins with {head.hex(' ')}, which is neither RecordIO nor TFRecord, and its name does not "
        "indicate the format. Set the format: reader_type='CSV', 'Text', 'Parquet', … in --data_reader_params."
    )


def head_of(path: str, size: int) -> bytes:
    """Returns the first bytes of a file, without decompression."""
    with file_io.file_system(path).open(path, mode="rb") as file:
        head: bytes = file.read(size)
        return head


def unzipped_head(path: str, size: int = _TF_RECORD_HEADER.size) -> bytes:
    """Returns the first decompressed bytes of a gzipped file.

    Raises:
      InputError: If the file is damaged, or truncated before these bytes.
    """
    with file_io.file_system(path).open(path, mode="rb") as file:
        try:
            return gzip.GzipFile(fileobj=file).read(size)
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{path} is a truncated or damaged gzip file: {error}") from error


def _begins_tf_record(head: bytes) -> bool:
    if len(head) < _TF_RECORD_HEADER.size:
        return False
    _, checksum = _TF_RECORD_HEADER.unpack(head)
    return masked_crc32c(head[:8]) == int(checksum)
