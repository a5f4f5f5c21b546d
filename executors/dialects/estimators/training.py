"""Trains, evaluates and exports an Estimator, on a single machine or as a task of a cluster.

Shared by the Estimator dialects. It calls `tf.estimator.train_and_evaluate` and reproduces the steps of TFX's Estimator
executor (last in TFX 1.15.1): the Estimator's `model_dir` is the model run directory, and its exports are copied from
there to the serving and evaluation model directories. It differs from TFX in three points:

* if the directory contains several exports, the newest one is used (TFX raised an error);
* the evaluator task stops as soon as training has ended, for whatever reason, and then runs the final export;
* it supports MultiWorkerMirroredStrategy, which TensorFlow cannot construct in an evaluator process.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import logging

from ...compat.tensorflow_estimator import configure, read_eval_metrics
from ...distributed import tf_config
from ...errors import ModuleError
from ...estimator import tfma_export
from ...estimator.run_goals import stop_goal
from ...evaluation import evaluated_examples
from ...fn_args import FnArgs
from ...monitoring import progress, run_record
from ...runtime.files import file_io
from ...runtime.files.artifact_layout import EVAL_DIR
from ...runtime.process.preemption import Preempted, deferred_sigterm, is_preempted
from ...saved_models.locations import find_saved_model
from .end_of_training import EndOfTraining

if TYPE_CHECKING:
    import tensorflow as tf

_POLL_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class EstimatorJob:
    """An Estimator with its training and evaluation specs.

    Attributes:
      estimator: The tf.estimator.Estimator.
      train_spec: The tf.estimator.TrainSpec.
      eval_spec: The tf.estimator.EvalSpec.
      eval_input_receiver_fn: Receiver function for TFMA's EvalSavedModel, or None to export none.
      replaces_workers: Whether a worker of a cluster with parameter servers can be started again while the others
        continue. It then reads its data from the beginning.
    """

    estimator: tf.estimator.Estimator
    train_spec: tf.estimator.TrainSpec
    eval_spec: tf.estimator.EvalSpec
    eval_input_receiver_fn: Callable[[], tfma_export.EvalInputReceiver] | None = None
    replaces_workers: bool = True


def in_model_run_dir(fn_args: FnArgs) -> FnArgs:
    """Returns a copy of the arguments whose model directories are inside `model_run_dir`, where the Estimator works."""
    copied = copy.copy(fn_args)
    copied.serving_model_dir = os.path.join(fn_args.model_run_dir, os.path.basename(fn_args.serving_model_dir))
    copied.eval_model_dir = os.path.join(fn_args.model_run_dir, os.path.basename(fn_args.eval_model_dir or EVAL_DIR))
    return copied


def train_and_export(make_job: Callable[[], EstimatorJob], fn_args: FnArgs, where: str) -> dict[str, float]:
    """Runs this process's task of training an Estimator and exporting it to `fn_args.serving_model_dir`.

    A single process, or the master of a cluster, trains, evaluates and exports. An evaluator task evaluates and
    exports. All other tasks only train.

    Args:
      make_job: Builds the Estimator and its specs; in an evaluator task it is called with TF_CONFIG unset.
      fn_args: The run's arguments.
      where: The module and function, for error messages.

    Returns:
      The exported model's metrics, with the prefix `eval_`; {} in a task that does not evaluate.

    Raises:
      ModuleError: When the EvalSpec has no exporter, when training or evaluation would never end, or when nothing was
        exported.
      Preempted: When the process was asked to stop and has saved a checkpoint.
    """
    from .rehearsal import rehearse_exports  # imports TensorFlow

    task = tf_config.task_from_environment()
    is_chief = task is None or task.is_chief
    if task is None or task.type == tf_config.MASTER:
        job = _made(make_job, where, is_chief)
        trained = EndOfTraining(job, fn_args)
        if (exported := trained.exported()) is not None:
            _publish(job, fn_args, where)
            _collect_evaluated(job, _require_export(job, where))
            return exported
        if trained.is_over():
            metrics = {}
        else:
            rehearse_exports(job.estimator, job.eval_spec.exporters, where)
            metrics = _train(job, trained)
        if not metrics or find_saved_model(job.estimator.model_dir) is None:
            # Without max_steps, or with max_steps reached before, TensorFlow runs no final evaluation and export.
            metrics = _Evaluator(job).evaluate(last=True)
    elif task.type == tf_config.EVALUATOR:
        del os.environ[tf_config.VARIABLE]  # an evaluator must not try to join the training cluster
        job = _made(make_job, where, is_chief)
        metrics = _evaluate_until_trained(job, fn_args)
    else:
        job = _made(make_job, where, is_chief)
        if task.is_chief:
            if tf_config.PS in task.jobs and not job.estimator.config.train_distribute:
                progress.report_details(replaces_workers=job.replaces_workers)
            rehearse_exports(job.estimator, job.eval_spec.exporters, where)
        elif job.estimator.latest_checkpoint() and job.estimator.config.experimental_max_worker_delay_secs is None:
            # By default, worker N waits N times 5 s, so that untrained weights get few updates at first.
            configure(job.estimator, experimental_max_worker_delay_secs=0)
        _train(job, EndOfTraining(job, fn_args))
        return {}  # the evaluator exports
    export = _require_export(job, where)
    found = _metrics_of(export, job, metrics)
    metrics = {f"eval_{name}": float(value) for name, value in found.items() if name != "global_step"}
    if task is None:
        trained.record_export(metrics)
    _publish(job, fn_args, where)
    _collect_evaluated(job, export)
    return metrics


def _made(make_job: Callable[[], EstimatorJob], where: str, is_chief: bool) -> EstimatorJob:
    """Builds the job; before anything is restored, the chief moves damaged checkpoints aside.

    Checks before training that the job has an exporter and will end.

    Raises:
      ModuleError: When the EvalSpec has no exporter, or `find_endless` reports that the job would never end.
    """
    from ...checkpoints.fallback import newest_complete  # imports TensorFlow

    job = make_job()
    newest_complete(job.estimator.model_dir, is_chief)
    if not job.eval_spec.exporters:
        raise ModuleError(
            f"{where}: the EvalSpec has no exporter, so no model would be exported. Add one, such as "
            "exporters=tf.estimator.FinalExporter('taxi', serving_input_receiver_fn)."
        )
    from ...estimator.train_spec import find_endless

    if endless := find_endless(job.estimator, job.train_spec, job.eval_spec):
        raise ModuleError(f"{where}: {endless}")
    return job


def _train(job: EstimatorJob, trained: EndOfTraining) -> dict[str, float]:
    import tensorflow as tf

    from ...estimator.background_saving import is_single_process, save_in_background
    from ...estimator.hooks import early_stopping_hook, watch_loss
    from ...estimator.session_calls import SessionCallsHook
    from ...estimator.training_hooks import (
        EvaluationHook,
        PreemptedEvaluationHook,
        PreemptionHook,
        ProgressHook,
        report_training_end,
    )

    logging.info("Training the Estimator in %s.", job.estimator.model_dir)
    train_spec = watch_loss(job.train_spec)
    alone = is_single_process(job.estimator.config)
    observers: tuple[tf.estimator.SessionRunHook, ...] = (
        (ProgressHook(train_spec.max_steps, alone),) if progress.is_watched() else ()
    )
    if goal := stop_goal():
        observers = (*observers, early_stopping_hook(job.estimator, job.eval_spec, goal))
    train_spec = train_spec._replace(hooks=(*train_spec.hooks, SessionCallsHook(), *observers, PreemptionHook()))
    eval_spec = job.eval_spec._replace(hooks=(*job.eval_spec.hooks, PreemptedEvaluationHook(), EvaluationHook()))
    save_in_background(job.estimator, train_spec.hooks)
    if alone:
        report_training_end(job.estimator, trained.record)
    metrics = None
    with deferred_sigterm() if _saves_on_sigterm(job.estimator.config) else contextlib.nullcontext():
        with contextlib.suppress(Preempted):  # from an evaluation, whose checkpoint is saved already
            metrics, _ = tf.estimator.train_and_evaluate(job.estimator, train_spec, eval_spec) or (None, None)
        if is_preempted():
            raise Preempted(job.estimator.latest_checkpoint() or "")
    return metrics or {}


def _saves_on_sigterm(config: tf.estimator.RunConfig) -> bool:
    """Returns whether this process saves a checkpoint on SIGTERM.

    Tasks other than the chief save none, and the cluster resumes from the last checkpoint. The same holds for workers
    that train by all-reduce, where the other workers would wait for the one that saves.
    """
    task = tf_config.task_from_environment()
    return task is None or (task.is_chief and (task.num_workers == 1 or not config.train_distribute))


class _Evaluator:
    """Evaluates checkpoints and calls the EvalSpec's exporters, as TensorFlow's evaluator does."""

    def __init__(self, job: EstimatorJob) -> None:
        self._job = job
        self._checkpoint: str | None = None
        self._metrics: dict[str, float] = {}
        self._pending_exporters = self._exporters()

    def evaluate(self, last: bool) -> dict[str, float]:
        """Evaluates the latest checkpoint, unless already evaluated, and calls the exporters; returns the metrics.

        Args:
          last: Whether this is the final evaluation, passed to exporters as `is_the_final_export`.
        """
        estimator, eval_spec = self._job.estimator, self._job.eval_spec
        checkpoint = estimator.latest_checkpoint()
        if checkpoint != self._checkpoint:
            self._checkpoint, self._pending_exporters = checkpoint, self._exporters()
            self._metrics = estimator.evaluate(
                eval_spec.input_fn,
                steps=eval_spec.steps,
                hooks=eval_spec.hooks,
                checkpoint_path=checkpoint,
                name=eval_spec.name,
            )
        # Exporters that have exported this checkpoint are not called again for it.
        self._pending_exporters = [exporter for exporter in self._pending_exporters if not self._export(exporter, last)]
        return self._metrics

    def _exporters(self) -> list[tf.estimator.Exporter]:
        return list(self._job.eval_spec.exporters or ())

    def _export(self, exporter: tf.estimator.Exporter, last: bool) -> object:
        return exporter.export(
            estimator=self._job.estimator,
            export_path=os.path.join(self._job.estimator.model_dir, "export", exporter.name),
            checkpoint_path=self._checkpoint,
            eval_result=self._metrics,
            is_the_final_export=last,
        )


def _evaluate_until_trained(job: EstimatorJob, fn_args: FnArgs) -> dict[str, float]:
    evaluator = _Evaluator(job)
    due = time.monotonic() + job.eval_spec.start_delay_secs
    while not _is_trained(fn_args.model_run_dir):
        if time.monotonic() >= due and job.estimator.latest_checkpoint():
            evaluator.evaluate(last=False)
            due = time.monotonic() + job.eval_spec.throttle_secs
        time.sleep(_POLL_SECONDS)
    return evaluator.evaluate(last=True)


def _is_trained(model_run_dir: str) -> bool:
    """Whether the chief has finished training without an error, so that the last checkpoint is written."""
    chief = run_record.read(model_run_dir)
    return "training" in chief.phases and chief.status not in run_record.UNSUCCESSFUL


def _metrics_of(export: str, job: EstimatorJob, last: dict[str, float]) -> dict[str, float]:
    """Returns the metrics of an export.

    These are the last metrics or, if the export is of an earlier step, as with a BestExporter, those in that step's
    evaluation summary.
    """
    import tensorflow as tf

    step_name = tf.compat.v1.GraphKeys.GLOBAL_STEP
    variables = tf.train.load_checkpoint(_checkpoint_in(export))
    step = int(variables.get_tensor(step_name)) if variables.has_tensor(step_name) else last.get(step_name)
    if step == last.get(step_name):
        return last
    return read_eval_metrics(job.estimator.eval_dir(job.eval_spec.name)).get(step, last)


def _require_export(job: EstimatorJob, where: str) -> str:
    """Returns the directory of the newest export, or raises a ModuleError if there is none."""
    export = find_saved_model(job.estimator.model_dir)
    if export is None:
        raise ModuleError(
            f"{where}: the exporters of the EvalSpec wrote no SavedModel below {job.estimator.model_dir}/export. A "
            "BestExporter exports only if its compare_fn returns True; add a FinalExporter."
        )
    return export


def _publish(job: EstimatorJob, fn_args: FnArgs, where: str) -> None:
    """Copies the exported models to `fn_args.serving_model_dir` and `fn_args.eval_model_dir`."""
    export = _require_export(job, where)
    file_io.copytree(export, fn_args.serving_model_dir)
    eval_models = in_model_run_dir(fn_args).eval_model_dir
    if job.eval_input_receiver_fn is not None:
        tfma_export.export_eval_savedmodel(
            estimator=job.estimator,
            export_dir_base=eval_models,
            eval_input_receiver_fn=job.eval_input_receiver_fn,
            checkpoint_path=_checkpoint_in(export),
        )
    if fn_args.eval_model_dir and (exports := file_io.numbered_in(eval_models)):
        file_io.copytree(exports[0], fn_args.eval_model_dir)


def _collect_evaluated(job: EstimatorJob, export: str) -> None:
    from .evaluation_sample import evaluated_batches  # imports TensorFlow

    evaluated_examples.collect(lambda: evaluated_batches(job.estimator, job.eval_spec, _checkpoint_in(export)))


def _checkpoint_in(export: str) -> str:
    """Returns the path of an export's weights, which with a BestExporter are not those of the latest checkpoint."""
    return os.path.join(export, "variables", "variables")
