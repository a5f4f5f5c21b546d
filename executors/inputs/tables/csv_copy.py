"""Copies tables to CSV files that TFX's CsvExampleGen can read.

    write_csv(Parquet(), "trips.parquet", "project/data/trips.csv")

A table is read at a time. Missing values become empty cells; a text that is empty, too. Booleans become 1 and 0,
times "2013-03-01 12:15:00", without a zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ...errors import InputError
from ..message_text import join_names
from .columns import require_columns

if TYPE_CHECKING:
    from ..table_format import TableFormat

_ROWS = 65536  # of a table
_BREAKS = r"\s*[\r\n]+\s*"
_NOT_IN_NAMES = ',"\r\n'


def write_csv(form: TableFormat, path: str, target: str) -> None:
    """Writes a CSV file with the columns and rows of a file of tables.

    Raises:
      InputError: If the file is damaged, or a column has lists, structs or binary data, or a name that CSV cannot have.
    """
    names = form.shape(path)[0]
    require_columns(path, names, names)
    if odd := [name for name in names if not name.strip() or any(mark in name for mark in _NOT_IN_NAMES)]:
        raise InputError(f"{path}: CSV cannot have a column named {odd[0]!r}. Rename it.")
    with open(target, "wb") as file:
        file.write(f"{','.join(names)}\n".encode())
        for table in form.tables(path, names, _ROWS):
            _require_flat(path, table.schema)
            plain = pa.table([_plain(table.column(name).combine_chunks()) for name in names], names)
            pyarrow.csv.write_csv(plain, file, pyarrow.csv.WriteOptions(include_header=False))


def _require_flat(path: str, schema: pa.Schema) -> None:
    if nested := [field.name for field in schema if not _is_flat(field.type)]:
        raise InputError(
            f"{path}: column {join_names(nested)} has lists, structs or binary data, which CSV cannot represent. "
            "Remove it, or write TFRecord files of tf.Examples."
        )


def _is_flat(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column.cast(pa.timestamp("s", column.type.tz), safe=False), "%Y-%m-%d %H:%M:%S")
    if pa.types.is_decimal(column.type) or pa.types.is_temporal(column.type):
        return column.cast(pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.replace_substring_regex(column, _BREAKS, " ")
    return column
