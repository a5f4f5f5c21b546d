"""Columnar files of one tensor of many examples: concatenated values, and the offset of each row.

There are three kinds of columns: dense ones, whose rows all have the same shape, and sparse and ragged ones of rank 2,
which differ only in how a batch is assembled. String columns have an additional file with the offsets of the strings.

Usage:

    with ColumnWriter(pathlib.Path("cache/0"), dataset.element_spec["company"]) as column:
        for batch in dataset:
            column.add(batch["company"])
    Column.opened(pathlib.Path("cache/0"), **column.description()).rows_of(np.array([5, 2]))
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pyarrow as pa
import tensorflow as tf

from .sparse_blocks import Rows, positions

if TYPE_CHECKING:
    from tfx_bsl.types.common_types import TensorType

DENSE, SPARSE, RAGGED = "dense", "sparse", "ragged"
_ENDINGS = ("values", "rows", "strings")


def column_kind(spec: tf.TypeSpec) -> str | None:
    """Returns the kind of column that stores tensors of a type spec: DENSE, SPARSE or RAGGED; None if unsupported."""
    if isinstance(spec, tf.SparseTensorSpec):
        return SPARSE if spec.shape.rank == 2 else None
    if isinstance(spec, tf.RaggedTensorSpec):
        return RAGGED if spec.ragged_rank == 1 and spec.shape.rank == 2 else None
    return DENSE if isinstance(spec, tf.TensorSpec) and spec.shape[1:].is_fully_defined() else None


class ColumnDescription(TypedDict):
    """The arguments of `Column.opened` besides the path, as JSON values."""

    kind: str
    dtype: str
    shape: list[int]
    is_single: bool


class ColumnWriter(contextlib.ExitStack):
    """Writes a column; a context manager.

    Args:
      path: Prefix of the column's file names.
      spec: Type spec of the batches of tensors.
    """

    def __init__(self, path: pathlib.Path, spec: tf.TypeSpec) -> None:
        super().__init__()
        self._spec, self._kind = spec, column_kind(spec)
        paths = {name: pathlib.Path(f"{path}.{name}") for name in _ENDINGS}
        self._files = {name: self.enter_context(path.open("wb")) for name, path in paths.items()}
        self._ends = {"rows": 0, "strings": 0}
        self._is_single = True
        for ending in self._ends:
            self._files[ending].write(np.zeros(1, np.int64).tobytes())

    @property
    def size(self) -> int:
        """Number of bytes written so far."""
        return sum(file.tell() for file in self._files.values())

    def add(self, tensor: TensorType) -> int:
        """Appends a batch; returns its number of rows.

        Raises:
          TypeError: If a sparse tensor's rows are not left-aligned without gaps, or it is wider than its longest row.
        """
        if self._kind == DENSE:
            values = tensor.numpy()
            self._write(values.reshape(-1))
            return len(values)
        if self._kind == SPARSE:
            indices, (rows, width) = tensor.indices.numpy(), tensor.dense_shape.numpy()
            lengths = np.bincount(indices[:, 0], minlength=rows)
            if not np.array_equal(positions(lengths), indices[:, 1]):
                raise TypeError("a sparse tensor has gaps in its rows, which cannot be cached.")
            if width != lengths.max(initial=0):
                raise TypeError("a sparse tensor is wider than its longest row, which cannot be cached.")
        else:
            lengths = np.diff(tensor.row_splits.numpy())
        self._is_single = self._is_single and bool((lengths == 1).all())
        self._add_ends("rows", lengths)
        self._write(tensor.values.numpy())
        return len(lengths)

    def description(self) -> ColumnDescription:
        """Returns the arguments of `Column.opened` besides the path, as JSON values."""
        shape = self._spec.shape[1:].as_list() if self._kind == DENSE else []
        return {"kind": str(self._kind), "dtype": self._spec.dtype.name, "shape": shape, "is_single": self._is_single}

    def _write(self, values: np.ndarray) -> None:
        if self._spec.dtype == tf.string:
            self._add_ends("strings", np.fromiter(map(len, values), np.int64, len(values)))
            self._files["values"].write(b"".join(values))
        else:
            self._files["values"].write(values.tobytes())

    def _add_ends(self, ending: str, lengths: np.ndarray) -> None:
        ends = self._ends[ending] + np.cumsum(lengths, dtype=np.int64)
        self._files[ending].write(ends.tobytes())
        if len(ends):
            self._ends[ending] = int(ends[-1])


@dataclasses.dataclass(frozen=True)
class Column:
    """A stored column, memory-mapped for reading.

    Attributes:
      kind: DENSE, SPARSE or RAGGED.
      dtype: The tensor's dtype.
      shape: Shape of a row if dense, else ().
      is_single: For sparse and ragged columns, whether each row has exactly one value.
      values: The concatenated values; an Arrow array for strings.
      rows: For sparse and ragged columns, the offset of each row's first value, followed by the number of values.
      size: Total size of the files in bytes.
    """

    kind: str
    dtype: tf.DType
    shape: tuple[int, ...]
    is_single: bool
    values: np.ndarray | pa.Array
    rows: np.ndarray
    size: int

    @classmethod
    def opened(cls, path: pathlib.Path, kind: str, dtype: str, shape: list[int], is_single: bool) -> Column:
        """Memory-maps the files of a column; all arguments but `path` come from `ColumnWriter.description`."""
        type_ = tf.as_dtype(dtype)
        types = np.uint8 if type_ == tf.string else type_.as_numpy_dtype, np.int64, np.int64
        files = [_memory_map(f"{path}.{name}", type_) for name, type_ in zip(_ENDINGS, types, strict=True)]
        values, rows, strings = files
        if type_ == tf.string:
            buffers = [None, pa.py_buffer(strings), pa.py_buffer(values)]
            values = pa.Array.from_buffers(pa.large_binary(), len(strings) - 1, buffers)
        return cls(kind, type_, tuple(shape), is_single, values, rows, sum(file.nbytes for file in files))

    def rows_of(self, numbers: np.ndarray) -> Rows:
        """Gathers the rows with the given numbers."""
        if self.kind == DENSE:
            width = int(np.prod(self.shape))
            values = self._take(numbers) if width == 1 else self._take(_ranges(numbers * width, width))
            return Rows(values.reshape(len(numbers), *self.shape))
        if self.is_single:
            return Rows(self._take(numbers))
        starts = self.rows[numbers]
        lengths = self.rows[numbers + 1] - starts
        if lengths.max(initial=0) <= 1:  # same result in a third of the time
            return Rows(self._take(starts[lengths > 0]), lengths)
        return Rows(self._take(np.repeat(starts, lengths) + positions(lengths)), lengths)

    def _take(self, indices: np.ndarray) -> np.ndarray:
        if self.dtype == tf.string:
            strings: np.ndarray = self.values.take(pa.array(indices)).to_numpy(zero_copy_only=False)
            return strings
        numbers: np.ndarray = self.values.take(indices)
        return numbers


def _ranges(starts: np.ndarray, length: int) -> np.ndarray:
    indices: np.ndarray = (starts[:, None] + np.arange(length)).reshape(-1)
    return indices


def _memory_map(path: str, dtype: type[np.generic]) -> np.ndarray:
    with open(path, "rb") as file:
        if not file.seek(0, 2):
            nothing: np.ndarray = np.empty(0, dtype)  # an empty file cannot be memory-mapped
            return nothing
        return np.memmap(file, dtype, "r").view(np.ndarray)
