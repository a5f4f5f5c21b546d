"""A training run, from the module's name to a published, checked model, with or without a pipeline.

`train` has six steps: find the module, choose its Keras version and its process, run it, check the model, publish it,
and write the run record. `GenericExecutor.Do` and `generic-trainer train` both call it. If TF_CONFIG makes this process
a task of a cluster, it runs that task; only the chief checks, publishes and records the model.

Usage:

    record = train("trainers/taxi.py", FnArgs(train_files=["data/*.gz"], serving_model_dir="out/model/Format-Serving",
                                              model_run_dir="out/model_run"))
    record.metrics["eval"]["auc"]
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from absl import logging

from ..checkpoints import directory
from ..checkpoints.damage import forget_damage, read_damage
from ..checkpoints.data_fingerprint import PATTERNS, DataFiles
from ..checkpoints.directory import CheckpointFolder
from ..checkpoints.fingerprint import Identity
from ..dialects.loading import uses_estimators
from ..dialects.registry import installed
from ..dialects.restart import with_restarts
from ..distributed.tf_config import (
    CHIEF,
    EVALUATOR,
    PS,
    VARIABLE,
    ClusterTask,
    task_from_environment,
)
from ..engines import child_process, cluster_records, fork_server, in_process, ray
from ..engines.task_watch import TaskWatch
from ..engines.training_request import TrainingRequest
from ..errors import InputError
from ..evaluation import evaluated_examples
from ..evaluation.error_analysis import delete_error_analysis
from ..evaluation.model_check import planning_arguments
from ..evaluation.plan import EvaluationPlan
from ..evaluation.run_error_analysis import run_error_analysis
from ..fn_args import FnArgs
from ..inputs import bad_records
from ..inputs.message_text import join_names
from ..modules.keras_version import KerasChoice
from ..modules.snapshot import keep_source
from ..modules.source import ModuleSource
from ..monitoring import display, progress
from ..monitoring.live_state import written_state
from ..monitoring.metrics import from_event_files, from_return_value, sizes_of_event_files
from ..monitoring.resources import Usage
from ..monitoring.run_record import SUCCEEDED, RunRecord
from ..options import LOCAL, RAY, TrainingOptions
from ..reporting.writing import kept_folder, report_on_exit
from ..runtime.files import durable, file_io
from ..runtime.files.artifact_layout import root_of_artifact
from ..runtime.files.content_digests import digests_in
from ..runtime.files.temporary_folder import require_temporary_folder
from ..runtime.logs import redaction, setup
from ..runtime.process.preemption import deferred_signals
from ..runtime.process.run_environment import inherited_environment
from ..runtime.process.surroundings import require_tensorflow_can_run, require_working_folder
from ..runtime.process.termination import raise_if_ended
from ..saved_models.check import check_saved_model, log_report
from ..saved_models.finished import FILE_NAME as FINISHED
from ..saved_models.finished import mark_finished
from ..saved_models.links import replace_links
from ..saved_models.locations import OTHER_MODELS, find_saved_model, lift_timestamped_model
from ..saved_models.op_package_imports import note_packages
from ..saved_models.publishing import publish
from ..saved_models.rejected import Unpublished, find_unchecked, keep_abandoned, keep_unpublished, resume_unchecked
from ..saved_models.staging import STAGING, Staging, staging_directory
from ..tracking.mlflow_runs import NONE, tracked
from . import module_logs
from .after_publishing import note_published_model, warned_after_publishing
from .object_store_copies import UploadedOutputs, local_copies, needs_copies, require_single_machine
from .preconditions import require_outputs, require_ready
from .run_lock import hold_run_lock

if TYPE_CHECKING:
    from .worker import TrainingResult

_WORKER = f"{__package__}.worker"
_LISTED_CHANGES = 3  # in a warning; the record lists all
# Stands in for the result of a module that raised.
_NO_RESULT: TrainingResult = {"op_packages": {}, "example": None, "evaluation_evidence": {}}


def train(
    module: str,
    fn_args: FnArgs,
    options: TrainingOptions | None = None,
    *,
    function: str | None = None,
    checkpoint_root: str | None = None,
    raw_eval_files: Sequence[str] = (),
) -> RunRecord:
    """Trains a module and publishes its model.

    Args:
      module: Reference of the module, in any form that `find_source` accepts.
      fn_args: Arguments for the module. `serving_model_dir` and `model_run_dir` must be set; the model appears in
        `serving_model_dir` only after it is complete and has passed its check.
      options: Options of the run; defaults to `TrainingOptions()`.
      function: Name of the function to run; by default the dialect chooses it.
      checkpoint_root: Folder in which retries of a pipeline step, each with its own model run, find the checkpoints
        of the previous attempt (see `checkpoints.directory`). By default checkpoints are in the model run.
      raw_eval_files: Patterns of the evaluation examples before Transform, one of which is the model's sample input.

    Returns:
      The run record, as written to `model_run_dir/run.json`; for a task other than the chief, that task's record.

    Raises:
      InputError: If an input is missing or unreadable, an output is not writable, another run is active in
        `model_run_dir`, or TF_CONFIG is malformed.
      ModuleError: If the module cannot be found or no dialect matches it.
      ModelCheckError: If the model fails its check.
      Exception: Any exception that the module raises.
    """
    return train_when_ready(
        module,
        fn_args,
        options or TrainingOptions(),
        function=function,
        checkpoint_root=checkpoint_root,
        raw_eval_files=raw_eval_files,
    )


def train_when_ready(
    module: str,
    fn_args: FnArgs,
    options: TrainingOptions,
    *,
    on_start: Callable[[], object] = lambda: None,
    function: str | None = None,
    checkpoint_root: str | None = None,
    raw_eval_files: Sequence[str] = (),
) -> RunRecord:
    """Trains like `train`.

    Args:
      module: See `train`.
      fn_args: See `train`.
      options: See `train`.
      on_start: Called when every precondition holds, before the first write; it may move the model run away.
      function: See `train`.
      checkpoint_root: See `train`.
      raw_eval_files: See `train`.
    """
    require_working_folder()
    require_tensorflow_can_run()
    require_temporary_folder()
    task = _task(options)
    run = functools.partial(
        _train,
        module,
        options,
        task,
        on_start=on_start,
        function=function,
        checkpoint_root=checkpoint_root,
        raw_eval_files=raw_eval_files,
    )
    if not needs_copies(fn_args):
        return run(fn_args, shown=fn_args)
    if task or options.engine == RAY:
        require_single_machine(fn_args)
    with local_copies(fn_args) as (local, outputs):
        return run(local, shown=fn_args, outputs=outputs)


def _train(
    module: str,
    options: TrainingOptions,
    task: ClusterTask | None,
    fn_args: FnArgs,
    *,
    shown: FnArgs,
    on_start: Callable[[], object],
    function: str | None,
    checkpoint_root: str | None,
    raw_eval_files: Sequence[str],
    outputs: UploadedOutputs | None = None,
) -> RunRecord:
    """Implements `train_when_ready`; `shown` are the arguments in the record, with the user's paths."""
    record = RunRecord()
    redaction.remember_secrets([fn_args.custom_config, fn_args.hyperparameters])

    def is_published() -> bool:
        return record.status == SUCCEEDED

    with (
        warned_after_publishing(lambda: is_published() and not (outputs and outputs.is_incomplete)),
        setup.notebook_log_filter(fn_args.model_run_dir),
        tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch,
    ):
        with record.phase("inputs"):
            model_run_dir = fn_args.model_run_dir or ""  # `require_outputs` rejects this below
            digests = digests_in(root_of_artifact(model_run_dir) if checkpoint_root else model_run_dir)
            num_workers = task.num_workers if task else 1

            def prepare(keras: KerasChoice) -> None:
                if options.isolate:
                    fork_server.prepare(keras.environment())  # imports TensorFlow in the background

            is_chief = task is None or task.is_chief
            # The other tasks need the digest of the data only for the names of a step's checkpoints.
            known = digests if is_chief or checkpoint_root else None
            ready = require_ready(module, fn_args, options, scratch, known, function, num_workers, on_keras=prepare)
            unpublished_folder = kept_folder(model_run_dir) if checkpoint_root else model_run_dir
            # A model that an earlier run has finished is published without the cluster, which may be gone.
            if options.engine == RAY and find_unchecked(unpublished_folder, ready.identity.result_key) is None:
                ray.require_reachable(options)
        source = ready.source
        with contextlib.ExitStack() as contexts:
            with hold_run_lock(shown.model_run_dir) if is_chief else contextlib.nullcontext():
                require_outputs(shown)
                place = fn_args.serving_model_dir
                contexts.enter_context(note_published_model(lambda: place if is_published() else ""))
                track = options.track if is_chief else NONE
                contexts.enter_context(tracked(record, fn_args.model_run_dir, fn_args.serving_model_dir, track))
                on_start()
            if outputs:
                contexts.enter_context(outputs.uploaded())
            if is_chief:
                file_io.makedirs(fn_args.model_run_dir)  # it may be another one than before
                contexts.enter_context(hold_run_lock(fn_args.model_run_dir))
            if task and task.is_chief:
                cluster_records.delete_finished_tasks(fn_args.model_run_dir)
            watch = TaskWatch(task, fn_args.model_run_dir) if task else None
            contexts.enter_context(warned_after_publishing(is_published))
            if is_chief:
                contexts.enter_context(report_on_exit(record, fn_args.model_run_dir, shown.model_run_dir))
                contexts.enter_context(warned_after_publishing(is_published))
            record.arguments = redaction.masked({**shown.to_json(), "options": dataclasses.asdict(options)})
            record.code = {name: value for name, value in dataclasses.asdict(source).items() if name != "roots"}
            record.data = {name: files.describe() for name, files in ready.inputs.items() if name in PATTERNS}
            record.keras = ready.keras.to_record()
            # Written now, so that a killed run leaves a record.
            contexts.enter_context(record.written_to(fn_args.model_run_dir, cluster_records.record_name(task)))
            contexts.enter_context(watch.watching(record.id) if watch else contextlib.nullcontext())
            contexts.enter_context(warned_after_publishing(is_published))
            if is_chief:
                keep_source(source, fn_args.model_run_dir)
                digests.save()
            with _checkpoints(fn_args, ready.identity, checkpoint_root, source, task) as checkpoints:
                key = ready.identity.result_key
                run = _Run(
                    source,
                    ready.function,
                    options,
                    record,
                    task,
                    watch,
                    checkpoints,
                    unpublished_folder,
                    raw_eval_files,
                    key,
                    ready.inputs,
                )
                if is_chief:
                    run.produce_model(fn_args)
                else:
                    run.run_auxiliary_task(fn_args)
            if folder := record.profile.get("folder"):
                record.profile["folder"] = folder.replace(checkpoints.model_run_dir, fn_args.model_run_dir, 1)
    return record


