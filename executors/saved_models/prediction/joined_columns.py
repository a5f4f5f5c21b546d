"""Columns of the examples that are written beside the predictions, so that they can be joined with other data.

Their types are found by reading all files once in advance, as CSV has no types, and formats with a schema need the
names and types of all columns before the first row.

Usage:

    columns = joined_columns(batches_of_all_files, ids=["trip_id"], with_inputs=False)
    columns.of(batch)  # {"trip_id": an Arrow array}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import InputError, did_you_mean
from ...inputs.csv import value_types
from ...inputs.csv.columns import BYTES, DOUBLE, INT, from_tf_examples, typed_columns
from ...inputs.input_format import Batch
from ...inputs.message_text import closest_names

_NARROW_TO_WIDE = (INT, DOUBLE, BYTES)
_Type = tuple[int, bool]  # index into _NARROW_TO_WIDE, and whether an example has several values


@dataclasses.dataclass(frozen=True)
class JoinedColumns:
    """The columns to write, in this order.

    Attributes:
      types: {column: INT, DOUBLE or BYTES, or a list of it if an example has several values}.
    """

    types: Mapping[str, pa.DataType]

    def of(self, batch: Batch) -> dict[str, pa.Array]:
        """Returns {column: array with a value, a list, or null for each example}."""
        if not self.types:
            return {}
        lists = from_tf_examples(batch) if batch.is_serialized else self._typed(batch)
        return {name: _array(lists.get(name), kind, batch.size) for name, kind in self.types.items()}

    def _typed(self, batch: Batch) -> dict[str, pa.Array]:
        wanted = {name: kind.value_type if pa.types.is_list(kind) else kind for name, kind in self.types.items()}
        columns = {
            name: [_as_text(value) for value in values] if wanted.get(name) == BYTES else values
            for name, values in batch.columns.items()
        }
        return typed_columns(dataclasses.replace(batch, columns=columns), wanted)


def joined_columns(batches: Iterable[Batch], ids: Sequence[str], *, with_inputs: bool) -> JoinedColumns:
    """Finds the columns and their types.

    Integers of CSV files with another notation than Python's, such as 007, are text, so that no digit is lost; so are
    all other numbers of the columns `ids`.

    Args:
      batches: The batches of all files.
      ids: Columns to write, first.
      with_inputs: Whether to write all other columns, too.

    Raises:
      InputError: If a file has no column of a name in `ids`.
    """
    types: dict[str, _Type] = dict.fromkeys(ids, (0, False))
    for batch in batches:
        columns = from_tf_examples(batch) if batch.is_serialized else batch.columns
        if batch.first == 1:
            _require(ids, columns, batch)
        for name in columns if with_inputs else set(ids) & columns.keys():
            width, is_list = _type_of(columns[name], batch, name in ids)
            before = types.get(name, (0, False))
            types[name] = max(before[0], width), before[1] or is_list
    kinds = {name: (_NARROW_TO_WIDE[width], is_list) for name, (width, is_list) in types.items()}
    return JoinedColumns({name: pa.list_(kind) if is_list else kind for name, (kind, is_list) in kinds.items()})


def _require(ids: Sequence[str], there: Collection[str], batch: Batch) -> None:
    for name in ids:
        if name not in there:
            what = "feature" if batch.is_serialized else "column"
            raise InputError(
                f"--id {name}: {batch.path} has no {what} of this name; it has "
                f"{closest_names(sorted(there), near=name) or 'none'}.{did_you_mean(name, there)}"
            )


def _type_of(values: pa.Array | Sequence[Any], batch: Batch, is_id: bool) -> _Type:
    if batch.is_serialized:
        return _type_of_lists(values)
    if batch.is_text:
        width = max(map(_cell_width, values))
        return (len(_NARROW_TO_WIDE) - 1 if is_id and width else width), False
    return max(map(_json_width, values)), any(map(_is_list, values))


def _type_of_lists(column: pa.Array) -> _Type:
    if pa.types.is_null(column.type):
        return 0, False
    kind = column.type.value_type
    width = 0 if pa.types.is_integer(kind) else 1 if pa.types.is_floating(kind) else 2
    return width, (pc.max(pc.list_value_length(column)).as_py() or 0) > 1


def _is_list(value: object) -> bool:
    return isinstance(value, list) and (len(value) > 1 or any(map(_is_list, value)))


def _cell_width(cell: str | None) -> int:
    width = value_types.type_of(cell) if cell is not None else value_types.INT
    return (
        value_types.TEXT if cell and ("_" in cell or (width == value_types.INT and str(int(cell)) != cell)) else width
    )


def _json_width(value: object) -> int:
    if isinstance(value, list):
        return max(map(_json_width, value), default=0)
    fits = value is None or (isinstance(value, int) and value_types.type_of(str(int(value))) == value_types.INT)
    return 0 if fits else 1 if isinstance(value, float) else 2


def _as_text(value: object) -> object:
    """Returns a value for a column of text: other JSON values than strings and {"b64": …} as JSON text."""
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    is_text = value is None or isinstance(value, (str, bytes)) or (isinstance(value, dict) and list(value) == ["b64"])
    return value if is_text else json.dumps(value)


def _array(column: pa.Array | None, kind: pa.DataType, size: int) -> pa.Array:
    if column is None or pa.types.is_null(column.type):
        return pa.nulls(size, kind)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    ends = np.cumsum(lengths)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), _cast(column.flatten(), kind.value_type))
    return _cast(column.flatten(), kind).take(pa.array(ends - 1, mask=lengths == 0))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind or not pa.types.is_primitive(values.type):
        return values.cast(kind)
    return values.cast(pa.string()).cast(kind)  # by text, which gives a float32 the fewest digits: 0.1
