"""Evaluates examples of an Estimator's evaluation input, whose labels only the module's `input_fn` can compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from ...compat.tensorflow_estimator import call_input_fn
from ...evaluation.evaluated_examples import Batch

_EVAL = tf.estimator.ModeKeys.EVAL


def evaluated_batches(
    estimator: tf.estimator.Estimator, eval_spec: tf.estimator.EvalSpec, variables: str
) -> Iterator[Batch]:
    """Yields labels, outputs and features of each batch, for `evaluated_examples.collect`.

    Args:
      estimator: The Estimator.
      eval_spec: Its EvalSpec, with the input.
      variables: Path of the checkpoint in the exported model.
    """
    hook = _InputHook()

    def input_fn() -> object:
        features, labels = _tensors(call_input_fn(estimator, eval_spec.input_fn, _EVAL))
        hook.watch(features, labels)
        return features

    predictions = estimator.predict(input_fn, checkpoint_path=variables, hooks=[hook], yield_single_examples=False)
    for outputs in itertools.islice(predictions, eval_spec.steps):
        named = outputs if isinstance(outputs, Mapping) else {"output": outputs}
        yield hook.values.get("labels"), named, hook.values["features"]


def _tensors(data: Any) -> Any:
    """Returns features and labels of an input function's result; the labels are None if it returns none."""
    if hasattr(data, "element_spec"):
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        data = iterator.get_next()
    return data if isinstance(data, tuple) and len(data) == 2 else (data, None)


class _InputHook(tf.estimator.SessionRunHook):  # type: ignore[misc]
    """Fetches the batch that each prediction is computed from.

    Attributes:
      values: {"labels": array, "features": {name: array}} of the last batch. Labels that are not one dense tensor are
        left out.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def watch(self, features: Any, labels: Any) -> None:
        """Sets the tensors to fetch."""
        if isinstance(labels, Mapping) and len(labels) == 1:
            [labels] = labels.values()
        named = features if isinstance(features, Mapping) else {"input": features}
        dense = {str(name): value for name, value in named.items() if isinstance(value, tf.Tensor)}
        self._fetched = {"features": dense, **({"labels": labels} if isinstance(labels, tf.Tensor) else {})}

    def before_run(self, run_context: object) -> tf.estimator.SessionRunArgs:
        del run_context
        return tf.estimator.SessionRunArgs(self._fetched)

    def after_run(self, run_context: object, run_values: tf.estimator.SessionRunValues) -> None:
        del run_context
        self.values = run_values.results