def _checkpoints(
    fn_args: FnArgs, identity: Identity, root: str | None, source: ModuleSource, task: ClusterTask | None
) -> contextlib.AbstractContextManager[CheckpointFolder]:
    """Returns a context manager for the checkpoint folder; a `checkpoint_dir` set by the caller is not cleaned up."""
    setup, is_chief = fn_args.model_run_dir, task is None or task.is_chief
    if fn_args.checkpoint_dir:
        return directory.caller_checkpoints(fn_args.checkpoint_dir, setup)
    if root is None:
        return directory.model_run_checkpoints(identity, setup, is_chief)
    is_estimator = task is None and _is_estimator(source)  # cluster tasks must all use the same model run folder
    return directory.step_checkpoints(root, identity, setup, is_estimator, is_chief)


def _warn_of_changes(changes: Sequence[str]) -> None:
    if changes:
        logging.warning(
            "Input files changed while the model was trained on them: %s. The model may be of a mixture of both "
            "contents. Train again for the new one.", join_names(changes, _LISTED_CHANGES),
        )  # fmt: skip


def _is_estimator(source: ModuleSource) -> bool:
    return uses_estimators(source.files)


def _task(options: TrainingOptions) -> ClusterTask | None:
    task = task_from_environment(inherited_environment())
    if task is not None:
        if options.engine != LOCAL:
            raise InputError(
                f"engine={options.engine!r}: {VARIABLE} already makes this process {task} of a cluster. Omit "
                "engine: the workers are already running."
            )
        task.require_free_port()
        if task.type == PS and not options.isolate:
            raise InputError(
                f"isolate=False: {task} of {VARIABLE} runs until it is ended, so it needs a subprocess. Omit isolate."
            )
    return task


