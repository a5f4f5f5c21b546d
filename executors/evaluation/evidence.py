"""Records losses, labels and inputs of a training's Keras fits, as evidence of its task.

    with observed(source.files) as seen:
        run_fn(fn_args)
    seen.evidence()  # TrainingEvidence of the last fit, or None

Reads element specs, shapes and dtypes of the data, and after the fit at most 10,000 rows of a `tf.data` pipeline to see
how it converts labels. With `label_batches`, as in the trial of `check`, it also reads that many batches of labels.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..keras.interception import KerasCall, KerasObserver, may_use_keras
from ..runtime.files.json_data import JsonData
from ..runtime.observers import observed_by
from .fitted_outputs import LossObserver, ModelCalls, logged_errors
from .label_mapping import LabelMapping, label_mappings
from .label_values import LabelFacts, by_key, facts_of_labels, label_values
from .losses import from_logits_of, name_of

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class LabelEvidence:
    """The labels that one output is fitted to.

    Attributes:
      dtype: TensorFlow's name of their type; "" if unknown.
      shape: Shape of one example's label; None if unknown.
      lowest, highest: Minimum and maximum in the batches read; None if values were not read.
      values: Distinct values in the batches read, class indices for one-hot rows; () if not read, or more than 50.
      is_one_hot: Whether every row is a one-hot vector; None if values were not read.
      is_binary: Whether all values are 0 or 1; None if values were not read.
      mappings: How its values come from features of the examples, by feature; see `label_mapping.py`.
    """

    dtype: str = ""
    shape: tuple[int | None, ...] | None = None
    lowest: float | None = None
    highest: float | None = None
    values: tuple[float, ...] = ()
    is_one_hot: bool | None = None
    is_binary: bool | None = None
    mappings: tuple[LabelMapping, ...] = ()

    @property
    def width(self) -> int | None:
        """Size of the last dimension of one example's label, 1 for a scalar; None if unknown."""
        return None if self.shape is None else (self.shape[-1] if self.shape else 1)


@dataclasses.dataclass(frozen=True)
class OutputEvidence:
    """One output of a fitted model.

    Attributes:
      name: Its name in the model; "" without one.
      key: The key of its label in the dict of labels; "" if labels are not a dict.
      loss: The compiled loss's canonical name; "" for a custom loss, or none.
      from_logits: The loss's `from_logits`; None if it has none.
      label: Its label; None if `fit` gets no labels.
      tensors: Names of the tensors that the model returns for it, where functions are traced; see `fitted_outputs`.
      alike: The same, and those of its last layer elsewhere, and of models of the same architecture.
    """

    name: str = ""
    key: str = ""
    loss: str = ""
    from_logits: bool | None = None
    label: LabelEvidence | None = None
    tensors: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class TrainingEvidence(JsonData):
    """Observations of a training.

    Attributes:
      outputs: One entry per output that a Keras fit trains; () without one.
      inputs: Names of the input features; () if inputs are not a dict.
      metrics: Names of the logged metrics, without the loss and validation metrics.
      tensors: Without a Keras fit, names of the tensors that Keras models return.
      others: Names of the tensors that other fitted Keras models return.
      loss_keys: Keys of an Estimator's predictions that its loss is computed from.
      weights: What weights the examples in the training, such as "class_weight"; "" if they all count the same.
      weights_validation: Whether the metrics of the training's own validation are weighted, too.
    """

    outputs: tuple[OutputEvidence, ...] = ()
    inputs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    loss_keys: tuple[str, ...] = ()
    weights: str = ""
    weights_validation: bool = False

    @property
    def fitted_tensors(self) -> tuple[str, ...]:
        """Names of the tensors that are what the training fitted."""
        return self.tensors or tuple(name for output in self.outputs for name in output.tensors)

    def with_examples(self, labels: np.ndarray, features: Iterable[str]) -> TrainingEvidence:
        """Returns the evidence with what the labels and the features' names of evaluated examples show of the task."""
        label = LabelEvidence(labels.dtype.name, labels.shape[1:], **facts_of_labels(labels))
        outputs = (OutputEvidence(label=label),)
        return dataclasses.replace(self, outputs=outputs, inputs=tuple(features), tensors=self.fitted_tensors)


@dataclasses.dataclass(frozen=True)
class _Fit:
    """A Keras fit.

    Attributes:
      evidence: What was observed when it ended.
      keys: The key or position of each output's label.
      trained: Whether each output has a loss, or none of them has.
      model: The user's model.
      data: Its dataset, if it has labels; else None.
    """

    evidence: TrainingEvidence
    keys: list[str]
    trained: list[bool]
    model: keras.Model
    data: tf.data.Dataset | None


