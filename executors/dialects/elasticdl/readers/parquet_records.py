"""Reads Parquet rows as dicts of tensors by column, with the types of the file.

In contrast, `inputs/tables` reads TFX examples according to a schema. A list column gives ragged tensors. A null in a
float column becomes NaN (pandas writes NaN as null), a null in a string column becomes "".

Usage:

    signature = parquet_signature("a.parquet", columns=None)     # {"age": tf.TensorSpec([None], tf.int64), …}
    for block in parquet_blocks(["a.parquet"], signature):
        block     # {"age": np.array([31, …]), …}
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf

from ....errors import InputError
from ....inputs.message_text import shorten
from ....inputs.parquet.format import Parquet, opened_parquet
from ....inputs.readers.reader_errors import MAX_COLUMNS
from ....inputs.tables.columns import place_of_row
from ....inputs.tfrecord.scan import refused
from .csv_records import check_columns

_ROWS_READ_AT_ONCE = 4096


def parquet_signature(path: str, columns: Sequence[str] | None) -> dict[str, tf.TypeSpec]:
    """Returns the type specs of a block of rows, by column.

    Args:
      path: The Parquet file.
      columns: Names of the columns to read; None for all.

    Raises:
      InputError: If the file is not Parquet, lacks a column or has it several times, has a column type without a tensor
        counterpart, or there are more than 2^16 columns.
    """
    with opened_parquet(path) as parquet:
        schema = parquet.schema_arrow
    names = list(columns or schema.names)
    check_columns(path, names, schema.names)
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"{path}: it has {len(names):,} columns. Each becomes a separate tensor, and TensorFlow takes minutes for "
            f"more than {MAX_COLUMNS:,}: select those that the model reads with columns=[…]."
        )
    return {name: _spec(path, schema.field(name)) for name in names}


def parquet_blocks(
    paths: Sequence[str], signature: Mapping[str, tf.TypeSpec]
) -> Iterator[dict[str, np.ndarray | tf.RaggedTensor]]:
    """Yields the rows of all files in blocks, in the order of the files.

    Args:
      paths: The Parquet files.
      signature: Type specs of the blocks, from `parquet_signature` of the first file. Files may differ in the width of
        numbers; values are cast.

    Raises:
      InputError: If a column is missing, cannot be cast to the type of the first file, or has nulls that have no
        default: integers, booleans and lists.
    """
    for path in paths:
        first = 0
        for table in Parquet().tables(path, list(signature), _ROWS_READ_AT_ONCE):
            columns = {name: table.column(name).combine_chunks() for name in signature}
            yield {name: _tensor(path, name, columns[name], spec, first) for name, spec in signature.items()}
            first += table.num_rows


def _spec(path: str, field: pa.Field) -> tf.TensorSpec | tf.RaggedTensorSpec:
    is_list = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
    kind = _tensor_type(field.type.value_type if is_list else field.type)
    if kind is None:
        raise InputError(
            f"{path}: column {field.name!r} has the unsupported type {field.type}; omit it from columns=[…], or "
            "cast it."
        )
    return (
        tf.RaggedTensorSpec([None, None], kind, row_splits_dtype=tf.int64) if is_list else tf.TensorSpec([None], kind)
    )


def _tensor_type(arrow: pa.DataType) -> tf.DType | None:
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if any(is_text(arrow) for is_text in _TEXT):
        return tf.string
    if pa.types.is_boolean(arrow) or pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return tf.as_dtype(arrow.to_pandas_dtype())
    return None


def _tensor(path: str, name: str, column: pa.Array, spec: tf.TypeSpec, first: int) -> np.ndarray | tf.RaggedTensor:
    if not isinstance(spec, tf.RaggedTensorSpec):
        return _values(path, name, column, spec.dtype, first)
    if column.null_count:
        raise _missing_value_error(path, name, column, first)
    splits = column.offsets.to_numpy().astype("int64")
    values = _values(path, name, column.flatten(), spec.dtype, None)
    return tf.RaggedTensor.from_row_splits(values, splits - splits[0])


def _values(path: str, name: str, column: pa.Array, kind: tf.DType, first: int | None) -> np.ndarray:
    """Casts values; `first` is the number of the first value's row, or None for values in lists."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    wanted = pa.large_binary() if kind == tf.string else pa.from_numpy_dtype(kind.as_numpy_dtype)
    try:
        column = column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        where, problem = path, shorten(str(error))
        if first is not None and isinstance(error, pa.ArrowInvalid):  # of a value, not of the type
            index, problem = next(refused(column, operator.methodcaller("cast", wanted)))
            where = place_of_row(path, first + index)
        what = f"column {name!r} is {column.type}, but {kind.name} in the first file: {problem}"
        raise InputError(f"{where}: {what}") from None  # Arrow's message quotes a value without truncation
    if column.null_count and not kind.is_floating:
        if kind != tf.string:
            raise _missing_value_error(path, name, column, first)
        column = column.fill_null(b"")
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values


def _missing_value_error(path: str, name: str, column: pa.Array, first: int | None) -> InputError:
    where = path if first is None else place_of_row(path, first + int(np.argmax(np.asarray(column.is_null()))))
    what = f"column {name!r} has {'lists with missing values' if first is None else 'no value'}"
    return InputError(f"{where}: {what}. Fill such rows, or omit the column from columns=[…].")


_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
