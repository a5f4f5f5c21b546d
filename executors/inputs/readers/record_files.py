"""Finds the record files that a path, folder or glob pattern matches, and detects their format.

Usage:

    files = find_record_files(["train/", "more-*.tfrecord"])
    kind_of(files, columns_wanted=False)      # "TFRecord"
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Sequence

from ...errors import InputError, did_you_mean
from ...runtime.files import file_io
from ..file_signatures import PARQUET_MAGIC, RECORD_IO_MAGIC, format_of
from ..gzipped_files import head_of, unzipped_head
from ..tfrecord.framing import HEADER_BYTES, begins_record

CSV, RECORD_IO, TF_RECORD, TEXT, PARQUET = "CSV", "RecordIO", "TFRecord", "Text", "Parquet"
_BYTES_CHECKED = 1024  # bytes
_OTHER = "other"


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
      columns_wanted: Whether to read CSV by columns; if False, .csv files are TEXT.
      default: Format to return for unrecognized files; None to raise an error.

    Returns:
      The format, such as CSV, and the files that are not empty.

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


def check_text(path: str) -> None:
    """Checks by its first 1024 bytes, decompressed if gzipped, that a file is text.

    Raises:
      InputError: If the bytes are those of a binary format or of UTF-16, or a gzipped file is damaged.
    """
    head = unzipped_head(path, _BYTES_CHECKED)
    if form := "TFRecords" if begins_record(head) else _binary_format(head):
        raise InputError(
            f"{path} is not text: it is {form}, and begins with {head[:12].hex(' ')}. Convert it to UTF-8, gzipped or "
            "not."
        )


def is_other_format(path: str) -> bool:
    """Returns whether a file is binary, and of none of the formats that can be read, by its name and its beginning."""
    if _is_empty(path) or _kind_of_file(path, columns_wanted=False, default=_OTHER) != _OTHER:
        return False
    return bool(_binary_format(unzipped_head(path, _BYTES_CHECKED)))


def _binary_format(head: bytes) -> str:
    """Returns the name of a file's binary format by its first bytes; "" for text."""
    if (form := format_of(head)) or b"\0" not in head:
        return form
    return f"binary, or text in UTF-16, with a zero at byte {head.index(0)}"


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
    return not file_io.size_of(path) or not unzipped_head(path, 1)


def _kind_of_file(path: str, columns_wanted: bool, default: str | None) -> str:
    name = path.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        return CSV if columns_wanted else TEXT
    if name.endswith(".txt"):
        return TEXT
    head = head_of(path, HEADER_BYTES)
    if name.endswith(".parquet") or head.startswith(PARQUET_MAGIC):
        return PARQUET
    if head.startswith(RECORD_IO_MAGIC) or name.endswith(".recordio"):
        return RECORD_IO
    if begins_record(unzipped_head(path, HEADER_BYTES)):
        return TF_RECORD
    if name.endswith((".tfrecord", ".tfrecords")):
        return TF_RECORD  # damaged; the reader will raise an error
    if default is not None:
        return default
    raise InputError(
        f"{path}: it begins with {head.hex(' ')}, which is neither RecordIO nor TFRecord, and its name does not "
        "indicate the format. Set the format: reader_type='CSV', 'Text', 'Parquet', … in --data_reader_params."
    )
