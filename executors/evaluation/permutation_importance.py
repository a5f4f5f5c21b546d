"""Permutation importance: how much worse a model's metric gets if one feature's values are shuffled among examples.

importance = permutation_importance(ask, records, excluded={"big_tip"}, seconds=2)
importance.features[0].name  # the feature that the model needs most
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime.files.json_data import JsonData

if TYPE_CHECKING:
    import tensorflow as tf

_REPEATS = 5
_SMALLEST_SAMPLE = 100  # examples


@dataclasses.dataclass(frozen=True)
class FeatureImportance:
    """The importance of one feature.

    Attributes:
      name: The feature.
      drop: Mean deterioration of the metric over the repeats; about 0 for a feature that the model does not use.
      spread: Standard deviation over the repeats; None for a single one.
      repeats: How often the feature was shuffled.
    """

    name: str
    drop: float
    spread: float | None
    repeats: int


@dataclasses.dataclass(frozen=True)
class Importance(JsonData):
    """The importance of all features.

    Attributes:
      metric: Name of the metric, such as "roc_auc".
      value: Its value on the unchanged examples.
      examples: Number of examples.
      features: The features, the most important first.
      unmeasured: Features for which there was no time.
    """

    metric: str
    value: float
    examples: int
    features: Sequence[FeatureImportance]
    unmeasured: Sequence[str] = ()


def permutation_importance(
    score: Callable[[Sequence[bytes], Sequence[int]], float],
    records: Sequence[bytes],
    *,
    metric: str,
    is_loss: bool,
    features: Collection[str] | None = None,
    excluded: Collection[str] = (),
    seconds: float,
) -> Importance | None:
    """Measures the importance of each feature, once for all of them and then again until the time is up.

    Args:
      score: Returns the metric of records, given with their indices in `records`, whose labels count.
      records: Serialized tf.Examples.
      metric: The metric's name.
      is_loss: Whether less is better.
      features: The features that the model reads; None for all features of the examples.
      excluded: Features that are not measured, such as labels.
      seconds: Time limit. The number of examples is reduced, to not less than 100, if it is short.

    Returns:
      The importance; None if fewer than two features could be measured.
    """
    import numpy as np

    deadline = time.monotonic() + seconds
    examples = _parsed(records)
    names = sorted({name for one in examples for name in one.features.feature} - set(excluded))
    if features is not None:
        names = [name for name in names if name in features]
    if len(names) < 2:
        return None
    begin = time.monotonic()
    everything = range(len(examples))
    value = score(list(records), everything)
    per_example = (time.monotonic() - begin) / len(examples)
    # Shuffling and serializing take about as long as the model.
    affordable = int((deadline - time.monotonic()) / (2 * len(names) * per_example)) if per_example else len(examples)
    chosen = list(everything)[:: max(1, len(examples) // max(affordable, _SMALLEST_SAMPLE, 1))]
    examples = [examples[index] for index in chosen]
    value = score([one.SerializeToString() for one in examples], chosen)
    drops: dict[str, list[float]] = {name: [] for name in names}
    random = np.random.default_rng(0)
    for _ in range(_REPEATS):
        for name in names:
            if time.monotonic() > deadline:
                break
            shuffled = list(_shuffled(examples, name, random.permutation(len(examples))))
            worse = score(shuffled, chosen) - value
            drops[name].append(worse if is_loss else -worse)
    measured = [
        FeatureImportance(
            name, float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None, len(found)
        )
        for name, found in drops.items()
        if found
    ]
    ordered = sorted(measured, key=lambda one: -one.drop)
    return Importance(metric, value, len(chosen), ordered, [name for name, found in drops.items() if not found])


def _parsed(records: Sequence[bytes]) -> list[tf.train.Example]:
    import tensorflow as tf

    return [tf.train.Example.FromString(record) for record in records]


def _shuffled(examples: Sequence[tf.train.Example], name: str, order: Sequence[int]) -> Iterator[bytes]:
    """Yields the examples, each with the feature of the one at its place in `order`."""
    values = [
        one.features.feature[name].SerializeToString() if name in one.features.feature else None for one in examples
    ]
    for own, other in enumerate(order):
        feature = examples[own].features.feature
        _set(feature, name, values[other])
        yield examples[own].SerializeToString()
        _set(feature, name, values[own])


def _set(feature: Any, name: str, value: bytes | None) -> None:
    if value is not None:
        feature[name].ParseFromString(value)
    elif name in feature:
        del feature[name]
