"""Chooses the `tf.distribute` strategy for the machine or cluster that a module runs on.

    with generic_trainer.strategy(fn_args).scope():
        model = build_model()

| where                                   | strategy                                               |
| --------------------------------------- | ------------------------------------------------------ |
| several workers, parameter servers      | `ParameterServerStrategy`, for the chief's coordinator |
| several workers                         | `MultiWorkerMirroredStrategy`                          |
| one machine, several GPUs               | `MirroredStrategy` over all of them                    |
| else                                    | TensorFlow's default strategy, which is a no-op        |
"""

from __future__ import annotations

import time

import tensorflow as tf

from ..distributed.address import Address
from ..distributed.tf_config import EVALUATOR, PS, ClusterTask, task_from_environment
from ..fn_args import FnArgs

_CHIEF_SECONDS = 60.0  # then TensorFlow waits, and reports that the chief is missing
_POLL_SECONDS = 0.02


def strategy(
    fn_args: FnArgs, variable_partitioner: tf.distribute.experimental.partitioners.Partitioner | None = None
) -> tf.distribute.Strategy:
    """Returns the `tf.distribute.Strategy` for this process's cluster task; see the table above.

    TensorFlow requires that the strategy is created before any other operation: call this first in `run_fn`. With
    several workers, each batch of a dataset is a global batch, which is split among the workers; `fn_args.num_workers`
    is their number.

    Args:
      fn_args: The argument of `run_fn`; also that of TFX's own Trainer.
      variable_partitioner: Shards large variables across parameter servers, if there are any; one of
        `tf.distribute.experimental.partitioners`.

    Raises:
      InputError: When TF_CONFIG is malformed.
      RuntimeError: From TensorFlow, when its runtime is already initialized.
    """
    task = task_from_environment()
    if task is not None and PS in task.jobs:
        cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.ParameterServerStrategy(cluster, variable_partitioner)
    if task is not None and FnArgs.of(fn_args).num_workers > 1:
        _await_chief(task)
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _await_chief(task: ClusterTask) -> None:
    """Waits until the chief accepts connections: TensorFlow would retry in intervals of a second and more."""
    if task.is_chief or task.type == EVALUATOR:
        return
    address, end = Address.parse(task.chief_address), time.monotonic() + _CHIEF_SECONDS
    while address and time.monotonic() < end and not address.accepts_connections(_CHIEF_SECONDS):
        time.sleep(_POLL_SECONDS)
