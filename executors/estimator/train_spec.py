"""Detects an infinite training or evaluation before it starts."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from ..compat.tensorflow_estimator import call_input_fn


def find_endless(
    estimator: tf.estimator.Estimator, train_spec: tf.estimator.TrainSpec, eval_spec: tf.estimator.EvalSpec
) -> str | None:
    """Returns a description of what would never end, with a remedy; None if all ends or if that is not known.

    It is not known for an input that is not a tf.data.Dataset, or one whose size depends on its contents. A TrainSpec
    with hooks is not checked, because hooks can stop a training, as early stopping does.

    Args:
      estimator: The tf.estimator.Estimator.
      train_spec: Its tf.estimator.TrainSpec.
      eval_spec: Its tf.estimator.EvalSpec.
    """
    modes = tf.estimator.ModeKeys
    if (
        train_spec.max_steps is None
        and not train_spec.hooks
        and _is_endless(estimator, train_spec.input_fn, modes.TRAIN)
    ):
        return (
            "the TrainSpec has max_steps=None and its input_fn repeats forever, so training would never end. If "
            "max_steps is fn_args.train_steps, give --train-steps (train_args of the component); else set max_steps, "
            "or give repeat() a number of epochs."
        )
    if eval_spec.steps is None and _is_endless(estimator, eval_spec.input_fn, modes.EVAL):
        return (
            "the EvalSpec has steps=None and its input_fn repeats forever, so evaluation would never end. If "
            "steps is fn_args.eval_steps, give --eval-steps (eval_args of the component); else set steps, or remove "
            "repeat() for evaluation."
        )
    return None


def _is_endless(estimator: tf.estimator.Estimator, input_fn: Callable[..., object], mode: str) -> bool:
    """Builds the input in a separate graph, as the Estimator does, and checks its cardinality; reads no data."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        data = call_input_fn(estimator, input_fn, mode)
        if not isinstance(data, (tf.data.Dataset, tf.compat.v1.data.Dataset)):
            return False
        with tf.compat.v1.Session() as session:
            return bool(session.run(data.cardinality()) == tf.data.INFINITE_CARDINALITY)
