"""Finds the record files that a path, folder or glob pattern matches, and detects their common format.

Usage:

    files = find_record_files(["train/", "more-*.tfrecord"])
    kind, form, files = common_format(files, columns_wanted=False)      # kind: "TFRecord"
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from ...errors import InputError, did_you_mean
from ...runtime.files import file_io
from ..gzipped_files import unzipped_head
from ..input_format import InputFormat, formats, recognized

CSV, TF_RECORD, PARQUET = "CSV", "TFRecord", "Parquet"  # names of formats
TEXT = "Text"  # lines of text that are not read as columns


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


def common_format(paths: Sequence[str], columns_wanted: bool) -> tuple[str, InputFormat, list[str]]:
    """Detects the format of files.

    Args:
      paths: The files; empty files are ignored.
      columns_wanted: Whether CSV is read by columns, rather than as lines of text.

    Returns:
      The format's name, or TEXT for lines of text; the format, CSV if it is unknown; and the files that are not empty.

    Raises:
      InputError: If the files are of different formats, or all empty.
    """
    kinds: dict[str, tuple[InputFormat, list[str]]] = {}
    for path in paths:
        if file_io.size_of(path) and unzipped_head(path, 1):  # the file of an empty shard may be gzipped
            form = recognized(path)
            is_lines = form is None or (form.is_text and not (columns_wanted and form.header))
            kind = TEXT if form is None or is_lines else form.name
            kinds.setdefault(kind, (form or formats()["csv"], []))[1].append(path)
    if not kinds:
        raise InputError(f"{', '.join(paths)}: there are no records; every file is empty.")
    if len(kinds) > 1:
        examples = ", ".join(f"{files[0]} ({kind})" for kind, (_, files) in kinds.items())
        raise InputError(f"the files are of different kinds: {examples}. Name the ones to read, as in 'folder/*.csv'.")
    [(kind, (form, files))] = kinds.items()
    return kind, form, files


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
