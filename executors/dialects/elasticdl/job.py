"""Wraps an ElasticDL model as a Keras model for `fit` and `evaluate`.

Keras provides the loop, the distribution over devices and graph compilation. A step computes, as in ElasticDL's
workers, the model file's loss on the labels of its `feed`, plus the model's regularization losses.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeAlias

import tensorflow as tf

from ...errors import ModuleError
from ...fn_args import FnArgs
from ...runtime.logs.exceptions import add_note
from .metrics import EvalMetrics, batch_size
from .numpy_idioms import allow_numpy_idioms
from .options import ElasticDLOptions
from .parts import Parts
from .shared_batches import take_part
from .shim.tensor_values import Tensors

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"

_UNPACKS_FEATURE = "_takes_the_only_feature_itself"


class Job(tf.keras.Model):  # type: ignore[misc]
    """The model of a model file with its loss and metrics.

    Attributes:
      inner: The file's own Keras model.
      step: The number of trained steps, an int64 variable.
      nan_step: The first step with a NaN loss, or -1; an int64 variable.
    """

    def __init__(self, inner: tf.keras.Model, parts: Parts, eval_metrics: EvalMetrics) -> None:
        super().__init__(name="elasticdl_job")
        self.resumes_by_its_own_checkpoints = True  # see `completed_fits`
        self.distribute_reduction_method = "first"  # metrics are global already and must not be summed
        self.inner = inner
        self.step = _counter(0, "step")
        self.nan_step = _counter(-1, "nan_step")
        self._parts = parts
        self._eval_metrics = eval_metrics
        self._mean_loss = tf.keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        """The metrics, which Keras resets at the start of each epoch and evaluation."""
        return [self._mean_loss, *self._eval_metrics.trackers.values()]

    def call(self, features: Tensors, training: bool = False) -> Tensors:
        """Returns the model's outputs for a batch of features."""
        return call_model(self.inner, features, training)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Trains on one batch of (features, labels), or a replica's part of it; returns the mean loss so far."""
        if self.distribute_strategy.num_replicas_in_sync > 1:
            return self._shared_step(*take_part(data))
        return self.update_weights(*self.gradients(data))

    def gradients(self, data: tuple[Tensors, Tensors]) -> tuple[list[Gradient], tf.Tensor, tf.Tensor]:
        """Returns the gradients, the loss and the number of records of a batch."""
        features, labels = data
        with tf.GradientTape() as tape:
            outputs = self(features, training=True)
            loss = self._loss(labels, outputs)
        return tape.gradient(loss, self.inner.trainable_variables), loss, batch_size(outputs)

    def update_weights(self, gradients: list[Gradient], loss: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
        """Applies the results of `gradients` to the variables and increments the step."""
        self.optimizer.apply_gradients(zip(gradients, self.inner.trainable_variables, strict=True))
        return self._count(loss, records)

    def _shared_step(self, features: Tensors, labels: Tensors, records: tf.Tensor) -> dict[str, tf.Tensor]:
        """Trains on this replica's part of a global batch.

        The loss is weighted by the number of records, so that the step equals that of a single worker with the whole
        batch.
        """
        workers = tf.distribute.get_replica_context()
        own = tf.cast(records, tf.float32)
        with tf.GradientTape() as tape:
            outputs = self(features, training=True)
            part = tf.math.multiply_no_nan(self._loss(labels, outputs), own / workers.all_reduce("SUM", own))
        variables = self.inner.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(part, variables), variables, strict=True))
        loss = workers.all_reduce("SUM", part)
        with tf.control_dependencies([loss]):  # not computed at the end of the data, so no step is counted
            return self._count(loss, own)

    def _count(self, loss: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
        self.step.assign_add(1)
        first_nan = tf.logical_and(tf.math.is_nan(loss), self.nan_step < 0)
        self.nan_step.assign(tf.where(first_nan, self.step, self.nan_step))
        self._mean_loss.update_state(loss, sample_weight=records)
        return {"loss": self._mean_loss.result()}

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Evaluates one batch, or a replica's part of it; returns the metric results so far."""
        if self.distribute_strategy.num_replicas_in_sync > 1:
            features, labels, own = take_part(data)
            outputs = self(features, training=False)
            tf.cond(own > 0, lambda: self.update_metrics(labels, outputs), lambda: None)
        else:
            self.update_metrics(*self.predict_batch(data))
        return self.results()

    def synchronize(self) -> None:
        """Gives each replica the mean of all replicas' moving statistics, which the exported model will have.

        They are updated separately for each replica, and evaluation would use these values.
        """
        for variable in self.inner.non_trainable_variables:
            if getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ:
                variable.assign(variable.read_value())

    def predict_batch(self, data: tuple[Tensors, Tensors]) -> tuple[Tensors, Tensors]:
        """Returns a batch's labels and the model's outputs."""
        features, labels = data
        return labels, self(features, training=False)

    def update_metrics(self, labels: Tensors, outputs: Tensors) -> None:
        """Updates the loss and the metrics with the results of `predict_batch`."""
        self._mean_loss.update_state(self._loss(labels, outputs), sample_weight=batch_size(outputs))
        self._eval_metrics.update(labels, outputs)

    def results(self) -> dict[str, tf.Tensor]:
        """Returns the current metric results by name, including "loss"."""
        values = {name: metric.result() for name, metric in self._eval_metrics.trackers.items()}
        return {"loss": self._mean_loss.result(), **values}

    def _loss(self, labels: Tensors, outputs: Tensors) -> tf.Tensor:
        loss = tf.reduce_mean(tf.cast(self._parts.loss(labels, outputs), tf.float32))
        own = self.inner.losses
        return loss + tf.add_n([tf.cast(one, tf.float32) for one in own]) if own else loss


def required_parts(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> Parts:
    """Returns a file's parts, after checking those that training and evaluation require."""
    parts = Parts(module, model_name, ElasticDLOptions.of(fn_args))
    parts.require()
    allow_numpy_idioms()
    return parts


def make_job(parts: Parts, batch: Any) -> Job:
    """Builds the model and its metrics with a batch of (features, labels), eagerly, for readable errors."""
    features, labels = batch
    model = parts.model()
    outputs = build(model, features)
    try:
        parts.loss(labels, outputs)
        metrics = EvalMetrics(parts.eval_metrics_fn(), labels, outputs)
    except Exception as error:
        add_note(error, f"Labels: {_shapes(labels)}; the model's outputs: {_shapes(outputs)}.")
        raise
    return Job(model, parts, metrics)


def _shapes(values: Tensors) -> object:
    return tf.nest.map_structure(lambda value: f"{value.dtype.name} {value.shape}", values)


def _counter(value: int, name: str) -> tf.Variable:
    """Returns an int64 variable with the same value on all workers."""
    one_for_all = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, dtype=tf.int64, trainable=False, name=name, aggregation=one_for_all)


def build(model: tf.keras.Model, features: Tensors) -> Tensors:
    """Calls a model for the first time, which creates its variables; returns its outputs.

    If the call with a dict of a single feature fails, it is retried with the tensor itself. If that works, the model is
    marked, and later calls pass the tensor.
    """
    try:
        return call_model(model, features, training=False)
    except Exception:
        if not isinstance(features, Mapping) or len(features) != 1:
            raise
        object.__setattr__(model, _UNPACKS_FEATURE, True)  # bypasses Keras's attribute tracking
        try:
            return call_model(model, features, training=False)
        except Exception:
            object.__delattr__(model, _UNPACKS_FEATURE)
        raise


def call_model(model: tf.keras.Model, features: Tensors, training: bool) -> Tensors:
    """Calls a model with features from `feed`.

    A dict of a single feature is unpacked for a functional model whose only input has another name. `training` is
    passed if the model's `call` accepts it.
    """
    parameters = inspect.signature(model.call).parameters.values()
    takes_training = any(
        parameter.name == "training" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
    )
    options = {"training": training} if takes_training else {}
    return model(_match_inputs(model, features), **options)


def _match_inputs(model: tf.keras.Model, features: Any) -> Tensors:
    if getattr(model, _UNPACKS_FEATURE, False):
        return next(iter(features.values()))
    names = getattr(model, "input_names", None)  # of functional models
    if not names or not isinstance(features, Mapping) or all(name in features for name in names):
        return features
    if len(names) == 1 and len(features) == 1:
        return next(iter(features.values()))
    raise ModuleError(
        f"The model has the inputs {', '.join(names)}, but feed returns {', '.join(map(str, features))}. "
        "Name each input after its feature: tf.keras.Input(…, name='…')."
    )
