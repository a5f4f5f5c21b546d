"""The columns of a conf's data set: checks, the label, and decoding of rows to tensors.

Column objects may be DLRover's or those of `shim/`; they need the attributes `name`, `dtype`, `is_sparse` and
`is_label`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import InputError, did_you_mean
from ...inputs.message_text import join_names, short_repr
from .conf import DataSet
from .examples import parse_examples
from .text.delimited import Field, decode

if TYPE_CHECKING:
    import tensorflow as tf

FeaturesAndLabel: TypeAlias = "tuple[dict[str, tf.Tensor | tf.SparseTensor], tf.Tensor]"  # features by name


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a data set.

    Attributes:
      fields: All columns, in the order of a row's fields.
      label: The label's name.
      field_delim: The separator between a row's fields.
      value_delim: The separator between the values of a sparse column.
      row: The fields of a row of text in the order of its header row; () if they are the same as `fields`.
      kinds: The types of the columns in tf.Examples, as returned by `examples.infer_kinds`.
    """

    fields: tuple[Field, ...]
    label: str
    field_delim: str
    value_delim: str
    row: tuple[Field, ...] = ()
    kinds: Mapping[str, tf.DType] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, data: DataSet, where: str, dense: bool = False) -> Columns:
        """Returns the checked columns of a data set.

        Args:
          data: The data set.
          where: The conf, for error messages.
          dense: Whether to treat sparse columns as dense ones, as DLRover did.

        Raises:
          InputError: When a column has no valid name or dtype, when names are not unique, when not exactly one column
            is the label, or when the label is sparse.
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
            labeled = " and ".join(repr(column.name) for column in labels) or f"none of {', '.join(map(str, names))}"
            raise InputError(f"{where} must have exactly one column with is_label=True; it has {labeled}.")
        if labels[0].is_sparse:
            raise InputError(f"{where}: the label {labels[0].name!r} cannot be sparse.")
        try:  # the label is required: an empty one would be trained as 0
            fields = tuple(
                Field(c.name, c.dtype, bool(c.is_sparse) and not dense, c.is_label is True) for c in data.columns
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        return cls(fields, labels[0].name, data.field_delim, data.value_delim)

    @property
    def features(self) -> tuple[Field, ...]:
        """All columns except the label."""
        return tuple(field for field in self.fields if field.name != self.label)

    @property
    def row_fields(self) -> tuple[Field, ...]:
        """The fields of a row of text, in the order of the row."""
        return self.row or self.fields

    def decode(self, rows: tf.Tensor) -> FeaturesAndLabel:
        """Decodes delimited rows, a string vector [batch], to features and label, each [batch] or sparse."""
        return self.select(decode(rows, self.row_fields, self.field_delim, self.value_delim))

    def select(self, decoded: Mapping[str, tf.Tensor | tf.SparseTensor]) -> FeaturesAndLabel:
        """Returns the features and the label from the decoded fields of rows."""
        return self._split({field.name: decoded[field.name] for field in self.fields})

    def parse(self, examples: tf.Tensor) -> FeaturesAndLabel:
        """Parses serialized tf.Examples, a string vector [batch], to features and label, each [batch] or sparse."""
        return self._split(parse_examples(examples, self.fields, self.kinds, self.value_delim))

    def with_header(self, header: Sequence[str]) -> Columns:
        """Returns the columns for rows whose fields are in the order of a header row.

        Args:
          header: The fields of a file's first row. Fields that are not columns are skipped in all rows.

        Returns:
          Columns with `row` set; or these columns, if the row is not a header: more than half of the column names are
          missing or not unique in it.

        Raises:
          InputError: When a column is missing in the header or appears twice in it.
        """
        known = {field.name: field for field in self.fields}
        counts = collections.Counter(header)
        if invalid := [name for name in known if counts[name] != 1]:
            if 2 * len(invalid) > len(known):
                return self
            what = "names the column {} twice" if counts[invalid[0]] else "lacks the column {}"
            hint = did_you_mean(invalid[0], [name for name in header if name not in known])
            raise InputError(f"the header {what.format(short_repr(invalid[0]))}; it has {join_names(header)}.{hint}")
        row = tuple(known.get(name) or Field(f"{name} ({place})", "string") for place, name in enumerate(header))
        return dataclasses.replace(self, row=row)

    def _split(self, tensors: Mapping[str, tf.Tensor | tf.SparseTensor]) -> FeaturesAndLabel:
        features = dict(tensors)
        return features, features.pop(self.label)
