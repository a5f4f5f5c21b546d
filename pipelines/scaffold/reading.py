"""Reads a dataset as the pipeline's ExampleGen will read it: CSV, or TFRecord files of tf.Examples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ...executors.errors import InputError
from ...executors.examples_format import TF_EXAMPLE
from ...executors.inputs.csv import value_types
from ...executors.inputs.csv.columns import BYTES, FLOAT, INT, from_tf_examples
from ...executors.inputs.csv.row_reader import header_error
from ...executors.inputs.example_files import find_example_files
from ...executors.inputs.gzipped_files import head_of, is_gzipped
from ...executors.inputs.input_format import Batch, ExampleFile
from ...executors.inputs.message_text import join_names
from ...executors.runtime.files import file_io
from ...executors.runtime.files.raw_data_files import no_data_error

ROWS = 100_000  # maximum of rows to read; the pipeline later processes all rows
_BATCH_ROWS = 4096
_UNSUPPORTED_ENDINGS = tuple(
    f".{name}"
    for name in ["tsv", "txt", "json", "jsonl", "parquet", "xlsx", "xls", "gz", "zip", "npz", "npy", "avro", "pkl"]
)


@dataclasses.dataclass(frozen=True)
class RawData:
    """The rows of a dataset by column.

    Attributes:
      path: The file or folder, as given by the user.
      is_csv: Whether the files are CSV, with the columns' names in their first lines; else TFRecords.
      files: The data files.
      columns: {name: Arrow array of lists of INT, FLOAT or BYTES, null for a missing value}; columns without any value
        are null arrays. Columns of CSV files are in the files' order, others sorted by name.
      size: Number of rows in `columns`.
      is_whole: Whether these are all rows of the dataset.
    """

    path: str
    is_csv: bool
    files: list[ExampleFile]
    columns: dict[str, pa.Array]
    size: int
    is_whole: bool

    def first_row(self, column: str, text: str) -> int:
        """Returns the number of the first row, counted from 0, with a text in a column of text."""
        return next(row for row, value in enumerate(self.columns[column].to_pylist()) if value == [text.encode()])


def read_data(path: str, rows: int = ROWS) -> RawData:
    """Reads the first rows of a file or of a folder's files.

    Args:
      path: A CSV file, a TFRecord file, a folder of either, or a folder with folders `train` and `eval`, of which
        `train` is read.
      rows: Number of rows after which reading stops, rounded up to whole batches (default: 100,000).

    Raises:
      InputError: When there are no files or rows that a pipeline can read, or only one column; the message describes
        the files.
    """
    files = _find_files(path)
    is_csv = files[0].form.header > 0
    read = _csv_rows if is_csv else _record_rows
    columns, size, is_whole = read(files, rows)
    if not size:
        raise InputError(f"--data {path} has no rows{' below the header' * is_csv}.")
    if len(columns) == 1:
        hint = "; are the columns separated by commas?" if is_csv else "."
        raise InputError(
            f"--data {path} has only one column, {next(iter(columns))!r}. At least a label and one other column are "
            f"required{hint}"
        )
    return RawData(path, is_csv, files, columns, size, is_whole)


def _find_files(path: str) -> list[ExampleFile]:
    if not file_io.exists(path):
        raise InputError(f"--data {path} does not exist.")
    paths = _list_files(path) if file_io.isdir(path) else [path]
    found = find_example_files(paths)
    for file in found:
        _require_readable(file)
    return found


def _list_files(folder: str) -> list[str]:
    """Returns the files that `example_gen_for` would select; those of `train` if the folder has splits."""
    names = sorted(name for name in file_io.listdir(folder) if not name.startswith((".", "_")))
    tables = [name for name in names if name.endswith(".csv")]
    if not tables and is_split(folder):
        return _list_files(os.path.join(folder, "train"))
    files = tables or [name for name in names if not file_io.isdir(os.path.join(folder, name))]
    if not files:
        raise no_data_error(folder)
    return [os.path.join(folder, name) for name in files]


def is_split(path: str) -> bool:
    """Whether a folder has folders `train` and `eval`."""
    return all(file_io.isdir(os.path.join(path, name)) for name in ("train", "eval"))


def _require_readable(file: ExampleFile) -> None:
    """Raises InputError for files that ExampleGen cannot read or would misread."""
    name = os.path.basename(file.path)
    supported = "a pipeline reads CSV files with names that end in .csv, and TFRecord files of tf.Examples"
    head = head_of(file.path, 4096)
    if not head:
        raise InputError(f"--data {file.path} is empty.")
    gzipped = is_gzipped(file.path)
    if file.form.header and (gzipped or b"\0" in head or not name.endswith(".csv")):
        raise InputError(f"--data {file.path} is not a CSV file: {supported}.")
    ending = os.path.splitext(name)[1].lower()
    is_readable = file.form.header or TF_EXAMPLE in file.form.payloads
    if not is_readable or (not gzipped and ending in _UNSUPPORTED_ENDINGS):
        raise InputError(f"--data {file.path}: {supported}.")


def _csv_rows(files: list[ExampleFile], rows: int) -> tuple[dict[str, pa.Array], int, bool]:
    read, is_whole = _first_rows(files, rows)
    names = list(read[0].columns) if read else []
    if names and all(value_types.is_number(name) for name in names):
        raise header_error(files[0].path, names)
    for batch in read:
        _require_same_columns(batch, names, files[0].path)
    merged = {name: [value for batch in read for value in batch.columns[name]] for name in names}
    columns = {name: _column(values) for name, values in merged.items()}
    return columns, sum(batch.size for batch in read), is_whole


def _record_rows(files: list[ExampleFile], rows: int) -> tuple[dict[str, pa.Array], int, bool]:
    read, is_whole = _first_rows(files, rows)
    size = sum(batch.size for batch in read)
    decoded = [from_tf_examples(batch) for batch in read]
    kinds: dict[str, pa.DataType] = {}
    for columns in decoded:
        kinds.update({name: column.type for name, column in columns.items() if not pa.types.is_null(column.type)})
    merged: dict[str, pa.Array] = {}
    for name in sorted({name for columns in decoded for name in columns}):
        parts = [
            columns[name] if name in columns else pa.nulls(batch.size)
            for batch, columns in zip(read, decoded, strict=True)
        ]
        merged[name] = _concat(parts, kinds.get(name, pa.null()), files[0].path, name)
    return merged, size, is_whole


def _first_rows(files: list[ExampleFile], rows: int) -> tuple[list[Batch], bool]:
    """Returns batches with at least the given number of rows, and whether these are all rows."""
    read: list[Batch] = []
    size = 0
    for batch in (batch for file in files for batch in file.batches(_BATCH_ROWS)):
        if size >= rows:
            return read, False
        read.append(batch)
        size += batch.size
    return read, True


def _require_same_columns(batch: Batch, names: list[str], first: str) -> None:
    if list(batch.columns) != names:
        raise InputError(
            f"{batch.path} has different columns from {first}: {join_names(batch.columns)}. ExampleGen requires "
            "the same columns in the same order in all files."
        )


def _column(values: list[str | None]) -> pa.Array:
    """Returns cells as an Arrow array of lists, with the type that ExampleGen infers for the column."""
    kind, read = _parse_column({value for value in values if value is not None})
    if kind is None:
        return pa.nulls(len(values))
    flat = pa.array([read[value] for value in values if value is not None], kind)
    is_present = np.array([value is not None for value in values])
    offsets = np.concatenate([[0], np.cumsum(is_present)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=np.append(~is_present, False)), flat)


def _parse_column(values: set[str]) -> tuple[pa.DataType | None, dict[str, bytes | float]]:
    """Returns the type that ExampleGen infers for a column (None without values), and {text: parsed value}."""
    if not values:
        return None, {}
    kind, read = _ARROW_TYPES[max(map(value_types.type_of, values))]
    return kind, {value: read(value) for value in values}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_ARROW_TYPES: dict[int, tuple[pa.DataType, Callable[[str], bytes | float]]] = {
    value_types.INT: (INT, int),
    value_types.FLOAT: (FLOAT, float),
    value_types.TEXT: (BYTES, _bytes),
}


def _concat(parts: list[pa.Array], kind: pa.DataType, path: str, name: str) -> pa.Array:
    try:
        return pa.concat_arrays([part.cast(kind) for part in parts])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: feature {name!r} has values of different types: {error}") from error
