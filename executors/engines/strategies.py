"""The distribution strategy that fits where a module runs, so that it need not know.

    with generic_trainer.strategy(fn_args).scope():
        model = build_model()

| where                                   | strategy                                              |
| --------------------------------------- | ----------------------------------------------------- |
| several workers, parameter servers      | `ParameterServerStrategy`, for the chief's coordinator |
| several workers                         | `MultiWorkerMirroredStrategy`                         |
| one machine, several GPUs               | `MirroredStrategy` over all of them                   |
| else                                    | TensorFlow's default one, which changes nothing       |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ..distributed.tf_config import PS, task_from_environment

if TYPE_CHECKING:
    from ..fn_args import FnArgs


def strategy(
    fn_args: FnArgs, variable_partitioner: tf.distribute.experimental.partitioners.Partitioner | None = None
) -> tf.distribute.Strategy:
    """Returns the `tf.distribute.Strategy` for this process's place in the cluster; see the table above.

    TensorFlow wants it to be made before anything else is done with TensorFlow: call it first in `run_fn`. With several
    workers a batch that a data set of theirs gives is split among all of them: `fn_args.num_workers` says how many
    there are.

    Args:
      fn_args: What `run_fn` was given.
      variable_partitioner: How parameter servers, where there are any, divide large variables among themselves; one of
        `tf.distribute.experimental.partitioners`.

    Raises:
      InputError: When TF_CONFIG is malformed.
      RuntimeError: From TensorFlow, when it has begun to work already.
    """
    task = task_from_environment()
    if task is not None and PS in task.jobs:
        cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.ParameterServerStrategy(cluster, variable_partitioner)
    if task is not None and fn_args.num_workers > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()
