"""One tensor of many examples as files: its values one after another, and where each row's begin.

Three kinds: dense ones, whose rows are all of one shape; sparse and ragged ones of rank 2, which differ in how a batch
of them is put together. Strings have a file of offsets more, for their bytes.

Usage:

    with ColumnWriter(pathlib.Path("cache/0"), dataset.element_spec["company"]) as column:
        for batch in dataset:
            column.add(batch["company"])
    Column.opened(pathlib.Path("cache/0"), **column.description()).gathered(np.array([5, 2]))
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

DENSE, SPARSE, RAGGED = "dense", "sparse", "ragged"
_ENDINGS = ("values", "rows", "strings")


def column_kind(spec: Any) -> str | None:
    """Returns the kind of column for tensors of a spec; None if there is none."""
    if isinstance(spec, tf.SparseTensorSpec):
        return SPARSE if spec.shape.rank == 2 else None
    if isinstance(spec, tf.RaggedTensorSpec):
        return RAGGED if spec.ragged_rank == 1 and spec.shape.rank == 2 else None
    return DENSE if isinstance(spec, tf.TensorSpec) and spec.shape[1:].is_fully_defined() else None


class ColumnWriter(contextlib.ExitStack):
    """Writes a column; a context manager.

    Args:
      path: How its files' names begin.
      spec: Of the tensors.
    """

    def __init__(self, path: pathlib.Path, spec: Any) -> None:
        super().__init__()
        self._spec, self._kind = spec, column_kind(spec)
        paths = {name: pathlib.Path(f"{path}.{name}") for name in _ENDINGS}
        self._files = {name: self.enter_context(path.open("wb")) for name, path in paths.items()}
        self._ends = {"rows": 0, "strings": 0}
        for ending in self._ends:
            self._files[ending].write(np.zeros(1, np.int64).tobytes())

    @property
    def size(self) -> int:
        """Bytes so far."""
        return sum(file.tell() for file in self._files.values())

    def add(self, tensor: Any) -> int:
        """Adds a batch; returns how many rows it has.

        Raises:
          TypeError: When a sparse tensor's rows don't begin at their left.
        """
        if self._kind == DENSE:
            values = tensor.numpy()
            self._write(values.reshape(-1))
            return len(values)
        if self._kind == SPARSE:
            lengths = np.bincount(tensor.indices[:, 0].numpy(), minlength=int(tensor.dense_shape[0]))
            if not np.array_equal(_positions(lengths), tensor.indices[:, 1].numpy()):
                raise TypeError("a sparse tensor has holes in its rows, which is not kept.")
        else:
            lengths = tensor.row_lengths().numpy()
        self._add_ends("rows", lengths)
        self._write(tensor.values.numpy())
        return len(lengths)

    def description(self) -> dict[str, Any]:
        """Returns what `Column.opened` wants to know, as JSON values."""
        shape = self._spec.shape[1:].as_list() if self._kind == DENSE else []
        return {"kind": self._kind, "dtype": self._spec.dtype.name, "shape": shape}

    def _write(self, values: Any) -> None:
        if self._spec.dtype == tf.string:
            self._add_ends("strings", np.fromiter(map(len, values), np.int64, len(values)))
            self._files["values"].write(b"".join(values))
        else:
            self._files["values"].write(values.tobytes())

    def _add_ends(self, ending: str, lengths: Any) -> None:
        ends = self._ends[ending] + np.cumsum(lengths, dtype=np.int64)
        self._files[ending].write(ends.tobytes())
        if len(ends):
            self._ends[ending] = int(ends[-1])


@dataclasses.dataclass(frozen=True)
class Column:
    """A column that was written.

    Attributes:
      kind: DENSE, SPARSE or RAGGED.
      dtype: The tensors'.
      shape: Of a row, of dense ones.
      values: The values, or the bytes of all strings.
      rows: Where each row's values begin; and one more.
      strings: Where each string's bytes begin; and one more.
    """

    kind: str
    dtype: tf.DType
    shape: tuple[int, ...]
    values: Any
    rows: Any
    strings: Any

    @classmethod
    def opened(cls, path: pathlib.Path, kind: str, dtype: str, shape: list[int]) -> Column:
        """Maps the files of a column into memory; `kind`, `dtype` and `shape` are of `ColumnWriter.description`."""
        type_ = tf.as_dtype(dtype)
        values = np.dtype(np.uint8) if type_ == tf.string else type_.as_numpy_dtype
        types = dict(zip(_ENDINGS, (values, np.int64, np.int64), strict=True))
        return cls(kind, type_, tuple(shape), **{name: _mapped(f"{path}.{name}", types[name]) for name in _ENDINGS})

    @property
    def part_types(self) -> list[tf.DType]:
        """The types of what `gathered` returns."""
        return [self.dtype] if self.kind == DENSE else [self.dtype, tf.int64]

    def gathered(self, numbers: Any) -> list[Any]:
        """Returns the values of some rows, and unless they are dense, how many each row has."""
        if self.kind == DENSE:
            width = int(np.prod(self.shape))
            indices = (numbers[:, None] * width + np.arange(width)).reshape(-1)
            return [self._taken(indices).reshape(len(numbers), *self.shape)]
        lengths = self.rows[numbers + 1] - self.rows[numbers]
        indices = np.repeat(self.rows[numbers], lengths) + _positions(lengths)
        return [self._taken(indices), lengths]

    def tensor(self, parts: list[tf.Tensor], spec: Any) -> Any:
        """Makes a batch's tensor of what `gathered` returned."""
        if self.kind == DENSE:
            return tf.ensure_shape(parts[0], spec.shape)
        values, lengths = tf.ensure_shape(parts[0], [None]), tf.ensure_shape(parts[1], spec.shape[:1])
        if self.kind == RAGGED:
            lengths = tf.cast(lengths, spec.row_splits_dtype)
            return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
        sparse = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()
        rows = spec.shape[0] or sparse.dense_shape[0]
        return tf.SparseTensor(sparse.indices, sparse.values, tf.stack([rows, sparse.dense_shape[1]]))

    def _taken(self, indices: Any) -> Any:
        if self.dtype != tf.string:
            return np.asarray(self.values[indices])
        begins, ends = self.strings[indices].tolist(), self.strings[indices + 1].tolist()
        strings: Any = np.empty(len(begins), object)
        strings[:] = [self.values[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True)]
        return strings


def _positions(lengths: Any) -> Any:
    """Returns 0, 1, … for each row's values: [2, 0, 3] gives [0, 1, 0, 1, 2]."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def _mapped(path: str, dtype: Any) -> Any:
    with open(path, "rb") as file:
        if not file.seek(0, 2):
            return np.empty(0, dtype)  # what is empty cannot be mapped
        return np.memmap(file, dtype, "r").view(np.ndarray)