class Observer(KerasObserver):
    """Records evidence of Keras fits; keeps that of the last one.

    Args:
      label_batches: How many batches to read for the labels' values; 0 for none.
    """

    def __init__(self, label_batches: int = 0) -> None:
        self._label_batches = label_batches
        self._last: _Fit | None = None
        self._calls = ModelCalls()
        self.estimator = LossObserver()

    def evidence(self) -> TrainingEvidence | None:
        """Returns the evidence of the last fit, or of calls of models without a fit; None without both.

        Reads some of the data of the fit again, to follow the labels through its steps.
        """
        keys, weights = self.estimator.keys, self.estimator.weights
        if self._last is None:
            evidence = TrainingEvidence(
                tensors=self._calls.all_names(), loss_keys=keys, weights=weights, weights_validation=bool(weights)
            )
            return None if evidence == TrainingEvidence() else evidence
        mappings: Mapping[str, tuple[LabelMapping, ...]] = {}
        with logged_errors("how the labels are converted"):
            mappings = label_mappings(self._last.data) if self._last.data is not None else {}
        fitted = self._last.evidence.outputs
        tensors = self._calls.of(self._last.model, [(output.key, output.name) for output in fitted])
        every = [
            dataclasses.replace(
                output, tensors=names.own, alike=names.alike, label=_with_mappings(output.label, mappings.get(key, ()))
            )
            for output, key, names in zip(fitted, self._last.keys, tensors, strict=True)
        ]
        outputs = tuple(itertools.compress(every, self._last.trained))
        others = self._calls.of_others(self._last.model)
        return dataclasses.replace(self._last.evidence, outputs=outputs, others=others, loss_keys=keys)

    def note_call(self, layer: keras.layers.Layer, result: object) -> None:
        """Records what a layer or model returns."""
        with logged_errors("the outputs of a model"):
            self._calls.note(layer, result)

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Records the fit's loss and data after it has ended; skips nested fits."""
        if call.is_nested:
            return proceed()
        try:
            history = proceed()
        finally:
            with logged_errors("the labels of this fit"):
                self._last = _fit_of(call.model, call.arguments, self._label_batches)
                self._calls.note_fit(self._last.model)
        logged = getattr(history, "history", None)
        if self._last is not None and isinstance(logged, Mapping):
            names = [name for name in logged if not name.startswith("val_") and name != "loss"]
            evidence = dataclasses.replace(self._last.evidence, metrics=tuple(names))
            self._last = dataclasses.replace(self._last, evidence=evidence)
        return history


@contextlib.contextmanager
def observed(files: Sequence[str], label_batches: int = 0) -> Iterator[Observer]:
    """Observes the Keras fits and the Estimators of a block.

    Args:
      files: The module's source files. If they neither mention nor import Keras, it is not imported here either.
      label_batches: How many batches to read for the labels' values; 0 for none.
    """
    seen = Observer(label_batches)
    with observed_by(seen.estimator), observed_by(seen) if may_use_keras(files) else contextlib.nullcontext():
        yield seen


def _fit_of(model: keras.Model, given: Mapping[str, Any], label_batches: int) -> _Fit:
    data = given.get("x")
    spec = getattr(data, "element_spec", None)
    if spec is not None:
        parts = spec if isinstance(spec, tuple) else (spec,)
        x, y = parts[0], parts[1] if len(parts) > 1 else None
    else:
        x, y = data, given.get("y")
    inner = getattr(model, "inner", model)  # the user's model, if a dialect has wrapped it
    names = [str(name) for name in getattr(inner, "output_names", None) or ()]
    labels = {} if y is None else by_key(y)
    losses = _losses(getattr(inner, "loss", None), names, len(labels))
    values = label_values(data, y, given.get("validation_data"), label_batches) if label_batches else {}
    outputs, keys = [], []
    for position in range(max(len(labels), len(losses), 1)):
        name = names[position] if position < len(names) else ""
        key = name if name in labels else list(labels)[position] if position < len(labels) else ""
        label = _label(labels[key], values.get(key)) if key in labels and labels[key] is not None else None
        loss = losses[position] if position < len(losses) else None
        keys.append(key)
        outputs.append(
            OutputEvidence(
                name,
                key if isinstance(y, Mapping) else "",
                name_of(loss) if loss else "",
                from_logits_of(loss) if loss else None,
                label,
            )
        )
    inputs = tuple(sorted(map(str, x))) if isinstance(x, Mapping) else ()
    validation_is_weighted = _has_weights(given.get("validation_data"))
    evidence = TrainingEvidence(
        tuple(outputs), inputs, weights=_weights(given), weights_validation=validation_is_weighted
    )
    trained = [number >= len(losses) or losses[number] is not None for number in range(len(outputs))]
    return _Fit(
        evidence,
        keys,
        trained if any(trained) else [True] * len(outputs),
        inner,
        data if labels and spec is not None else None,
    )


def _weights(given: Mapping[str, Any]) -> str:
    if given.get("class_weight"):
        return "class_weight"
    return "sample weights" if given.get("sample_weight") is not None or _has_weights(given.get("x")) else ""


def _has_weights(data: object) -> bool:
    """Whether a dataset's elements, or a tuple of arrays, have sample weights as third part."""
    spec = getattr(data, "element_spec", data)
    return isinstance(spec, tuple) and len(spec) > 2


def _losses(loss: object, names: Sequence[str], labels: int) -> list[object]:
    if isinstance(loss, Mapping):
        return [loss.get(name) for name in names] if set(names) >= set(loss) else list(loss.values())
    if isinstance(loss, (list, tuple)):
        return list(loss)
    return [loss] * max(labels, 1) if loss else []


def _with_mappings(label: LabelEvidence | None, mappings: tuple[LabelMapping, ...]) -> LabelEvidence | None:
    return None if label is None else dataclasses.replace(label, mappings=mappings)


def _label(spec: object, values: LabelFacts | None) -> LabelEvidence:
    dtype = getattr(spec, "dtype", None)
    shape = getattr(spec, "shape", None)
    sizes: tuple[int | None, ...] | None = None
    if shape is not None and getattr(shape, "rank", 0) is not None:
        sizes = tuple(None if size is None else int(size) for size in list(shape)[1:])
    name = getattr(dtype, "name", None) or (str(dtype) if dtype is not None else "")
    return LabelEvidence(name, sizes, **(values or {}))
