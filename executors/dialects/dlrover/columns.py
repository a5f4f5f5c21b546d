"""A conf's columns: which one is the label, and how rows become tensors.

Columns are DLRover's or ours (`shim/`): all that counts is that they have `name`, `dtype`, `is_sparse` and
`is_label`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import InputError
from ...inputs.csv.delimited import Field, decode
from ...inputs.shown import listed, shown
from .conf import DataSet
from .examples import parse_examples

if TYPE_CHECKING:
    import tensorflow as tf

FeaturesAndLabel: TypeAlias = "tuple[dict[str, tf.Tensor | tf.SparseTensor], tf.Tensor]"  # features by name


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a data set.

    Attributes:
      fields: All columns, in the order of a row's fields.
      label: The label's name.
      field_delim: What separates a row's fields.
      value_delim: What separates the values of a sparse column.
      row: The fields of a row of text, where these are others than the columns; they are by the names of a header then.
      kinds: What tf.Examples hold of the columns, as of `examples.kinds_in`.
    """

    fields: tuple[Field, ...]
    label: str
    field_delim: str
    value_delim: str
    row: tuple[Field, ...] = ()
    kinds: Mapping[str, tf.DType] = dataclasses.field(default_factory=dict)

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
        try:  # an empty label would be trained as 0
            fields = tuple(
                Field(c.name, c.dtype, bool(c.is_sparse) and not dense, c.is_label is True) for c in data.columns
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        return cls(fields, labels[0].name, data.field_delim, data.value_delim)

    @property
    def features(self) -> tuple[Field, ...]:
        """All columns but the label."""
        return tuple(field for field in self.fields if field.name != self.label)

    @property
    def row_fields(self) -> tuple[Field, ...]:
        """The fields of a row of text, in their order."""
        return self.row or self.fields

    def decode(self, rows: tf.Tensor) -> FeaturesAndLabel:
        """Returns the features and the label of delimited rows, a string vector; every one [batch], or sparse."""
        return self.chosen(decode(rows, self.row_fields, self.field_delim, self.value_delim))

    def chosen(self, decoded: Mapping[str, tf.Tensor | tf.SparseTensor]) -> FeaturesAndLabel:
        """Returns the features and the label out of the decoded fields of rows."""
        return self._split({field.name: decoded[field.name] for field in self.fields})

    def parse(self, examples: tf.Tensor) -> FeaturesAndLabel:
        """Returns the features and the label of serialized tf.Examples, a string vector, in the same form."""
        return self._split(parse_examples(examples, self.fields, self.kinds, self.value_delim))

    def under(self, header: Sequence[str]) -> Columns:
        """Returns the columns for rows with their fields in a header's order; itself if that is another kind of row.

        Raises:
          InputError: When it names half of the columns or more, and not all of them, or one twice.
        """
        known = {field.name: field for field in self.fields}
        counts = collections.Counter(header)
        if odd := [name for name in known if counts[name] != 1]:
            if 2 * len(odd) > len(known):
                return self
            what = "names the column {} twice" if counts[odd[0]] else "lacks the column {}"
            raise InputError(f"the header {what.format(shown(odd[0]))}; it has {listed(header)}.")
        row = tuple(known.get(name) or Field(f"{name} ({place})", "string") for place, name in enumerate(header))
        return dataclasses.replace(self, row=row)

    def _split(self, tensors: Mapping[str, tf.Tensor | tf.SparseTensor]) -> FeaturesAndLabel:
        features = dict(tensors)
        return features, features.pop(self.label)
