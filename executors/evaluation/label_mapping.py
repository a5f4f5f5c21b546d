"""Finds how a training converts the labels of the examples: pairs of a feature's value and the model's target.

    label_mappings(dataset)["0"]
    # (LabelMapping("species", (("setosa", 0), ("versicolor", 1)), rows=150), LabelMapping("color", conflict="…"))

The pairs are rows of the `tf.data` pipeline before and after its steps, such as a `map` with a lookup table.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from absl import logging

from ..compat.dataset_steps import element_pairs
from ..errors import InputError
from ..inputs.example_files import TF_RECORD, Batch, ExampleFile
from .label_values import as_array, by_key
from .plan import Scale

if TYPE_CHECKING:
    import tensorflow as tf

Value: TypeAlias = "str | int"
Columns: TypeAlias = "dict[str, Sequence[Value | float | None]]"

_ROWS, _SECONDS = 10_000, 1.0  # read after the training
_MAX_VALUES = 1000  # of a feature: others have no classes, but numbers or texts
_MIN_ROWS_PER_VALUE = 5  # with fewer, a feature has one target for each value by chance
_SOURCE = ExampleFile("the training data", TF_RECORD, False)


@dataclasses.dataclass(frozen=True)
class LabelMapping:
    """The values of a feature of the examples, and the targets that a model is fitted to in the same rows.

    Attributes:
      feature: The feature, of integers or strings.
      pairs: (value, target) of each value, sorted by target; the index of the class for one-hot targets.
      rows: Number of rows that were compared.
      conflict: Why there is not one target for each value; "" if there is.
      scale: For a number in other units than the targets, such as its logarithm, (value, target) in ascending order of
        the target; see `label_scale`.
    """

    feature: str
    pairs: tuple[tuple[Value, int], ...] = ()
    rows: int = 0
    conflict: str = ""
    scale: Scale = ()

    @property
    def is_certain(self) -> bool:
        """Whether several targets were seen, in enough rows that it is not by chance."""
        targets = {target for _, target in self.pairs}
        return len(targets) > 1 and self.rows >= _MIN_ROWS_PER_VALUE * len(self.pairs)


def label_mappings(dataset: tf.data.Dataset) -> dict[str, tuple[LabelMapping, ...]]:
    """Returns {label's key or position: mappings of the features} for the dataset of a fit.

    Features whose values are the targets themselves, or that have more than 1,000 values, are left out.

    Args:
      dataset: Batches of inputs and labels. At most 10,000 rows of it are read, for at most a second.
    """
    for pairs in element_pairs(dataset):
        try:
            if (mappings := _mappings(pairs)) is not None:
                return mappings
        except Exception as error:  # a step may need data of its own
            logging.debug("The labels could not be followed through the training's pipeline: %r", error)
    return {}


def _mappings(pairs: Iterable[tuple[object, Sequence[object]]]) -> dict[str, tuple[LabelMapping, ...]] | None:
    import numpy as np

    from .label_scale import NumericRows

    deadline, rows = time.monotonic() + _SECONDS, 0
    targets_of: dict[str, dict[str, _Targets]] = {}
    numbers_of: dict[str, NumericRows] = {}
    for source, element in pairs:
        columns = _columns(source)
        if not columns:
            return None
        labels = {key: as_array(label) for key, label in by_key(element[1]).items()}
        for key, label in labels.items():
            numbers_of.setdefault(key, NumericRows()).add(columns, label)
            numbers = _whole_targets(label)
            features = targets_of.setdefault(key, {})
            for name, values in columns.items() if numbers else ():
                features.setdefault(name, _Targets()).add(values, numbers)
            rows += np.size(label, 0) if np.ndim(label) else 0
        if rows >= _ROWS or time.monotonic() > deadline:
            break
    return {
        key: (
            *_of_features(features),
            *(LabelMapping(name, scale=scale) for name, scale in numbers_of[key].scales().items()),
        )
        for key, features in targets_of.items()
    }


class _Targets:
    """The targets of a feature's values.

    Attributes:
      targets: {value: its target}; {} if there are too many values.
      rows: Number of rows with a value.
      conflict: See `LabelMapping`.
    """

    def __init__(self) -> None:
        self.targets: dict[Value, int] = {}
        self.rows = 0
        self.conflict = ""
        self._is_dropped = False

    def add(self, values: Sequence[Value | float | None], targets: Sequence[int]) -> None:
        """Adds rows, without those of floats. Raises ValueError if there are not as many values as targets."""
        for value, target in zip(values, targets, strict=True):
            if value is None or isinstance(value, float) or self._is_dropped or self.conflict:
                continue
            self.rows += 1
            if (known := self.targets.setdefault(value, target)) != target:
                self.conflict = f"the training converts its value {value!r} to {known} and to {target}"
            if len(self.targets) > _MAX_VALUES:
                self.targets, self._is_dropped = {}, True


def _of_features(features: Mapping[str, _Targets]) -> Iterable[LabelMapping]:
    for name, found in features.items():
        if found.conflict:
            yield LabelMapping(name, rows=found.rows, conflict=found.conflict)
        elif any(value != target for value, target in found.targets.items()):
            ordered = sorted(found.targets.items(), key=lambda pair: (pair[1], str(pair[0])))
            yield LabelMapping(name, tuple(ordered), found.rows)


def _columns(source: object) -> Columns | None:
    """Returns {feature: value of each row} of the rows' numbers and texts; None if they have no names."""
    import tensorflow as tf

    if isinstance(source, tf.Tensor) and source.dtype == tf.string and source.shape.rank == 1:
        return _columns_of_examples(source.numpy().tolist())
    if not isinstance(source, Mapping):
        return None
    columns: Columns = {}
    for name, values in source.items():
        if isinstance(values, tf.Tensor) and values.dtype.name.startswith(("string", "int", "uint", "float")):
            array = values.numpy()
            if array.size == len(array):
                columns[str(name)] = [_value(value) for value in array.ravel().tolist()]
    return columns


def _columns_of_examples(records: Sequence[bytes]) -> Columns | None:
    import pyarrow as pa

    from ..inputs.csv.columns import from_tf_examples

    try:
        columns = from_tf_examples(Batch(_SOURCE, 1, len(records), records=list(records)))
    except InputError:  # records of another kind, such as lines of text
        return None
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_binary, pa.types.is_large_binary)
    found: Columns = {}
    for name, column in columns.items():
        kind = getattr(column.type, "value_type", column.type)
        if any(is_kind(kind) for is_kind in kinds):
            rows = column.to_pylist()
            if all(row is None or len(row) <= 1 for row in rows):
                found[name] = [_value(row[0]) if row else None for row in rows]
    return found


def _value(value: bytes | float) -> Value | float:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _whole_targets(values: object) -> list[int]:
    """Returns the targets of a batch, the index of the class for one-hot rows; [] if they are not whole numbers."""
    import numpy as np

    labels = np.asarray(values)
    if labels.dtype.kind not in "biuf" or not labels.ndim:
        return []
    rows = labels.reshape(len(labels), -1)
    if rows.shape[1] > 1:
        is_one_hot = np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all()
        return list(map(int, rows.argmax(axis=1))) if is_one_hot else []
    numbers = rows.ravel()
    return list(map(int, numbers)) if (numbers == np.round(numbers)).all() else []
