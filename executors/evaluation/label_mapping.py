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
from ..inputs.input_format import Batch
from .label_values import as_array, by_key
from .plan import Scale

if TYPE_CHECKING:
    import tensorflow as tf

Value: TypeAlias = "str | float | None"  # of a feature in a row: a text, a number, or None without one

_ROWS, _SECONDS = 10_000, 1.0  # read after the training
_MAX_VALUES = 1000  # of a table: features with more have no classes, but numbers or texts
_TOLERANCE = 1e-3  # relative, of a number that stays as it is: float16 has 11 bits
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


def _mappings(pairs: Iterable[tuple[object, Sequence[object]]]) -> dict[str, tuple[LabelMapping, ...]] | None:
    deadline, rows = time.monotonic() + _SECONDS, 0
    rows_of: dict[str, dict[str, list[tuple[Value, float]]]] = {}
    for source, element in pairs:
        columns = _columns(source)
        if not columns:
            return None
        for key, label in by_key(element[1]).items():
            targets = _targets(as_array(label))
            features = rows_of.setdefault(key, {})
            for name, values in columns.items() if targets else ():
                features.setdefault(name, []).extend(zip(values, targets, strict=True))
            rows += len(targets)
        if rows >= _ROWS or time.monotonic() > deadline:
            break
    return {
        key: tuple(mapping for name, rows in features.items() if (mapping := _mapping(name, rows)))
        for key, features in rows_of.items()
    }


def _mapping(feature: str, rows: Sequence[tuple[Value, float]]) -> LabelMapping | None:
    """Returns how the training converts a feature; None if it does not, or if its texts have no classes."""
    known = [(value, target) for value, target in rows if value is not None]
    table: dict[str | int, float] = {}
    conflict = ""
    for value, target in known:
        if isinstance(value, float):
            break
        if (first := table.setdefault(value, target)) != target:
            conflict = f"the training converts its value {value!r} to {first:g} and to {target:g}"
            break
        if len(table) > _MAX_VALUES:
            table = {}
            break
    has_fractions = any(target % 1 != 0 for _, target in rows)
    is_number = not any(isinstance(value, str) for value, _ in known) and (has_fractions or not table)
    numbers = _numbers(feature, known) if is_number else None
    # Before the table, where a number has two targets if its logarithm is rounded differently in other batches.
    if numbers and (numbers.scale or not conflict):
        return numbers if numbers.scale or numbers.conflict else None
    if conflict:
        return LabelMapping(feature, rows=numbers.rows if numbers else len(known), conflict=conflict)
    if all(value == target for value, target in table.items()):
        return None
    pairs = [(value, int(target) if target % 1 == 0 else target) for value, target in table.items()]
    return LabelMapping(feature, tuple(sorted(pairs, key=lambda pair: (pair[1], str(pair[0])))), len(known))


def _numbers(feature: str, rows: Sequence[tuple[Value, float]]) -> LabelMapping | None:
    """Returns how the training converts a feature's numbers; without a conflict if it leaves most as they are."""
    import numpy as np

    from .label_scale import scale_of

    values, targets = np.array(rows, np.float64).reshape(-1, 2).T
    is_finite = np.isfinite(values)
    values, targets = values[is_finite], targets[is_finite]
    if not len(values):
        return None
    converted = np.flatnonzero(~np.isclose(values, targets, rtol=_TOLERANCE, atol=0.0))
    if len(converted) * 2 <= len(values):  # but for noise or limits
        return LabelMapping(feature, rows=len(values))
    if scale := scale_of(values, targets):
        return LabelMapping(feature, rows=len(values), scale=scale)
    value, target = values[converted[0]], targets[converted[0]]
    conflict = f"the training converts its numbers, such as {value:g} to {target:g}"
    return LabelMapping(feature, rows=len(values), conflict=conflict)


def _columns(source: object) -> dict[str, list[Value]] | None:
    """Returns {feature: value of each row} of the rows' features; None if they have no names."""
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


def _columns_of_examples(records: Sequence[bytes]) -> dict[str, list[Value]] | None:
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


def _values(values: Sequence[bytes | float | None]) -> list[Value]:
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]


def _targets(values: object) -> list[float]:
    """Returns the targets of a batch: numbers, or the index of the class for one-hot rows; [] for anything else."""
    import numpy as np

    labels = np.asarray(values)
    targets: list[float] = []
    if labels.dtype.kind in "biuf" and labels.ndim:
        rows = labels.reshape(len(labels), -1).astype(np.float64)
        if rows.shape[1] == 1:
            targets = rows.ravel().tolist()
        elif np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all():
            targets = rows.argmax(axis=1).astype(np.float64).tolist()
    return targets
