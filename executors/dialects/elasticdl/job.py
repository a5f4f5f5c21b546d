"""An ElasticDL model as a Keras model that `fit` and `evaluate` can run.

`fit` loops, shards over devices and compiles; what one step does is the model file's: its own loss on its own labels,
with the model's regularisation added, as ElasticDL's workers did it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ...errors import ModuleError
from .metrics import EvalMetrics, batch_size, none_of_nothing
from .parts import Parts
from .shim.tensor_values import Tensors

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"

_TAKES_VALUE = "_takes_the_only_feature_itself"


class Job(tf.keras.Model):  # type: ignore[misc]
    """A model file's model with its loss and metrics.

    Attributes:
      inner: The model itself.
      step: Steps trained, an int64 variable.
      nan_step: The step whose loss was the first that was NaN, or -1.
    """

    def __init__(self, inner: tf.keras.Model, parts: Parts, eval_metrics: EvalMetrics) -> None:
        super().__init__(name="elasticdl_job")
        self.resumes_by_its_own_checkpoints = True  # see `finished_fits`
        self.distribute_reduction_method = "first"  # the metrics are of all workers, and not to be added up
        self.inner = inner
        self.step = _counter(0, "step")
        self.nan_step = _counter(-1, "nan_step")
        self._parts = parts
        self._eval_metrics = eval_metrics
        self._mean_loss = tf.keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        """What Keras resets at the start of each epoch and evaluation."""
        return [self._mean_loss, *self._eval_metrics.trackers.values()]

    def call(self, features: Tensors, training: bool = False) -> Tensors:
        """Returns the model's outputs for a batch of features."""
        return call_model(self.inner, features, training)

    def train_step(self, data: tuple[Tensors, Tensors]) -> dict[str, tf.Tensor]:
        """Trains on one batch of (features, labels)."""
        if self.distribute_strategy.num_replicas_in_sync > 1:
            return self._shared_step(data)
        return self.learn(*self.gradients(data))

    def gradients(self, data: tuple[Tensors, Tensors]) -> tuple[list[Gradient], tf.Tensor, tf.Tensor]:
        """Returns a batch's gradients, its loss and how many records it has."""
        features, labels = data
        with tf.GradientTape() as tape:
            outputs = self(features, training=True)
            loss = self._loss(labels, outputs)
        return tape.gradient(loss, self.inner.trainable_variables), loss, batch_size(outputs)

    def learn(self, gradients: list[Gradient], loss: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
        """Applies what `gradients` gave, and counts the step."""
        self.optimizer.apply_gradients(zip(gradients, self.inner.trainable_variables, strict=True))
        return self._count(loss, records)

    def _shared_step(self, data: tuple[Tensors, Tensors]) -> dict[str, tf.Tensor]:
        """Trains on this worker's part of a batch; it may be larger than others, and that of a short batch empty.

        The step is the one that a single worker would do with the whole batch.
        """
        features, labels = data
        workers = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            outputs = self(features, training=True)
            own = tf.cast(batch_size(outputs), tf.float32)
            part = tf.math.multiply_no_nan(self._loss(labels, outputs), own / workers.all_reduce("SUM", own))
        variables = self.inner.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(part, variables), variables, strict=True))
        loss = workers.all_reduce("SUM", part)
        with tf.control_dependencies([loss]):  # at the end of the data there is none, and nothing is counted
            return self._count(loss, own)

    def _count(self, loss: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
        self.step.assign_add(1)
        first_nan = tf.logical_and(tf.math.is_nan(loss), self.nan_step < 0)
        self.nan_step.assign(tf.where(first_nan, self.step, self.nan_step))
        self._mean_loss.update_state(loss, sample_weight=records)
        return {"loss": self._mean_loss.result()}

    def test_step(self, data: tuple[Tensors, Tensors]) -> dict[str, tf.Tensor]:
        """Evaluates one batch of (features, labels)."""
        self.compare(*self.answers(data))
        return self.results()

    def answers(self, data: tuple[Tensors, Tensors]) -> tuple[Tensors, Tensors]:
        """Returns a batch's labels and the model's outputs."""
        features, labels = data
        return labels, self(features, training=False)

    def compare(self, labels: Tensors, outputs: Tensors) -> None:
        """Has the metrics take into account what `answers` gave."""
        records = batch_size(outputs)
        self._mean_loss.update_state(none_of_nothing(self._loss(labels, outputs), records), sample_weight=records)
        self._eval_metrics.update(labels, outputs)

    def results(self) -> dict[str, tf.Tensor]:
        """Returns what the metrics have come to."""
        values = {name: metric.result() for name, metric in self._eval_metrics.trackers.items()}
        return {"loss": self._mean_loss.result(), **values}

    def _loss(self, labels: Tensors, outputs: Tensors) -> tf.Tensor:
        loss = tf.reduce_mean(tf.cast(self._parts.loss(labels, outputs), tf.float32))
        own = self.inner.losses
        return loss + tf.add_n([tf.cast(one, tf.float32) for one in own]) if own else loss


def _counter(value: int, name: str) -> tf.Variable:
    """Returns a variable that is the same on all workers."""
    one_for_all = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, dtype=tf.int64, trainable=False, name=name, aggregation=one_for_all)


def build(model: tf.keras.Model, features: Tensors) -> Tensors:
    """Calls a model for the first time, which makes its variables; returns its outputs.

    A subclass of Model may want the dict that feed gives, or the one tensor in it: what works is remembered.
    """
    try:
        return call_model(model, features, training=False)
    except Exception:
        if not isinstance(features, Mapping) or len(features) != 1:
            raise
        object.__setattr__(model, _TAKES_VALUE, True)  # past Keras, which would save it
        try:
            return call_model(model, features, training=False)
        except Exception:
            object.__delattr__(model, _TAKES_VALUE)
        raise


def call_model(model: tf.keras.Model, features: Tensors, training: bool) -> Tensors:
    """Calls a model with what `feed` made.

    Feeds mostly give a dict, also to functional models whose only input has no name.
    """
    parameters = inspect.signature(model.call).parameters.values()
    takes_training = any(
        parameter.name == "training" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
    )
    options = {"training": training} if takes_training else {}
    return model(_fitted(model, features), **options)


def _fitted(model: tf.keras.Model, features: Any) -> Tensors:
    if getattr(model, _TAKES_VALUE, False):
        return next(iter(features.values()))
    names = getattr(model, "input_names", None)  # of functional models
    if not names or not isinstance(features, Mapping) or all(name in features for name in names):
        return features
    if len(names) == 1 and len(features) == 1:
        return next(iter(features.values()))
    raise ModuleError(
        f"The model has the inputs {', '.join(names)}, but feed gives {', '.join(map(str, features))}. "
        "Give tf.keras.Input the features' names: tf.keras.Input(…, name='…')."
    )
