"""Tests whether a signature's answer for an example depends on the other examples of its batch.

It should not: such a model predicts something else in each batch, so that no evaluation holds for its serving. The
usual cause is an export in training mode, in which BatchNormalization normalizes by the batch.

    feeds = [{"x": tf.constant([[1.0]])}, {"x": tf.constant([[3.0]])}]
    compare_in_batch(function, feeds, function(**feeds[0]), "the first eval example").outcome    # "passed"

Most models need two calls with the batch. Only if their answers differ, repeated calls show whether that is due to
rounding, to randomness or to the batch; see `repeated_answers.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import numpy as np
import tensorflow as tf

from ..runtime.logs.exceptions import one_line_message
from .repeated_answers import RepeatedAnswers, is_equal
from .tensor_values import UnreadableTensorError, excerpt, plain_array

if TYPE_CHECKING:
    from .tensor_values import Plain, Tensor

    Function: TypeAlias = tf.types.experimental.ConcreteFunction
    Feed: TypeAlias = Mapping[str, Tensor]

# Limits of the repeated calls; the first one reached ends them. The values bound the memory.
_CALLS, _SECONDS, _VALUES = 128, 3.0, 1 << 23
_SHOWN = 10
_HALF = (tf.bfloat16.as_datatype_enum, tf.float16.as_datatype_enum)


class BatchDependence(TypedDict):
    """An answer that differs alone and in a batch, as JSON values.

    Attributes:
      output: Name of the output.
      alone: Its values for an example that is the only one, of more than 10 the first that differ; means if the model
        is random.
      together: The same values in a batch.
      batch_size: Number of examples in the batch.
    """

    output: str
    alone: list[Plain]
    together: list[Plain]
    batch_size: int


@dataclasses.dataclass(frozen=True)
class BatchComparison:
    """The result of the check.

    Attributes:
      outcome: "passed", or why the check was skipped or is inconclusive, or what it found.
      dependence: The answer that depends on the batch; None without.
    """

    outcome: str
    dependence: BatchDependence | None = None


def compare_in_batch(
    function: Function, feeds: Sequence[Feed], alone: Mapping[str, Tensor], source: str
) -> BatchComparison:
    """Compares a signature's answer for the first example alone with that in a batch of all examples.

    Args:
      function: The signature.
      feeds: Inputs for one example each, at least one. Those with other shapes than the first one are left out.
      alone: The answer for the first one.
      source: Description of the first example.
    """
    specs = function.structured_input_signature[1]
    names = [name for name, spec in specs.items() if spec.shape.rank is None or spec.shape[:1].as_list() == [None]]
    if not names:
        return BatchComparison("skipped: the signature takes a fixed number of examples")
    first, *others = feeds
    others = [feed for feed in others if all(feed[name].shape[1:] == first[name].shape[1:] for name in names)]
    if all(np.array_equal(plain_array(feed[name]), plain_array(first[name])) for feed in others for name in names):
        return BatchComparison("skipped: there are no two different examples for a batch")
    size = 1 + len(others)
    try:
        in_batches = (_joined(examples, names) for examples in ([first] * size, [first, *others]))
        return _compared(function, (first, *in_batches), alone, size, source)
    except Exception as error:  # a traced function raises whatever is in it, and more examples need more memory
        problem = f"{type(error).__name__}: {one_line_message(error)}"
        return BatchComparison(f"is inconclusive: the signature fails on {size} examples together: {problem}")


def _joined(feeds: Sequence[Feed], names: Sequence[str]) -> Feed:
    return {**feeds[0], **{name: tf.concat([feed[name] for feed in feeds], axis=0) for name in names}}


def _compared(
    function: Function, feeds: Sequence[Feed], alone: Mapping[str, Tensor], size: int, source: str
) -> BatchComparison:
    first, together, again = _arrays(alone), _arrays(function(**feeds[-1])), _arrays(function(**feeds[-1]))
    counts = {name: len(rows) for name, rows in first.items() if len(rows) and len(together[name]) == size * len(rows)}
    if not counts:
        return BatchComparison("skipped: no output has values for each example")
    same = all(is_equal(first[name], together[name][:count]) for name, count in counts.items())
    if same and all(is_equal(together[name], again[name]) for name in counts):
        return BatchComparison("passed")
    calls = _repeated(function, feeds, counts)
    for name, answers in calls.items():
        if len(positions := answers.dependent_values()):
            return _dependent(name, answers, positions, size, source)
    for name, answers in calls.items():
        if answers.is_random:
            return BatchComparison(
                f"is inconclusive: the model is random or keeps a state: {name} for {source} differs between equal "
                "calls. If this is not intended, as for dropout, export the model with training=False"
            )
    return BatchComparison("passed")


def _arrays(answer: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Returns the outputs that have rows; ragged ones are padded."""
    arrays = {}
    for name, value in sorted(answer.items()):
        with contextlib.suppress(UnreadableTensorError):
            arrays[name] = plain_array(value.to_tensor() if isinstance(value, tf.RaggedTensor) else value)
    return {name: array for name, array in arrays.items() if array.ndim}


def _repeated(function: Function, feeds: Sequence[Feed], counts: Mapping[str, int]) -> dict[str, RepeatedAnswers]:
    calls: list[list[dict[str, np.ndarray]]] = [[] for _ in feeds]
    end = time.perf_counter() + _SECONDS
    for number in itertools.count():
        values = sum(rows.size for answers in calls for answer in answers for rows in answer.values())
        if number >= 2 and (number == _CALLS or values > _VALUES or time.perf_counter() > end):
            break
        for answers, feed in zip(calls, feeds, strict=True):  # in turns: a state may change from call to call
            arrays = _arrays(function(**feed))
            answers.append({name: arrays[name][:count] for name, count in counts.items()})
    is_half = _computes_in_half_precision(function)
    return {
        name: RepeatedAnswers.of([[answer[name] for answer in answers] for answers in calls], is_half=is_half)
        for name in counts
    }


def _computes_in_half_precision(function: Function) -> bool:
    graph = function.graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(body.node_def for body in graph.library.function))
    return any(attribute.type in _HALF for node in nodes for attribute in node.attr.values())


def _dependent(name: str, answers: RepeatedAnswers, positions: np.ndarray, size: int, source: str) -> BatchComparison:
    values = (answers.typical(rows) for rows in (answers.alone, answers.together))
    alone, together = (excerpt((row if len(row) <= _SHOWN else row[positions]).tolist()) for row in values)
    random = ", on average, as the model is random, too" if answers.is_random else ""
    return BatchComparison(
        f"found that the answer for {source} depends on the other examples of its batch: {name} is {_text(alone)} "
        f"alone, but {_text(together)} in a batch of {size}{random}. The usual cause is a layer in training mode, such "
        "as BatchNormalization: export the model with training=False",
        {"output": name, "alone": alone, "together": together, "batch_size": size},
    )


def _text(values: Sequence[Plain]) -> str:
    return f"[{', '.join(f'{value:.4g}' if isinstance(value, float) else str(value) for value in values)}]"
