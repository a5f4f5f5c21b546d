"""`tensorflow.python.distribute.estimator_training`, which TensorFlow 2.16 removed: Estimators on several workers.

tensorflow-estimator calls five functions of it. They read TF_CONFIG into a RunConfig, decide whether TensorFlow's
distribute coordinator runs an Estimator, and run it. TensorFlow still contains the coordinator; the rules are those of
TensorFlow 2.15:

* No cluster, a cluster with a `master`, or no `train_distribute`: no coordinator, the RunConfig reads TF_CONFIG.
* Otherwise each task is an independent worker, started with the same cluster but its own task in TF_CONFIG.
* `experimental_distribute.remote_cluster`: this process is a client of a cluster of standard servers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging
from tensorflow.python.distribute import distribute_coordinator, distribute_coordinator_context, multi_worker_util
from tensorflow.python.training import server_lib

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf
    from tensorflow_estimator.python.estimator import training

_STANDALONE_CLIENT = distribute_coordinator.CoordinatorMode.STANDALONE_CLIENT
_INDEPENDENT_WORKER = distribute_coordinator.CoordinatorMode.INDEPENDENT_WORKER
_CHIEF, _WORKER, _PS, _EVALUATOR = "chief", "worker", "ps", "evaluator"


def init_run_config(config: tf.estimator.RunConfig, tf_config: Mapping[str, object]) -> None:
    """Initializes a RunConfig's strategies and cluster; called by RunConfig's constructor.

    Args:
      config: The RunConfig.
      tf_config: Parsed value of TF_CONFIG.

    Raises:
      ValueError: If a strategy or a cluster is set in two places.
    """
    experimental = config._experimental_distribute
    for name in ("train_distribute", "eval_distribute"):
        strategy = getattr(experimental, name, None) if experimental else None
        if not strategy:
            continue
        if getattr(config, f"_{name}"):
            raise ValueError(f"Either `{name}` or `experimental_distribute.{name}` can be set.")
        setattr(config, f"_{name}", strategy)
    cluster = server_lib.ClusterSpec(tf_config.get("cluster", {}))
    config._init_distributed_setting_from_environment_var({})
    if config._train_distribute and experimental and experimental.remote_cluster:
        if cluster:
            raise ValueError(
                'Cannot set both "cluster_spec" of TF_CONFIG and `experimental_distribute.remote_cluster`.'
            )
        config._distribute_coordinator_mode = _STANDALONE_CLIENT
        config._cluster_spec = experimental.remote_cluster
    elif cluster and "master" not in cluster.jobs and config._train_distribute:
        config._distribute_coordinator_mode = _INDEPENDENT_WORKER
        config._cluster_spec = cluster  # the coordinator sets the other attributes for each task
    else:
        config._distribute_coordinator_mode = None
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config: tf.estimator.RunConfig) -> bool:
    """Returns whether the coordinator runs an Estimator with this RunConfig."""
    mode = getattr(config, "_distribute_coordinator_mode", None)
    if mode not in (_STANDALONE_CLIENT, _INDEPENDENT_WORKER):
        return False
    if not config.cluster_spec:
        logging.warning("The RunConfig has a distribute coordinator's mode, but no cluster: running on this machine.")
        return False
    return True


def train_and_evaluate(
    estimator: tf.estimator.Estimator,
    train_spec: tf.estimator.TrainSpec,
    eval_spec: tf.estimator.EvalSpec,
    executor_cls: type[training._TrainingExecutor],
) -> None:
    """Runs `tf.estimator.train_and_evaluate` for this task.

    Args:
      estimator: The Estimator; each task works on a copy.
      train_spec: Its TrainSpec.
      eval_spec: Its EvalSpec.
      executor_cls: Executor class of tensorflow-estimator, which runs the evaluator's loop.

    Raises:
      ValueError: If the RunConfig has no coordinator mode.
    """
    config = estimator.config
    mode = config._distribute_coordinator_mode
    if not mode:
        raise ValueError("The RunConfig has no distribute coordinator's mode.")

    def train(strategy: tf.distribute.Strategy) -> None:
        local, context = _copy_for_task(estimator, "train", strategy)
        # In client mode one process runs all workers; hooks belong only in the chief's graph.
        hooks = train_spec.hooks if mode == _INDEPENDENT_WORKER or context.is_chief else ()
        local._config._distribute_coordinator_mode = None  # otherwise train() would call the coordinator again
        local.train(input_fn=train_spec.input_fn, max_steps=train_spec.max_steps, hooks=list(hooks))

    def evaluate(strategy: tf.distribute.Strategy) -> None:
        local, _ = _copy_for_task(estimator, "eval", strategy)
        local._config._distribute_coordinator_mode = None
        executor_cls(local, train_spec, eval_spec)._start_continuous_evaluation()

    distribute_coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=mode,
        cluster_spec=config.cluster_spec if mode == _STANDALONE_CLIENT else None,  # None: the one in TF_CONFIG
        session_config=config.session_config,
    )


def estimator_train(
    estimator: tf.estimator.Estimator,
    train_distributed_fn: Callable[..., None],
    hooks: Sequence[tf.train.SessionRunHook],
) -> tf.estimator.Estimator:
    """Runs `Estimator.train` on a remote cluster; returns the trained copy."""

    def train(
        local: tf.estimator.Estimator, strategy: tf.distribute.Strategy, own_hooks: Sequence[tf.train.SessionRunHook]
    ) -> tf.estimator.Estimator:
        train_distributed_fn(local, strategy, own_hooks)
        return local

    return _as_client(estimator, "train", train, hooks)


def estimator_evaluate(
    estimator: tf.estimator.Estimator,
    evaluate_distributed_fn: Callable[..., object],
    hooks: Sequence[tf.train.SessionRunHook],
) -> object:
    """Runs `Estimator.evaluate` on a remote cluster; returns the metrics."""
    return _as_client(estimator, "eval", evaluate_distributed_fn, hooks)


def _as_client(
    estimator: tf.estimator.Estimator,
    phase: str,
    function: Callable[..., object],
    hooks: Sequence[tf.train.SessionRunHook],
) -> object:
    config = estimator._config
    method = {"train": "train", "eval": "evaluate"}[phase]
    strategy = getattr(config, f"_{phase}_distribute")
    cluster = multi_worker_util.normalize_cluster_spec(config.cluster_spec)
    if _EVALUATOR in cluster.jobs:
        raise ValueError("A cluster with an 'evaluator' needs `tf.estimator.train_and_evaluate`.")
    if config._distribute_coordinator_mode != _STANDALONE_CLIENT:
        raise ValueError(f"`Estimator.{method}` runs on several workers only with `remote_cluster`.")
    if strategy.extended.experimental_between_graph:
        raise ValueError(f"`Estimator.{method}` does not support {type(strategy).__name__} with `remote_cluster`.")

    def work(worker_strategy: tf.distribute.Strategy) -> object:
        local, context = _copy_for_task(estimator, phase, worker_strategy)
        return function(local, worker_strategy, hooks if context.is_chief else [])

    return distribute_coordinator.run_distribute_coordinator(
        work,
        strategy,
        mode=config._distribute_coordinator_mode,
        cluster_spec=cluster,
        session_config=config.session_config,
    )


def _copy_for_task(
    estimator: tf.estimator.Estimator, phase: str, strategy: tf.distribute.Strategy
) -> tuple[tf.estimator.Estimator, distribute_coordinator._WorkerContext]:
    """Returns a copy of the Estimator configured for the current task, and the task's context."""
    context = distribute_coordinator_context.get_current_worker_context()
    local = copy.deepcopy(estimator)
    setattr(local._config, f"_{phase}_distribute", strategy)
    setattr(local, f"_{phase}_distribution", strategy)
    _place(local._config, context)
    return local, context


