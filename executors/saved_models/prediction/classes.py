"""Adds the predicted class of each example to a model's scores, as `predicted_class`.

The class is the index of the highest score; with one score, 1 above a threshold, else 0. If the model returns the names
of the classes in an array of the scores' shape, as Estimators do, it is the name; if the module converts the values of
the label to classes, it is the value. A model that returns one integer or string for each example already gives the
class, so none is added.

Usage:

    classes = PredictedClasses({"probability": 0.5})
    classes.of({"probability": np.array([[0.7], [0.1]])})  # {"predicted_class": np.array([1, 0])}
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

COLUMN = "predicted_class"
_TOLERANCE = 1e-3  # rounding error of a sum of float16 probabilities


class PredictedClasses:
    """The predicted classes of batches; the first batch determines for which outputs.

    Args:
      thresholds: {output with scores of classes: threshold for a single score}. None if unknown: then these are
        outputs with at least two non-negative numbers for each example whose sum is 1.
      class_names: {output: {class index: value of the label}}, as far as known.
    """

    def __init__(
        self, thresholds: Mapping[str, float] | None, class_names: Mapping[str, Mapping[str, str | int]] | None = None
    ) -> None:
        self._thresholds = thresholds
        self._names = class_names or {}
        self._outputs: list[str] | None = None

    def of(self, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns {column: class of each example}; the column's name ends in the output's if there are several."""
        if self._outputs is None:
            self._outputs = self._scores_in(outputs)
        columns = {name: COLUMN if len(self._outputs) == 1 else f"{COLUMN}_{name}" for name in self._outputs}
        return {column: self._classes(outputs, name) for name, column in columns.items()}

    def _scores_in(self, outputs: Mapping[str, np.ndarray]) -> list[str]:
        if any(values.dtype.kind in "Oiu" and values[:1].size == 1 for values in outputs.values()):
            return []
        floats = {name: values for name, values in outputs.items() if values.dtype.kind == "f" and values.ndim <= 2}
        if self._thresholds is not None:
            return [name for name in floats if name in self._thresholds]
        return [name for name, values in floats.items() if _is_distribution(values)]

    def _classes(self, outputs: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        scores = outputs[name].reshape(len(outputs[name]), -1)
        if scores.shape[1] == 1:
            positive: np.ndarray = scores[:, 0] > (self._thresholds or {})[name]
            return self._named(positive.astype(np.int64), name)
        classes: np.ndarray = scores.argmax(axis=1)
        names = [values for values in outputs.values() if values.dtype == object and values.shape == scores.shape]
        if names:
            given: np.ndarray = names[0][np.arange(len(classes)), classes]
            return given
        return self._named(classes, name)

    def _named(self, classes: np.ndarray, output: str) -> np.ndarray:
        names = self._names.get(output, {})
        values = [names.get(str(index), str(index)) for index in classes.tolist()]
        has_texts = any(isinstance(name, str) for name in names.values())
        named: np.ndarray = np.array([str(value).encode() if has_texts else int(value) for value in values])
        return named.astype(object if has_texts else np.int64)


def _is_distribution(values: np.ndarray) -> bool:
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        return False
    return bool((values >= 0).all()) and bool(np.allclose(values.sum(axis=1, dtype=np.float64), 1, atol=_TOLERANCE))