@dataclasses.dataclass(frozen=True)
class _Run:
    """A run's configuration, which stays constant, and the steps of the run."""

    source: ModuleSource
    function: str | None
    options: TrainingOptions
    record: RunRecord
    task: ClusterTask | None
    watch: TaskWatch | None  # of the other tasks of a cluster
    checkpoints: CheckpointFolder
    unpublished_folder: str  # folder for outputs that are not published
    raw_eval_files: Sequence[str]
    key: str  # `Identity.result_key`
    inputs: Mapping[str, DataFiles]  # as they were at the beginning

    def produce_model(self, fn_args: FnArgs) -> None:
        """Trains, checks and publishes the model: on one machine, or as the chief of a cluster."""
        final = fn_args.serving_model_dir
        delete_error_analysis(fn_args.model_run_dir)
        with staging_directory(
            file_io.parent(final), self._shared_name(), lambda staging: keep_abandoned(staging, self.unpublished_folder)
        ) as staging:
            staged_args = self._with_staged_folders(fn_args, staging.written)
            model = os.path.basename(staged_args.serving_model_dir)
            unpublished = Unpublished(staging, model, self.unpublished_folder, self.record)
            with keep_unpublished(unpublished, lambda: self._collect_and_check(staging, fn_args, _NO_RESULT)):
                # With a shared directory, the cluster's evaluator may still be writing to it.
                logs = contextlib.nullcontext() if self._shared_name() else self._logs_kept(staging, staged_args)
                with logs, self.record.phase("training"):
                    result = self._resumed(staging) or self._trained(fn_args, staged_args)
                if not file_io.exists(staged_args.serving_model_dir) and not self._needs_model(result, fn_args):
                    self.record.status = SUCCEEDED
                    self.checkpoints.delete_finished()
                    return
                self.record.require_folder()
                self.record.save_if_possible()  # signals to the cluster, or to a later run, that training is over
                staging.require_exists()
                if self._is_distributed():
                    with self._logs_kept(staging, staged_args), self.record.phase("evaluator"):
                        self._evaluate(staged_args)
                    mark_finished(staged_args.serving_model_dir, self.key, result)  # the evaluator may have exported it
                outputs, names = self._collect_and_check(staging, fn_args, result)
                with self.record.phase("publish"):
                    self.record.require_folder()
                    durable.sync_tree(outputs)  # here, as it takes long on a slow disk, and signals are deferred below
                    with deferred_signals(repeated=True):
                        raise_if_ended()
                        publish(staging.path, outputs, names, final)
                        self.record.status = SUCCEEDED
                        self.checkpoints.delete_finished()
        with warned_after_publishing():
            self._analyze_errors(fn_args)
            evaluated_examples.delete(fn_args.model_run_dir)

    def _trained(self, fn_args: FnArgs, staged_args: FnArgs) -> TrainingResult:
        bad_records.forget(self.checkpoints.model_run_dir)
        evaluated_examples.delete(fn_args.model_run_dir)
        return self.run_module(staged_args)

    def _resumed(self, staging: Staging) -> TrainingResult | None:
        """Returns the result of an earlier run of the same training whose model was not checked; None without one."""
        resumed = resume_unchecked(staging, self.unpublished_folder, self.key)
        if resumed is None:
            return None
        self.record.resumed_model, finished = resumed
        logging.warning(
            "An earlier run of the same training ended before it checked its model, which was in %s. It is checked and "
            "published now, without training again.", self.record.resumed_model,
        )  # fmt: skip
        with self._bad_records_recorded(self.checkpoints.model_run_dir):
            return self._record_result(cast("TrainingResult", finished.result))

    def _analyze_errors(self, fn_args: FnArgs) -> None:
        """Compares the published model's predictions with the labels of the eval split, for the report."""
        model, seconds = find_saved_model(fn_args.serving_model_dir), self.options.analysis_seconds
        if not seconds or model is None or not self.record.evaluation_plan:
            return
        with self.record.phase("analysis"):
            run_error_analysis(
                EvaluationPlan.from_json(self.record.evaluation_plan),
                model,
                fn_args,
                raw_eval_files=self.raw_eval_files,
                op_packages=self.record.check["op_packages"],
                environment=self._keras().environment(),
                seconds=seconds,
            ).write(fn_args.model_run_dir)

    def _logs_kept(self, staging: Staging, staged_args: FnArgs) -> contextlib.AbstractContextManager[None]:
        """Moves logs that the module writes next to the model to the model run."""
        return module_logs.keep_module_logs(staging, staged_args.model_run_dir)

    def _collect_and_check(self, staging: Staging, fn_args: FnArgs, result: TrainingResult) -> tuple[str, list[str]]:
        """Moves and checks the module's outputs; returns their folder and the names in it before the check."""
        with self.record.phase("check"):
            replace_links(staging.written)
            outputs = staging.take_outputs()
            names = [name for name in file_io.listdir(outputs) if name != FINISHED] if file_io.isdir(outputs) else []
            checked_args = self._with_staged_folders(fn_args, outputs)
            lift_timestamped_model(checked_args.serving_model_dir)
            self._check(checked_args, fn_args.serving_model_dir, result)
        return outputs, names

    def run_auxiliary_task(self, fn_args: FnArgs) -> None:
        """Runs a task that publishes nothing: a worker, a parameter server or an evaluator."""
        shared = self._shared_name()
        parent = file_io.parent(fn_args.serving_model_dir)
        context = contextlib.nullcontext(Staging(os.path.join(parent, shared))) if shared else staging_directory(parent)
        with context as staging:
            with self.record.phase("training"):
                result = self.run_module(self._with_staged_folders(fn_args, staging.written))
            if not result and self.watch:
                self.watch.require_success()

    def _publishes(self) -> bool:
        return self.task is None or self.task.is_chief

    def _is_distributed(self) -> bool:
        return self.task is not None or self.options.engine == RAY

    def _evaluate(self, staged_args: FnArgs) -> None:
        """Waits for the cluster's evaluator, or evaluates and exports an Estimator's model in a separate process.

        The latter is done only if the cluster has no evaluator and the chief exported no model.
        """
        if self.task and self.watch and cluster_records.has_evaluator(self.task, staged_args.model_run_dir):
            self.record.metrics |= cluster_records.await_evaluator(
                staged_args.model_run_dir, self.watch.require_evaluator
            )
        elif self._is_estimator() and find_saved_model(staged_args.serving_model_dir) is None:
            # The evaluator joins no cluster. The record in its model run folder signals that training is over.
            evaluator = ClusterTask(EVALUATOR, 0, self.task.jobs if self.task else {CHIEF: ("localhost:1",)})
            with self.record.shown_in(staged_args.model_run_dir):
                dataclasses.replace(self, task=evaluator, watch=None).run_module(staged_args)

    def _shared_name(self) -> str:
        """Returns the staging directory's name if all tasks of a cluster must share one (Estimators only), else "".

        An Estimator's evaluator exports the model that the chief publishes. In all other cases each task has its own
        directory, so that workers that all save the model do not overwrite each other's files.
        """
        if self.task is None or not self._is_estimator():
            return ""
        return f"{STAGING}-{self.task.cluster_id}"

    def _shares_batches(self) -> bool:
        """Returns whether workers shard one global batch and so need the same record order."""
        if self.task is not None:
            return self.task.num_workers > 1 and PS not in self.task.jobs
        return self.options.worker_range[1] > 1 and not self.options.ps

    def _is_estimator(self) -> bool:
        return uses_estimators(self.source.files)

    def run_module(self, staged_args: FnArgs) -> TrainingResult:
        """Runs the module, again if it turns out to need another Keras version or environment variables."""

        def attempt(keras: KerasChoice) -> TrainingResult:
            self.record.keras = keras.to_record()
            return self._run_module(staged_args, keras)

        return with_restarts(self._keras(), self.options, attempt, self._shares_batches())

    def _keras(self) -> KerasChoice:
        """Returns the settings of the run's processes, which a restart or a use of `tf.estimator` may have changed."""
        return KerasChoice(**self.record.keras)

    def _needs_model(self, result: TrainingResult, fn_args: FnArgs) -> bool:
        return installed()[result["dialect"]].needs_model(fn_args)

    def _run_module(self, staged_args: FnArgs, keras: KerasChoice) -> TrainingResult:
        logging.info("Keras %s: %s.", keras.version, keras.reason)
        key = self.key if self._publishes() else ""
        request = TrainingRequest(self.source, self.function, staged_args, self.options, keras, key).to_json()
        environment = keras.environment() | (self.task.environment() if self.task else {})
        with (
            self._progress_displayed() as progress_variables,
            self._damage_recorded(staged_args.model_run_dir),
            self._changed_data_recorded(),
            self._bad_records_recorded(staged_args.model_run_dir),
            self._metrics_kept(staged_args.model_run_dir, progress_variables.get(progress.VARIABLE)),
        ):
            result = self._execute(request, staged_args, environment | progress_variables)
            return self._record_result(cast("TrainingResult", result))

    @contextlib.contextmanager
    def _metrics_kept(self, model_run_dir: str, reports: str | None) -> Iterator[None]:
        """Records the metrics logged or reported so far if an exception ends the training.

        Args:
          model_run_dir: Folder of the event files.
          reports: File that `report_progress` writes to, or None.
        """
        earlier = sizes_of_event_files(model_run_dir)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):  # must not hide the original exception
                last_report = progress.read(reports) if reports else None
                reported = from_return_value(last_report.details.get("metrics")) if last_report else {}
                self.record.metrics = reported | from_event_files(model_run_dir, earlier)
            raise

    @contextlib.contextmanager
    def _damage_recorded(self, model_run_dir: str) -> Iterator[None]:
        """Records the damaged checkpoints that the training moved aside, even if it failed."""
        try:
            yield
        finally:
            if self._publishes():  # the other tasks of a cluster move nothing
                self.record.damaged_checkpoints = [*self.record.damaged_checkpoints, *read_damage(model_run_dir)]
                forget_damage(model_run_dir)

    @contextlib.contextmanager
    def _changed_data_recorded(self) -> Iterator[None]:
        """Warns about input files that change during the block and records them, also if it raises."""
        try:
            yield
        finally:
            if self._publishes():
                self.record.changed_data = sorted({one for files in self.inputs.values() for one in files.changes()})
                _warn_of_changes(self.record.changed_data)

    @contextlib.contextmanager
    def _bad_records_recorded(self, model_run_dir: str) -> Iterator[None]:
        """Records the skipped records of all known cluster tasks when the block ends, even if it raises."""
        limit = self.options.bad_records_limit
        if limit is None:
            yield
            return
        try:
            yield
        finally:
            found = bad_records.merged_records(model_run_dir, limit)
            self.record.bad_records = found.to_json()
        found.require_within_limit()  # each process only checks the limit for its own records

    @contextlib.contextmanager
    def _progress_displayed(self) -> Iterator[dict[str, str]]:
        """Displays the training's progress, except for cluster tasks other than the chief; yields its variables."""
        is_shown = self.options.engine != RAY or display.current().is_live
        others_watch = progress.VARIABLE in inherited_environment()
        if (self.task and not self.task.is_chief) or not is_shown or others_watch:
            yield {}
            return
        logs_folder, final = self.checkpoints.model_run_dir, os.path.dirname(self.record.path)
        if logs_folder == final:
            logging.info("TensorBoard logs go to %s.", final)
        else:
            logging.info("TensorBoard logs go to %s, and are moved to %s after the training.", logs_folder, final)
        with display.watched_training() as variables:
            yield variables

    def _execute(
        self,
        request: dict[str, object],
        staged_args: FnArgs,
        environment: dict[str, str],
    ) -> Mapping[str, object]:
        if self.options.engine == RAY and not self.task:
            result = ray.run(
                _WORKER,
                request,
                self.options,
                environment=environment,
                model_run=staged_args.model_run_dir,
            )
            self.record.cluster = result["cluster"]
            if "raised" in result:
                raise result["raised"]
            return result
        explained = self.watch.explained() if self.watch else contextlib.nullcontext()
        with explained, self._resources_sampled(environment.get(progress.VARIABLE)) as on_start:
            if self.options.isolate:
                return child_process.run(
                    _WORKER,
                    request,
                    environment=environment,
                    timeout=self.options.timeout,
                    until=self.watch,
                    what=str(self.task) if self.task else "",
                    forked=True,
                    on_start=on_start,
                )
            on_start(os.getpid())
            return in_process.run(_WORKER, request, environment=environment)

    @contextlib.contextmanager
    def _resources_sampled(self, progress_file: str | None) -> Iterator[Callable[[int], object]]:
        """Samples the resource usage of the process whose ID is passed to the yielded function; chief only.

        Meanwhile the state of the training is written for `watch`.
        """
        if self.task is not None and not self.task.is_chief:
            yield lambda pid: None
            return
        usage = Usage()
        try:
            with usage.sampled() as watch, written_state(os.path.dirname(self.record.path), progress_file, usage):
                yield watch
        finally:
            self.record.resources = usage.to_json()

    def _record_result(self, result: TrainingResult) -> TrainingResult:
        if result:
            self.record.dialect = {"name": result["dialect"], "reason": result["evidence"]}
            self.record.metrics, self.record.metrics_from = result["metrics"], result["metrics_from"]
            self.record.evaluation_evidence = result["evaluation_evidence"]
            self.record.profile = result["profile"]
            self.record.keras = result["keras"] or self.record.keras
            self.record.phases.update({f"training/{name}": round(took, 3) for name, took in result["phases"].items()})
        return result

    def _check(self, staged_args: FnArgs, final: str, result: TrainingResult) -> None:
        report = check_saved_model(
            staged_args.serving_model_dir,
            staged_args.eval_files or (),
            raw_eval_files=self.raw_eval_files,
            examples_format=staged_args.examples_format,
            schema_path=staged_args.schema_path,
            transform_graph_path=staged_args.transform_graph_path,
            required_signatures=self.options.required_signatures,
            skip=self.options.skip_checks,
            op_packages=result["op_packages"],
            example=result["example"],
            shown_as=final,
            environment=self._keras().environment(),
            timeout=self.options.timeout,
            **planning_arguments(evidence=result["evaluation_evidence"]),
        )
        others = os.path.join(file_io.parent(staged_args.serving_model_dir), OTHER_MODELS)
        for name in file_io.listdir(others) if file_io.isdir(others) else ():
            folder = os.path.join(others, name)
            checked = check_saved_model(
                folder,
                skip=self.options.skip_checks,
                op_packages=result["op_packages"],
                environment=self._keras().environment(),
                timeout=self.options.timeout,
            )
            note_packages(folder, checked.op_packages)
        note_packages(staged_args.serving_model_dir, report.op_packages)
        self.record.check = dataclasses.asdict(report)
        self.record.evaluation_plan = self.record.check.pop("evaluation_plan")
        log_report(report)

    def _with_staged_folders(self, fn_args: FnArgs, folder: str) -> FnArgs:
        """Returns a copy of the arguments whose model folders are in a folder of the staging directory."""
        staged_args = copy.copy(fn_args)
        staged_args.custom_config = copy.deepcopy(fn_args.custom_config)
        staged_args.seed = self.options.seed if self.options.seed is not None else fn_args.seed
        staged_args.serving_model_dir = os.path.join(folder, os.path.basename(fn_args.serving_model_dir.rstrip("/")))
        if fn_args.eval_model_dir:
            staged_args.eval_model_dir = os.path.join(folder, os.path.basename(fn_args.eval_model_dir.rstrip("/")))
        staged_args.checkpoint_dir, staged_args.model_run_dir = self.checkpoints.path, self.checkpoints.model_run_dir
        if staged_args.seed is None and self._shares_batches():
            staged_args.seed = zlib.crc32(staged_args.checkpoint_dir.encode())  # same for all workers and retries
        if self.task:
            staged_args.is_chief, staged_args.num_workers = self.task.is_chief, self.task.num_workers
            staged_args.worker_index = self.task.worker_index
        return staged_args
