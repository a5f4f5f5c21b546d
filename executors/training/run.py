"""A training run, from the module's name to a published, checked model, with or without a pipeline.

`train` has six steps: find the module, choose its Keras version and its process, run it, check the model, publish it,
and write the run record. `GenericExecutor.Do` and `generic-trainer train` both call it. If TF_CONFIG makes this process
a task of a cluster, it runs that task; only the chief checks, publishes and records the model. Everything else that
belongs to a run is a `RunCallback`.

Usage:

    record = train("trainers/taxi.py", FnArgs(train_files=["data/*.gz"], serving_model_dir="out/model/Format-Serving",
                                              model_run_dir="out/model_run"))
    record.metrics["eval"]["auc"]
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import logging

from ..engines.base import Engine, engine_for
from ..options import TrainingOptions
from ..runtime.logs.redaction import masked, remember_secrets
from ..saved_models.finished import mark_finished
from ..saved_models.rejected import Unpublished, find_unchecked, keep_abandoned, keep_unpublished, resume_unchecked
from ..saved_models.staging import Staging, staging_directory
from .after_publishing import warned_after_publishing
from .attempts import merge_result, run_module, run_module_with
from .callbacks import EVALUATOR, INPUTS, PUBLISH, PUBLISHED, RECORD, RUN, SETUP, TRAINING, Callbacks, RunCallback
from .outputs import collect_and_check, publish_outputs
from .preconditions import find_inputs, require_outputs
from .run_state import Run

if TYPE_CHECKING:
    from ..fn_args import FnArgs
    from ..monitoring.run_record import RunRecord


def train(
    module: str,
    fn_args: FnArgs,
    options: TrainingOptions | None = None,
    *,
    function: str | None = None,
    checkpoint_root: str | None = None,
    raw_eval_files: Sequence[str] = (),
    callbacks: Sequence[RunCallback] = (),
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
      callbacks: Callbacks in addition to the registered ones.

    Returns:
      The run record, as written to `model_run_dir/run.json`; for a task other than the chief, that task's record.

    Raises:
      InputError: If an input is missing or unreadable, an output is not writable, another run is active in
        `model_run_dir`, or TF_CONFIG is malformed.
      ModuleError: If the module cannot be found or no dialect matches it.
      ModelCheckError: If the model fails its check.
      Exception: Any exception that the module raises.
    """
    options = options or TrainingOptions()
    remember_secrets([fn_args.custom_config, fn_args.hyperparameters])
    run = Run(module, options, fn_args, fn_args, function, checkpoint_root, raw_eval_files, engine_for(options))
    around = Callbacks(run.record, callbacks)
    with (
        around(SETUP, run),
        # After publishing, a folder that cannot be deleted must not fail the run.
        tempfile.TemporaryDirectory(prefix="generic-trainer-", ignore_cleanup_errors=True) as modules,
    ):
        with around(INPUTS, run):
            run.ready = find_inputs(
                module, run.fn_args, run.engine, modules, function=function, checkpoint_root=checkpoint_root
            )
            run.keras = run.ready.keras
            # A model that an earlier run has finished is published without the cluster, which may be gone.
            if find_unchecked(run.unpublished_folder, run.ready.identity.result_key) is None:
                run.engine.require_ready()
        require_outputs(run.shown)
        with around(RUN, run), around(RECORD, run):
            _describe(run)
            with (
                warned_after_publishing(lambda: run.is_published),
                run.record.written_to(run.fn_args.model_run_dir, run.place.record_name),
                warned_after_publishing(lambda: run.is_published),  # so that the record stays that of a success
                run.engine.serving(run),
                run.checkpoints() as run.folders,
            ):
                _produce_model(run, around) if run.place.is_chief else _run_auxiliary_task(run, around)
    return run.record


def record_failure(error: Exception, module: str, fn_args: FnArgs, checkpoint_root: str) -> None:
    """Writes the record of a run that failed before `train` wrote one; the error's traceback stays as it is.

    Args:
      error: The exception.
      module: The module's reference, or "".
      fn_args: Arguments with the model run folder.
      checkpoint_root: See `train`.
    """
    traceback, options = error.__traceback__, TrainingOptions()
    run = Run(module, options, fn_args, fn_args, None, checkpoint_root, (), Engine(options))
    run.record.code = {"reference": module}
    with contextlib.suppress(Exception), Callbacks(run.record)(RECORD, run):
        with run.record.written_to(fn_args.model_run_dir):
            raise error
    error.__traceback__ = traceback


def _describe(run: Run) -> None:
    """Records what is known before the training."""
    options, source = dataclasses.asdict(run.options), dataclasses.asdict(run.ready.source)
    run.record.arguments = masked({**run.shown.to_json(), "options": options})
    run.record.code = {name: value for name, value in source.items() if name != "roots"}
    run.record.keras = run.keras.to_record()


def _produce_model(run: Run, around: Callbacks) -> None:
    """Trains, checks and publishes the model: on one machine, or as the chief of a cluster."""
    with staging_directory(
        run.models_folder, run.shared_staging, lambda staging: keep_abandoned(staging, run.unpublished_folder)
    ) as run.staging:
        run.staged_args = run.args_in(run.staging.written)
        model = os.path.basename(run.staged_args.serving_model_dir)
        unpublished = Unpublished(run.staging, model, run.unpublished_folder, run.record)
        with keep_unpublished(unpublished, lambda: collect_and_check(run, around)):
            _train(run, around)
            if run.may_end_without_model():
                run.succeed()
                return
            run.record.require_folder()
            run.record.save_if_possible()  # signals to the cluster, or to a later run, that training is over
            run.staging.require_exists()
            if run.place.in_cluster:
                with around(EVALUATOR, run):
                    run.engine.finish(run, lambda engine: run_module_with(engine, run, around))
                # The evaluator may have exported the model.
                mark_finished(run.staged_args.serving_model_dir, run.ready.identity.result_key, run.result.to_json())
            outputs, names = collect_and_check(run, around)
            with around(PUBLISH, run):
                publish_outputs(run, outputs, names)
    with around(PUBLISHED, run):
        pass


def _train(run: Run, around: Callbacks) -> None:
    """Runs the module, or takes over the model of an earlier run of the same training that was not checked."""
    unchecked = resume_unchecked(run.staging, run.unpublished_folder, run.ready.identity.result_key)
    if unchecked:
        run.record.resumed_model = unchecked[0]
        logging.warning(
            "An earlier run of the same training ended before it checked its model, which was in %s. It is checked and "
            "published now, without training again.", unchecked[0],
        )  # fmt: skip
    with around(TRAINING, run):
        if unchecked:
            merge_result(unchecked[1].result, run, around)
        else:
            run_module(run, around)


def _run_auxiliary_task(run: Run, around: Callbacks) -> None:
    """Runs a task that publishes nothing: a worker, a parameter server or an evaluator."""
    shared = run.shared_staging
    joined = contextlib.nullcontext(Staging(os.path.join(run.models_folder, shared)))
    with joined if shared else staging_directory(run.models_folder) as run.staging:
        run.staged_args = run.args_in(run.staging.written)
        with around(TRAINING, run):
            run_module(run, around)
