"""A conf's columns: which one is the label, and how rows become tensors.

Columns are DLRover's or ours (`executors/dlrover/`): all that counts is that they have `name`, `dtype`, `is_sparse` and
`is_label`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from ...errors import InputError
from ...inputs.delimited import Field, decode
from .conf import DataSet


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a data set.

    Attributes:
      fields: All columns, in the order of a row's fields.
      label: The label's name.
      field_delim: What separates a row's fields.
      value_delim: What separates the values of a sparse column.
    """

    fields: tuple[Field, ...]
    label: str
    field_delim: str
    value_delim: str

    @classmethod
    def of(cls, data: DataSet, where: str, dense: bool = False) -> Columns:
        """Reads the columns of a data set.

        Args:
          data: The data set.
          where: The conf, for messages.
          dense: Whether sparse columns are to be read as others are, as DLRover did it.

        Raises:
          InputError: When a column has no usable name or type, two have the same name, or not exactly one is the label.
        """
        where = f"{where}: {data.name}"
        names = [getattr(column, "name", None) for column in data.columns]
        for name, column in zip(names, data.columns, strict=True):
            if not name or not isinstance(name, str):
                raise InputError(f"{where} has a column without a name: {column}. Use Column.create(name=…, dtype=…).")
            if names.count(name) > 1:
                raise InputError(f"{where} has {names.count(name)} columns with the name {name!r}.")
        labels = [column for column in data.columns if column.is_label is True]
        if len(labels) != 1:
            found = " and ".join(repr(column.name) for column in labels) or f"none of {', '.join(map(str, names))}"
            raise InputError(f"{where} needs one column with is_label=True; {found} is.")
        if labels[0].is_sparse:
            raise InputError(f"{where}: the label {labels[0].name!r} cannot be sparse.")
        try:
            fields = tuple(Field(c.name, c.dtype, bool(c.is_sparse) and not dense) for c in data.columns)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        return cls(fields, labels[0].name, data.field_delim, data.value_delim)

    @property
    def features(self) -> tuple[Field, ...]:
        """All columns but the label."""
        return tuple(field for field in self.fields if field.name != self.label)

    def decode(self, rows: Any) -> tuple[dict[str, Any], Any]:
        """Returns the features and the label of delimited rows, a string vector; every one [batch], or sparse."""
        return self._split(decode(rows, self.fields, self.field_delim, self.value_delim))

    def parse(self, examples: Any) -> tuple[dict[str, Any], Any]:
        """Returns the features and the label of serialized tf.Examples, a string vector, in the same form."""
        return self._split(parse_examples(examples, self.fields))

    def _split(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        features = dict(tensors)
        return features, features.pop(self.label)


def parse_examples(examples: Any, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Returns columns out of serialized tf.Examples; a value that is missing is 0 or "", as an empty field is.

    tf.Examples hold int64, float32 and strings; other types are made of these.
    """
    spec: dict[str, Any] = {}
    for field in fields:
        kind = _kind_in_examples(field.dtype)
        default = "" if kind == tf.string else 0
        spec[field.name] = tf.io.VarLenFeature(kind) if field.is_sparse else tf.io.FixedLenFeature([], kind, default)
    parsed = tf.io.parse_example(examples, spec)
    return {field.name: _as(parsed[field.name], field.dtype) for field in fields}


def _kind_in_examples(dtype: Any) -> Any:
    return tf.string if dtype == tf.string else tf.float32 if dtype.is_floating else tf.int64


def _as(tensor: Any, dtype: Any) -> Any:
    return tensor if tensor.dtype == dtype else tf.cast(tensor, dtype)
