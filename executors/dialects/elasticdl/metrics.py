"""Converts the metrics of an ElasticDL model file to Keras metrics, for all forms of `eval_metrics_fn`.

| return value | example |
| --- | --- |
| metrics or functions by name | `{"accuracy": tf.keras.metrics.Accuracy()}`, `{"mse": lambda labels, predictions: …}` |
| the same for each output of the model | `{"logits": {"accuracy": …}, "probs": {"auc": …}}` |
| values, from predictions and labels | `{"accuracy": tf.reduce_mean(…)}` |

A function's value for a batch is weighted by the number of records in the batch, so a short last batch counts less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import tensorflow as tf

from ...errors import ModuleError
from .parts import has_no_parameters, labels_first
from .shim.tensor_values import Tensors

Update: TypeAlias = "Callable[[Tensors, Tensors], None]"
Metric: TypeAlias = "tf.keras.metrics.Metric | Callable[..., tf.Tensor]"


class EvalMetrics:
    """The Keras metrics of a model file.

    Attributes:
      trackers: The Keras metrics by name; those of a nested dict as `{output}_{name}`.
    """

    def __init__(self, function: Callable[..., object] | None, labels: Tensors, outputs: Tensors) -> None:
        """Creates the metrics.

        Args:
          function: The file's `eval_metrics_fn`, or None for no metrics.
          labels: The labels of one batch. A function that returns values is called with them to find the names.
          outputs: The model's outputs for that batch.

        Raises:
          ModuleError: When the function does not return a dict with at least one metric.
        """
        self.trackers: dict[str, tf.keras.metrics.Metric] = {}
        self._updates: list[Update] = []
        if function is None:
            return
        if not has_no_parameters(function):
            self._add_values(function, labels, outputs)
            return
        definitions = _dict(function(), function)
        for name, definition in definitions.items():
            if isinstance(definition, Mapping):
                for inner_name, inner in definition.items():
                    self._add(f"{name}_{inner_name}", inner, name)
            else:
                self._add(name, definition, None)

    def update(self, labels: Tensors, outputs: Tensors) -> None:
        """Updates all metrics with a batch; can be traced in a `tf.function`."""
        for update in self._updates:
            update(labels, outputs)

    def _add(self, name: str, metric: Metric, output: str | None) -> None:
        if isinstance(metric, tf.keras.metrics.Metric):
            self.trackers[name] = metric
            self._updates.append(lambda labels, outputs: metric.update_state(labels, _select(outputs, output)))
            return
        mean = self.trackers[name] = tf.keras.metrics.Mean(name=name)
        in_order = labels_first(metric)

        def update(labels: Tensors, outputs: Tensors) -> None:
            predictions = _select(outputs, output)
            value = metric(labels, predictions) if in_order else metric(predictions, labels)
            _update_mean(mean, value, outputs)

        self._updates.append(update)

    def _add_values(self, function: Callable[..., object], labels: Tensors, outputs: Tensors) -> None:
        in_order = labels_first(function)

        def values(labels: Tensors, outputs: Tensors) -> Mapping[str, object]:
            return _dict(function(labels, outputs) if in_order else function(outputs, labels), function)

        means = {name: tf.keras.metrics.Mean(name=name) for name in values(labels, outputs)}
        self.trackers.update(means)

        def update(labels: Tensors, outputs: Tensors) -> None:
            for name, value in values(labels, outputs).items():
                _update_mean(means[name], value, outputs)

        self._updates.append(update)


def _dict(value: object, function: Callable[..., object]) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not value:
        raise ModuleError(
            f"{function.__name__} must return a dict of metrics with at least one; it returned {value!r}."
        )
    return value


def _select(outputs: Tensors, name: str | None) -> Tensors:
    """Returns an output by name; all outputs if there is no name, or if the model does not return a dict."""
    if name is None or not isinstance(outputs, Mapping):
        return outputs
    if name not in outputs:
        raise ModuleError(
            f"eval_metrics_fn has metrics for the output {name!r}; the model's outputs are {', '.join(outputs)}."
        )
    return outputs[name]


def _update_mean(mean: tf.keras.metrics.Mean, value: tf.Tensor, outputs: Tensors) -> None:
    value = tf.cast(value, tf.float32)
    if value.shape.rank == 0:
        mean.update_state(value, sample_weight=tf.cast(batch_size(outputs), tf.float32))
    else:
        mean.update_state(value)


def batch_size(outputs: Tensors) -> tf.Tensor:
    """Returns the number of records in a batch: the first dimension of the model's first output."""
    return tf.shape(tf.nest.flatten(outputs)[0])[0]
