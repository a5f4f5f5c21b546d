"""Copies Parquet files to CSV files that TFX's CsvExampleGen can read.

    write_csv("trips.parquet", "project/data/trips.csv")

A row group is read at a time. Missing values become empty cells; a text that is empty, too. Booleans become 1 and 0,
times "2013-03-01 12:15:00", without a zone.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ...errors import InputError
from ..message_text import join_names
from ..tables.columns import require_columns
from .arrow_file import ArrowFile
from .files import opened_parquet

_ROWS = 65536  # of a batch
_BREAKS = r"\s*[\r\n]+\s*"
_NOT_IN_NAMES = ',"\r\n'


def write_csv(path: str, target: str) -> None:
    """Writes a CSV file with the columns and rows of a Parquet file.

    Raises:
      InputError: If the file is damaged, or a column has lists, structs or binary data, or a name that CSV cannot have.
    """
    with ArrowFile(path, "rb") as opened, open(target, "wb") as file:
        parquet = opened_parquet(path, opened)
        _require_flat(path, parquet.schema_arrow)
        names = parquet.schema_arrow.names
        file.write(f"{','.join(names)}\n".encode())
        try:
            for batch in parquet.iter_batches(_ROWS):
                table = pa.table([_plain(column) for column in batch.columns], names)
                pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(include_header=False))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is damaged: {error}. Write the file again.") from error


def _require_flat(path: str, schema: pa.Schema) -> None:
    require_columns(path, schema.names, schema.names)
    if nested := [field.name for field in schema if not _is_flat(field.type)]:
        raise InputError(
            f"{path}: column {join_names(nested)} has lists, structs or binary data, which CSV cannot represent. "
            "Remove it, or write TFRecord files of tf.Examples."
        )
    if odd := [name for name in schema.names if not name.strip() or any(mark in name for mark in _NOT_IN_NAMES)]:
        raise InputError(f"{path}: CSV cannot have a column named {odd[0]!r}. Rename it.")


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
