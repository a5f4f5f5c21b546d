"""Trivial models: the mean, the median, the majority class or the base rate of the labels, whatever the features are.

difference_from_trivial("MeanSquaredError", labels, predictions, weights)  # negative: better than the mean
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from .estimates import Estimate, area, mean, root
from .scores import SMALLEST_PROBABILITY


@dataclasses.dataclass(frozen=True)
class TrivialModel:
    """The trivial model of a metric.

    Attributes:
      name: What it predicts, such as "the mean".
      higher_is_better: Whether higher values of the metric are better.
      is_of_classes: Whether labels are indices of exclusive classes; a prediction is a probability for each class.
      needs_both_labels: Whether the metric compares positive with negative examples; it is 0 if there are none.
    """

    name: str
    higher_is_better: bool
    is_of_classes: bool = False
    needs_both_labels: bool = False


_BASE_RATE = TrivialModel("the base rate", higher_is_better=True, needs_both_labels=True)
_BASE_RATE_LOSS = TrivialModel("the base rate", higher_is_better=False)
_CLASS_RATES = TrivialModel("the base rates of the classes", higher_is_better=False, is_of_classes=True)
_MAJORITY = TrivialModel("the majority class", higher_is_better=True)
_MAJORITY_OF_CLASSES = TrivialModel("the majority class", higher_is_better=True, is_of_classes=True)
_MEAN = TrivialModel("the mean", higher_is_better=False)
# {class of a metric, of TFMA or Keras: its trivial model}
TRIVIAL_MODELS: Mapping[str, TrivialModel] = {
    "RankedAUC": _BASE_RATE,
    "RankedAUCPrecisionRecall": _BASE_RATE,
    "BinaryAccuracy": _MAJORITY,
    "SparseCategoricalAccuracy": _MAJORITY_OF_CLASSES,
    "CategoricalAccuracy": _MAJORITY_OF_CLASSES,
    "BinaryCrossEntropy": _BASE_RATE_LOSS,
    "BinaryCrossentropy": _BASE_RATE_LOSS,
    "SparseCategoricalCrossentropy": _CLASS_RATES,
    "CategoricalCrossentropy": _CLASS_RATES,
    "CategoricalCrossEntropy": _CLASS_RATES,
    "MeanSquaredError": _MEAN,
    "RootMeanSquaredError": _MEAN,
    "MeanAbsoluteError": TrivialModel("the median", higher_is_better=False),
}


def difference_from_trivial(
    metric: str, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray, threshold: float = 0.5
) -> Estimate:
    """Returns the metric of a model minus that of the trivial model on the same examples.

    Args:
      metric: A key of TRIVIAL_MODELS, without "RankedAUCPrecisionRecall", whose trivial value is the base rate itself.
      labels: Array [examples, numbers]; one class index for each example if the trivial model `is_of_classes`.
      predictions: Array [examples, numbers]; for classes the predicted class, or the probability of the label.
      weights: Array [examples].
      threshold: From which probability on "BinaryAccuracy" predicts 1.
    """
    if metric == "RankedAUC":
        rates = np.broadcast_to(_means(labels, weights), labels.shape)
        return area(labels, predictions, weights) - area(labels, rates, weights)
    before, after = (losses.mean(axis=1) for losses in _losses(metric, labels, predictions, weights, threshold))
    if metric == "RootMeanSquaredError":
        return root(mean(after, weights)) - root(mean(before, weights))
    return mean(after, weights) - mean(before, weights)


def _losses(
    metric: str, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the loss, or the hit, of each example and number: that of the trivial model, and that of the model."""
    if metric in ("MeanSquaredError", "RootMeanSquaredError"):
        return (labels - _means(labels, weights)) ** 2, (labels - predictions) ** 2
    if metric == "MeanAbsoluteError":
        return abs(labels - _medians(labels, weights)), abs(labels - predictions)
    if metric == "BinaryAccuracy":
        is_true = labels > threshold
        return is_true == (_means(is_true, weights) > 0.5), is_true == (predictions > threshold)
    if metric.startswith("Binary"):
        rates = np.broadcast_to(_means(labels, weights), labels.shape)
        return _log_loss(labels, rates), _log_loss(labels, predictions)
    _, index = np.unique(labels, return_inverse=True)
    index = index.reshape(labels.shape)
    shares = np.bincount(index.ravel(), weights) / weights.sum()
    if TRIVIAL_MODELS[metric] is _MAJORITY_OF_CLASSES:
        return index == shares.argmax(), labels == predictions
    return _log(shares[index]), _log(predictions)


def _log_loss(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    losses: np.ndarray = labels * _log(predictions) + (1.0 - labels) * _log(1.0 - predictions)
    return losses


def _log(probabilities: np.ndarray) -> np.ndarray:
    losses: np.ndarray = -np.log(np.clip(probabilities, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY))
    return losses


def _means(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    means: np.ndarray = weights @ values / weights.sum()
    return means


def _medians(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    order = np.argsort(values, axis=0)
    rows = (np.cumsum(weights[order], axis=0) < weights.sum() / 2).sum(axis=0)
    medians: np.ndarray = np.take_along_axis(values, order, axis=0)[rows, np.arange(values.shape[1])]
    return medians
