"""Chooses the row source of a data set.

In order of precedence, the rows come from:

* the run's example files: tf.Examples by the columns' names, or delimited text;
* a reader that reads index ranges (DLRover's ElasticReader and FileReader), which a ledger assigns;
* a reader with only `iterator()`, or a `reader_fn`: a stream, which is re-read up to the position on resuming;
* a path, `file://…` or `fake://…`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import logging

from ...errors import InputError
from ...inputs.bad_records import policy
from ...inputs.message_text import short_repr
from ...inputs.readers.record_files import CSV, TEXT, TF_RECORD, common_format, find_record_files
from .columns import Columns
from .conf import DataSet
from .examples import READER, infer_kinds
from .range_source import ExampleRangeSource, RangeSource
from .sequential_source import ExampleSource, StreamSource
from .shim.file_reader import FileReader
from .shim.joined_reader import JoinedReader
from .shim.path_util import reader_for
from .source import Source
from .text.row_checks import looks_like_data, split_row

if TYPE_CHECKING:
    from .sharding.shared_ledger import Part


def open_source(data: DataSet, columns: Columns, files: Sequence[str], where: str, part: Part | None = None) -> Source:
    """Returns the row source of a data set.

    Args:
      data: The data set.
      columns: Its columns.
      files: Patterns of the run's example files, which take precedence over the conf's reader and path.
      where: The conf, for error messages.
      part: This task's part in a cluster whose workers share the rows; None to read all rows.

    Raises:
      InputError: When there is no source, when the files or the reader are not usable, or when the rows cannot be
        shared.
    """
    where = f"{where}: {data.name}"
    if files:
        return _open_files(data, columns, files, where, part)
    reader = data.reader
    if reader is None:
        if not data.path:
            raise InputError(f"{where} has no reader and no path, and the run has no example files.")
        reader = reader_for(data.path)
    if inspect.isclass(reader):
        reader = reader()
    if hasattr(reader, "read_data_by_index_range"):
        return RangeSource(data, columns, reader, where, part)
    if callable(getattr(reader, "iterator", None)) or callable(reader):
        if part is not None:
            raise InputError(
                f"{where}: the reader {type(reader).__name__} yields its rows sequentially, so several workers cannot "
                "share them. Define read_data_by_index_range(start, end) and count_data(), or train on one worker."
            )
        return StreamSource(data, columns, reader, where)
    raise InputError(
        f"{where}: the reader {reader!r} has neither read_data_by_index_range(start, end) with count_data(), nor "
        "iterator()."
    )


def _open_files(data: DataSet, columns: Columns, patterns: Sequence[str], where: str, part: Part | None) -> Source:
    if data.reader is not None or data.path:
        logging.info("%s: reading the run's files %s instead of the conf's data.", where, ", ".join(patterns))
    kind, _, files = common_format(find_record_files(patterns), columns_wanted=True)
    if kind == TF_RECORD:
        columns = dataclasses.replace(columns, kinds=infer_kinds(files, columns.fields, where))
        if part is not None or policy(READER):
            return ExampleRangeSource(data, columns, files, where, part)
        return ExampleSource(data, columns, files, where)
    if kind not in (CSV, TEXT):
        raise InputError(
            f"{where}: {files[0]} is {kind}. Only TFRecords of tf.Examples and delimited text can replace the "
            "conf's reader."
        )
    readers = [FileReader(file) for file in files]
    headers = [reader.header() or "" for reader in readers]
    # Header detection: a header has the names of all columns, or text in numeric columns.
    try:
        named = columns.with_header(_header_names(headers[0], columns.field_delim))
    except InputError as error:
        raise InputError(f"{where}: {files[0]}: {error}") from error
    has_header = named is not columns or not looks_like_data(headers[0], columns.fields, columns.field_delim)
    if has_header and named is columns:
        message = "%s: the first row of %s does not match the columns, and is skipped as a header: %s."
        logging.warning(message, where, files[0], short_repr(headers[0]))
    for file, header in zip(files, headers, strict=True):
        if has_header and header != headers[0]:
            raise InputError(f"{where}: {files[0]} begins with the header {headers[0]!r}, and {file} with {header!r}.")
    for reader in readers:
        reader.skip_header = has_header
    return RangeSource(data, named, JoinedReader(readers), where, part)


def _header_names(header: str, delim: str) -> list[str]:
    try:
        fields = split_row(header.encode("utf-8", "surrogateescape"), delim)
    except ValueError:
        return []  # not a valid row, so not a header
    return [field.decode("utf-8", "replace").strip() for field in fields]
