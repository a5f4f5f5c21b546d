"""Tests whether a signature's answer for an example depends on the other examples of its batch.

It should not: such a model predicts something else in each batch, so that no evaluation holds for its serving. The
usual cause is an export in training mode, in which BatchNormalization normalizes by the batch.

    feeds = {"the first eval example": {"x": tf.constant([[1.0]])}, "eval example 2": {"x": tf.constant([[3.0]])}}
    compare_in_batch(function, feeds, function(x=tf.constant([[1.0]]))).outcome    # "passed"

Each example is compared, as some answers depend only on the examples before it. Most models need a call with each
example and two with the batch. Only if their answers differ, repeated calls show whether that is due to rounding, to
randomness or to the batch; see `repeated_answers.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from ..runtime.logs.exceptions import one_line_message
from .graph import nodes_of
from .model_check import ModelCheck
from .repeated_answers import RepeatedAnswers, is_equal
from .tensor_values import UnreadableTensorError, excerpt, plain_array

if TYPE_CHECKING:
    from ..monitoring.run_json import BatchDependenceJson
    from .checked_model import CheckedModel
    from .tensor_values import Plain, Tensor
    from .trial import Feed, Function

_FIRST_CALLS = 3  # of each kind; further ones only if these differ
# Limits of the repeated calls; the first one reached ends them. The values bound the memory.
_CALLS, _SECONDS, _VALUES = 512, 3.0, 1 << 23
_SHOWN = 10
_HALF = (tf.bfloat16.as_datatype_enum, tf.float16.as_datatype_enum)


class Batches(ModelCheck):
    """The answer for an example is the same alone and in a batch."""

    order = 40
    needs = ("answers",)

    def check(self, model: CheckedModel) -> str:
        """Compares the answers for a few examples; adds the first that depends on the batch to the report."""
        answer = model.answer
        assert answer is not None  # it is needed
        comparison = compare_in_batch(answer.function, answer.feeds, answer.outputs)
        self.part = comparison.dependence
        return comparison.outcome


@dataclasses.dataclass(frozen=True)
class BatchComparison:
    """The result of the check.

    Attributes:
      outcome: "passed", or why the check was skipped or is inconclusive, or what it found.
      dependence: The answer that depends on the batch; None without.
    """

    outcome: str
    dependence: BatchDependenceJson | None = None


def compare_in_batch(function: Function, feeds: Mapping[str, Feed], alone: Mapping[str, Tensor]) -> BatchComparison:
    """Compares a signature's answer for each example alone with that in a batch of all examples.

    Args:
      function: The signature.
      feeds: {description: inputs} of one example each, at least one. Those with other shapes than the first one are
        left out.
      alone: The answer for the first one.
    """
    specs = function.structured_input_signature[1]
    names = [name for name, spec in specs.items() if spec.shape.rank is None or spec.shape[:1].as_list() == [None]]
    if not names:
        return BatchComparison("skipped: the signature takes a fixed number of examples")
    first = next(iter(feeds.values()))
    feeds = {
        source: feed
        for source, feed in feeds.items()
        if all(feed[name].shape[1:] == first[name].shape[1:] for name in names)
    }
    if all(
        np.array_equal(plain_array(feed[name]), plain_array(first[name])) for feed in feeds.values() for name in names
    ):
        return BatchComparison("skipped: there are no two different examples for a batch")
    try:
        return _compared(_Batch(function, feeds, names), _arrays(alone))
    except Exception as error:  # a traced function raises whatever is in it, and more examples need more memory
        problem = f"{type(error).__name__}: {one_line_message(error)}"
        return BatchComparison(f"is inconclusive: the signature fails on {len(feeds)} examples together: {problem}")


@dataclasses.dataclass(frozen=True)
class _Batch:
    """The examples, and calls with them.

    Attributes:
      function: The signature.
      feeds: {description: inputs} of one example each.
      names: The inputs with a value for each example.
    """

    function: Function
    feeds: Mapping[str, Feed]
    names: Sequence[str]

    def answer(self, feeds: Sequence[Feed]) -> dict[str, np.ndarray]:
        joined = {name: tf.concat([feed[name] for feed in feeds], axis=0) for name in self.names}
        return _arrays(self.function(**{**feeds[0], **joined}))

    def repeated(self, index: int, counts: Mapping[str, int], end: float) -> dict[str, RepeatedAnswers]:
        """Returns the answers of repeated calls for an example, with `counts` values of each output."""
        feeds = [*self.feeds.values()]
        size, feed = len(feeds), feeds[index]
        examples, places = ([feed], [feed] * size, feeds), (0, index, index)
        calls: list[list[dict[str, np.ndarray]]] = [[] for _ in examples]
        for number in range(1, _CALLS + 1):
            for answers, batch, place in zip(calls, examples, places, strict=True):  # in turns: a state may change
                answers.append(_rows_at(place, self.answer(batch), counts))
            values = sum(rows.size for answers in calls for answer in answers for rows in answer.values())
            if number == _FIRST_CALLS and not any(repeats.is_random for repeats in self._stacked(calls).values()):
                break
            if number >= _FIRST_CALLS and (values > _VALUES or time.perf_counter() > end):
                break
        return self._stacked(calls)

    def _stacked(self, calls: Sequence[Sequence[Mapping[str, np.ndarray]]]) -> dict[str, RepeatedAnswers]:
        return {
            name: RepeatedAnswers.of([[answer[name] for answer in answers] for answers in calls], is_half=self.is_half)
            for name in calls[0][0]
        }

    @functools.cached_property
    def is_half(self) -> bool:
        """Whether the model computes with floats of 16 bits."""
        nodes = nodes_of(self.function.graph.as_graph_def())
        return any(attribute.type in _HALF for node in nodes for attribute in node.attr.values())


def _compared(batch: _Batch, first: Mapping[str, np.ndarray]) -> BatchComparison:
    feeds, end = [*batch.feeds.values()], time.perf_counter() + _SECONDS
    together, again = batch.answer(feeds), batch.answer(feeds)
    alone = [first]
    alone += (batch.answer([feed]) for feed in feeds[1:] if time.perf_counter() < end)
    counts = {
        name: len(rows)
        for name, rows in first.items()
        if len(together[name]) == len(feeds) * len(rows) > 0 and {len(answer[name]) for answer in alone} == {len(rows)}
    }
    if not counts:
        return BatchComparison("skipped: no output has values for each example")
    in_batch = [_rows_at(index, together, counts) for index in range(len(alone))]
    differing = [
        index
        for index, (own, rows) in enumerate(zip(alone, in_batch, strict=True))
        if not all(is_equal(own[name], rows[name]) for name in counts)
    ]
    if not differing and all(is_equal(together[name], again[name]) for name in counts):
        return BatchComparison("passed")
    return _explained(batch, differing or [0], counts)


def _explained(batch: _Batch, differing: Sequence[int], counts: Mapping[str, int]) -> BatchComparison:
    """Returns why answers of examples alone and together differ, or those of equal calls."""
    sources, size, end = [*batch.feeds], len(batch.feeds), time.perf_counter() + _SECONDS
    by_size: dict[str, list[tuple[str, RepeatedAnswers]]] = {name: [] for name in counts}
    for index in differing:
        calls = batch.repeated(index, counts, end)
        for name, answers in calls.items():
            if len(positions := answers.dependent_values()):
                return _dependent(name, answers, positions, size, sources[index])
            if len(answers.size_dependent_values()):
                by_size[name].append((sources[index], answers))
        if random := next((name for name, answers in calls.items() if answers.is_random), ""):
            return _random(random, sources[index])
        if time.perf_counter() > end:
            break
    for name, examples in by_size.items():
        if len(examples) > size / 2:  # near ties of scores, which rounding decides, are rare
            source, answers = examples[0]
            return _dependent(name, answers, answers.size_dependent_values(), size, source)
    return BatchComparison("passed")


def _random(name: str, source: str) -> BatchComparison:
    return BatchComparison(
        f"is inconclusive: the model is random or keeps a state: {name} for {source} differs between equal calls. If "
        "this is not intended, as for dropout, export the model with training=False"
    )


def _rows_at(index: int, answer: Mapping[str, np.ndarray], counts: Mapping[str, int]) -> dict[str, np.ndarray]:
    return {name: answer[name][index * count : (index + 1) * count] for name, count in counts.items()}


def _arrays(answer: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Returns the outputs that have rows; ragged ones are padded."""
    arrays = {}
    for name, value in sorted(answer.items()):
        with contextlib.suppress(UnreadableTensorError):
            arrays[name] = plain_array(value.to_tensor() if isinstance(value, tf.RaggedTensor) else value)
    return {name: array for name, array in arrays.items() if array.ndim}


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
