"""Runs a signature of a model that is being checked on an example."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import tensorflow as tf

from ..errors import InputError
from ..inputs.message_text import closest_names
from ..runtime.logs.exceptions import one_line_message
from .feeding import Feeding, feeding_of
from .input_names import feature_for
from .prediction.arrays import input_array
from .trial_examples import Example, examples_for

if TYPE_CHECKING:
    from ..errors import ModelCheckError
    from .model_check import ModelCheckRequest
    from .sample_input import Value
    from .signatures import ServedSignature
    from .tensor_values import Tensor

    Function: TypeAlias = tf.types.experimental.ConcreteFunction
    Feed: TypeAlias = Mapping[str, Tensor]

NO_MEMORY = (MemoryError, tf.errors.ResourceExhaustedError)  # not a fault of the model
_TIMED_SECONDS, _TIMED_CALLS = 0.25, 200  # limits of the latency measurement; the first one reached ends it


@dataclasses.dataclass(frozen=True)
class Answer:
    """The result of running a signature.

    Attributes:
      signature: The signature's name.
      function: The signature.
      example: The example, or the last one that was tried.
      feeds: {source: inputs} of the call, then those for other examples.
      outputs: {output: tensor}; {} after a problem.
      problem: Why no example could be used, or why the model failed on a synthetic one; "" on success.
      fed: The source of each input, with the reason, in words; see `Feeding.line`.
    """

    signature: str
    function: Function
    example: Example
    feeds: Mapping[str, Feed] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    problem: str = ""
    fed: str = ""

    @functools.cached_property
    def latency(self) -> dict[str, float]:
        """The latency of repeated calls with the example, for 0.25 seconds and at most 200 calls.

        `median` and `p90` are in seconds, `calls` is the number of calls; {} if a repeated call raises.
        """
        took: list[float] = []
        feed, end = next(iter(self.feeds.values())), time.perf_counter() + _TIMED_SECONDS
        while not took or (len(took) < _TIMED_CALLS and time.perf_counter() < end):
            begin = time.perf_counter()
            try:
                self.function(**feed)
            except Exception:  # a stateful model; repeated calls are not part of the check
                return {}
            took.append(time.perf_counter() - begin)
        p90 = sorted(took)[math.ceil(0.9 * len(took)) - 1]
        return {"median": round(statistics.median(took), 7), "p90": round(p90, 7), "calls": len(took)}


def answer_of(
    function: Function, signature: ServedSignature, request: ModelCheckRequest, failed: Callable[[str], ModelCheckError]
) -> Answer:
    """Runs a signature on the first example that it accepts.

    Args:
      function: The signature.
      signature: The signature as its graph shows it.
      request: The request, with the examples.
      failed: Returns the error to raise if the model fails on a real example that fits the signature.
    """
    specs = function.structured_input_signature[1]
    problem = "there is no example to run it on"
    for example in examples_for(request, signature):
        try:
            feeding = _feeding(signature, example)
            feed = _tensors(specs, feeding, example)
        except InputError as error:
            problem = str(error)
            continue
        if feeding.is_assumed:
            example = dataclasses.replace(example, source=f"{example.source}; {feeding.line()}", is_certain=False)
        try:
            outputs = function(**feed)
        except NO_MEMORY:
            raise
        except Exception as error:  # a traced function raises whatever is in it
            problem = f"{type(error).__name__}: {one_line_message(error)}"
            if example.is_certain:
                said = f"{type(error).__name__}: {error}"
                raise failed(f"its signature {signature.name!r} fails on {example.source}: {said}") from error
            continue
        feeds = {example.source: feed, **dict(_other_feeds(specs, feeding, example))}
        return Answer(signature.name, function, example, feeds, outputs, fed=feeding.line())
    return Answer(signature.name, function, example, problem=problem)


def _feeding(signature: ServedSignature, example: Example) -> Feeding:
    """Returns what the signature is fed; a sample input has values for the inputs, and zeros fit all but records."""
    if example.serialized:
        features = {name for row in (example, *example.others) for name in row.features} or None
        return feeding_of(
            signature, features, lambda: [name for name, dtype in example.dtypes.items() if dtype == "string"]
        )
    named = {served.name: feature_for(served.name, example.features) for served in signature.inputs}
    if missing := [name for name, feature in named.items() if example.features and feature is None]:
        known = closest_names(sorted(example.features), near=missing[0])
        raise InputError(f"the example has no feature {missing[0]!r}; it has {known}")
    if not example.features and signature.takes_examples:
        raise InputError("the signature takes serialized examples, but none is available")
    return Feeding(features={name: feature or name for name, feature in named.items()})


def _tensors(specs: Mapping[str, tf.TensorSpec], feeding: Feeding, example: Example) -> dict[str, tf.Tensor]:
    """Returns the input tensors for a signature; raises InputError if the example does not fit."""
    for name, spec in specs.items():
        if not isinstance(spec, tf.TensorSpec) or spec.dtype in (tf.variant, tf.resource):
            kind = f"a {type(spec).__name__} of {spec.dtype.name}"
            raise InputError(f"there is no example of the input {name!r}, which is {kind}")
    tensors = {name: _records(example.serialized, specs[name]) for name in feeding.records}
    for name, feature in feeding.features.items():
        values, spec = example.features.get(feature, ()), specs[name]
        try:
            tensors[name] = _fitted(values, spec) if example.is_real else _reshaped(values, spec)
        except (TypeError, ValueError) as error:
            raise InputError(f"feature {feature!r} does not match the signature's {spec}: {error}") from error
    return tensors


def _other_feeds(
    specs: Mapping[str, tf.TensorSpec], feeding: Feeding, example: Example
) -> Iterator[tuple[str, dict[str, tf.Tensor]]]:
    for other in example.others:
        with contextlib.suppress(InputError):
            yield other.source, _tensors(specs, feeding, other)


def _records(record: bytes, spec: tf.TensorSpec) -> tf.Tensor:
    return tf.fill([size or 1 for size in spec.shape.as_list()] if spec.shape.rank is not None else [1], record)


def _fitted(values: Sequence[Value], spec: tf.TensorSpec) -> tf.Tensor:
    """Returns an example's values as the tensor that `predict` feeds; a fixed batch repeats the example."""
    array = input_array(pa.array([values]), spec)
    if spec.shape.rank == 0:
        return tf.constant(array[0], dtype=spec.dtype)
    return tf.constant(np.repeat(array, (spec.shape[0] or 1) if spec.shape.rank else 1, axis=0), dtype=spec.dtype)


def _reshaped(values: Sequence[Value], spec: tf.TensorSpec) -> tf.Tensor:
    """Returns values, or zeros without values, as a tensor of the spec's shape.

    Unknown sizes become 1, except the last of several, which becomes the number of values.
    """
    values = values or [b"" if spec.dtype == tf.string else 0]
    if spec.shape.rank is None:
        shape = [1, len(values)]
    else:
        shape = [size or 1 for size in spec.shape.as_list()]
        if spec.shape.rank > 1 and spec.shape[-1] is None:
            shape[-1] = len(values)
    flat = np.asarray(values, dtype=object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype)
    return tf.constant(np.resize(flat, shape), dtype=spec.dtype)
