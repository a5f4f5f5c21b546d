"""Finds how a training converts the labels of the examples: pairs of a feature's value and the model's target.

    label_mappings(dataset)["0"]
    # (LabelMapping("species", (("setosa", 0), ("versicolor", 1)), rows=150), LabelMapping("color", conflict="…"))

The pairs are rows of the `tf.data` pipeline before and after its steps, such as a `map` with a lookup table.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging

from ..compat.dataset_steps import element_pairs
from ..errors import InputError
from ..inputs.input_format import Batch
from .label_targets import TargetNumbers, TargetTable
from .label_values import as_array, by_key
from .plan import Scale

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

_ROWS, _SECONDS = 10_000, 1.0  # read after the training
_MIN_ROWS_PER_VALUE = 5  # with fewer, a feature has one target for each value by chance


@dataclasses.dataclass(frozen=True)
class LabelMapping:
    """The values of a feature of the examples, and the targets that a model is fitted to in the same rows.

    Attributes:
      feature: The feature.
      pairs: (value, target) of each value, sorted by target; the index of the class for one-hot targets.
      rows: Number of rows that were compared.
      conflict: Why there is not one target for each value, or no table of them; "" if there is.
      scale: For numbers in other units than the targets, such as their logarithm: (value, target) of some rows in
        ascending order of the target; see `label_scale`.
    """

    feature: str
    pairs: tuple[tuple[str | int, float], ...] = ()
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

    Features whose values are the targets themselves are left out, and so are texts with more than 1,000 values.

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


@dataclasses.dataclass(frozen=True)
class _Feature:
    """A feature with the targets of its rows; texts have no numbers."""

    table: TargetTable = dataclasses.field(default_factory=TargetTable)
    numbers: TargetNumbers = dataclasses.field(default_factory=TargetNumbers)

    def add(self, values: np.ndarray, targets: np.ndarray) -> None:
        """Adds rows: floats, or objects that are integers, texts or None."""
        if len(values) != len(targets):
            raise ValueError(f"{len(values)} values for {len(targets)} targets")
        if not any(isinstance(value, str) for value in values):
            self.numbers.add(values.astype("float64"), targets)
        if values.dtype.kind == "O":
            self.table.add(values.tolist(), targets.tolist())

    def mapping(self, name: str) -> LabelMapping | None:
        """Returns how the training converts the feature; None if it does not, or if its texts have no classes."""
        table, numbers = self.table, self.numbers
        has_numbers = numbers.rows > 0 and (numbers.has_fractions or not table.targets)
        conversion = numbers.conversion if has_numbers else ""
        # Before the table, where a number has two targets if its logarithm is rounded differently in other batches.
        if scale := numbers.scale() if conversion else ():
            return LabelMapping(name, rows=numbers.rows, scale=scale)
        if conflict := table.conflict or conversion:
            return LabelMapping(name, rows=numbers.rows or table.rows, conflict=conflict)
        if has_numbers or all(value == target for value, target in table.targets.items()):
            return None
        pairs = [(value, int(target) if target % 1 == 0 else target) for value, target in table.targets.items()]
        return LabelMapping(name, tuple(sorted(pairs, key=lambda pair: (pair[1], str(pair[0])))), table.rows)


def _mappings(pairs: Iterable[tuple[object, Sequence[object]]]) -> dict[str, tuple[LabelMapping, ...]] | None:
    deadline, rows = time.monotonic() + _SECONDS, 0
    features_of: dict[str, dict[str, _Feature]] = {}
    for source, element in pairs:
        columns = _columns(source)
        if not columns:
            return None
        targets = {key: _targets(as_array(label)) for key, label in by_key(element[1]).items()}
        for key, numbers in targets.items():
            features = features_of.setdefault(key, {})
            for name, values in columns.items() if len(numbers) else ():
                features.setdefault(name, _Feature()).add(values, numbers)
            rows += len(numbers)
        if rows >= _ROWS or time.monotonic() > deadline:
            break
    return {
        key: tuple(mapping for name, feature in features.items() if (mapping := feature.mapping(name)))
        for key, features in features_of.items()
    }


def _columns(source: object) -> dict[str, np.ndarray] | None:
    """Returns {feature: value of each row}, see `_values`, of the rows' features; None if they have no names."""
    import tensorflow as tf

    if isinstance(source, tf.Tensor) and source.dtype == tf.string and source.shape.rank == 1:
        return _columns_of_examples(source.numpy().tolist())
    if not isinstance(source, Mapping):
        return None
    arrays = {str(name): values.numpy() for name, values in source.items() if isinstance(values, tf.Tensor)}
    return {
        name: _values(array.ravel().tolist())
        for name, array in arrays.items()
        if array.dtype.kind in "OSbiuf" and array.ndim and array.size == len(array)
    }


def _columns_of_examples(records: Sequence[bytes]) -> dict[str, np.ndarray] | None:
    from ..inputs.csv.columns import from_tf_examples

    try:
        columns = from_tf_examples(Batch("the training data", 1, len(records), records=list(records)))
    except InputError:  # records of another kind, such as lines of text
        return None
    rows_of = {name: column.to_pylist() for name, column in columns.items()}
    return {
        name: _values([row[0] if row else None for row in rows])
        for name, rows in rows_of.items()
        if all(row is None or len(row) <= 1 for row in rows)
    }


def _values(values: Sequence[bytes | float | None]) -> np.ndarray:
    """Returns floats as an array with NaN for missing ones; integers and texts as one of objects, with None."""
    import numpy as np

    is_float = any(isinstance(value, float) for value in values)
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    column: np.ndarray = np.array(texts, np.float64 if is_float else object)
    return column


def _targets(values: object) -> np.ndarray:
    """Returns the targets of a batch: numbers, or the index of the class for one-hot rows; [] for anything else."""
    import numpy as np

    labels = np.asarray(values)
    targets: np.ndarray = np.array([])
    if labels.dtype.kind in "biuf" and labels.ndim:
        rows = labels.reshape(len(labels), -1).astype(np.float64)
        if rows.shape[1] == 1:
            targets = rows.ravel()
        elif np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all():
            targets = rows.argmax(axis=1).astype(np.float64)
    return targets