def _place(config: tf.estimator.RunConfig, context: distribute_coordinator._WorkerContext) -> None:
    """Sets a RunConfig's cluster attributes for a task, in the same way as RunConfig does from TF_CONFIG."""
    config._service = None
    config._cluster_spec = context.cluster_spec
    config._task_type, config._task_id = context.task_type, context.task_id
    config._evaluation_master = config._master = context.master_target
    config._is_chief = context.is_chief
    if not context.cluster_spec:
        config._global_id_in_cluster, config._num_ps_replicas, config._num_worker_replicas = 0, 0, 1
    elif context.task_type == _EVALUATOR:
        # An evaluator is not part of the cluster.
        config._cluster_spec = server_lib.ClusterSpec({})
        config._global_id_in_cluster, config._num_ps_replicas, config._num_worker_replicas = None, 0, 0
    else:
        jobs = context.cluster_spec.as_dict()
        config._num_ps_replicas = len(jobs.get(_PS, ()))
        config._num_worker_replicas = len(jobs.get(_WORKER, ())) + len(jobs.get(_CHIEF, ()))
        config._global_id_in_cluster = _global_id(jobs, context.task_type, context.task_id)


def _global_id(jobs: Mapping[str, Sequence[str]], task_type: str | None, task_id: int) -> int:
    """Returns the index of a task in its cluster: chief first, then the other jobs by name, parameter servers last."""
    if not task_type:
        return 0
    order = sorted(jobs, key=lambda job: (job != _CHIEF, job == _PS, job))
    return sum(len(jobs[job]) for job in order[: order.index(task_type)]) + task_id
