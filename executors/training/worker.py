"""Runs the training module in the worker process: loads it, chooses its dialect, and calls `run_fn`.

An engine calls `execute` in this process or another one; arguments and result are JSON values.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

from absl import logging

from .. import dialects, run_context
from ..checkpoints.damage import damage_recorded
from ..checkpoints.directory import EPOCHS
from ..checkpoints.repaired_managers import managers_repaired
from ..checkpoints.synced import checkpoints_synced
from ..dialects.loading import loaded
from ..dialects.signatures import require_has_run
from ..engines.training_request import TrainingRequest
from ..errors import InputError, TrainerError, TrainingProcessError
from ..estimator.lazy_restoration import EstimatorUse
from ..estimator.measured_interval import measured_interval_applied
from ..estimator.repaired_checkpoints import checkpoints_repaired
from ..evaluation import evidence as evaluation_evidence
from ..evaluation.evaluated_examples import collecting
from ..evaluation.evidence import TrainingEvidence
from ..fn_args import FnArgs
from ..inputs import bad_records
from ..inputs.data_accessor import TF_EXAMPLE, CacheOptions, DataAccessor
from ..inputs.parse_errors import locate_bad_records, tracking_parsers
from ..inputs.tfrecord.framing import describe_damage, frames
from ..keras import completed_fits
from ..keras.early_stopping import goals_applied
from ..keras.fit_progress import fit_progress_reported
from ..keras.repaired_backups import backups_repaired
from ..keras.step_count import EpochLog
from ..modules import import_shims, tensorflow_1
from ..modules.keras_version import KerasChoice, version_in_use
from ..modules.seeds import seed_all
from ..modules.source import imports_in
from ..monitoring import profiling
from ..monitoring.metrics import from_event_files, merge_metrics, sizes_of_event_files
from ..runtime.files import file_io, storage_errors
from ..runtime.logs import exceptions
from ..saved_models.custom_ops import OpPackage, imported_op_packages, op_libraries_noted
from ..saved_models.finished import delete_marker, mark_finished
from ..saved_models.sample_input import collect_sample_input
from . import metrics_of_record
from .module_logs import metrics_in_staging

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..monitoring.metrics import Metrics
    from ..saved_models.sample_input import SampleInput
    from .metrics_of_record import Origins

_WRITE_SAVED_MODELS = {"tensorflow", "keras", "tf_keras"}
_MAX_QUOTED = 1000  # maximum length of a quoted TensorFlow error, in characters


class TrainingResult(TypedDict, total=False):
    """The result of a training as JSON values; empty for a cluster task that was ended because the run was over.

    Attributes:
      dialect: Name of the dialect.
      evidence: Why the dialect was chosen.
      metrics: See `metrics_of_record.py`.
      metrics_from: See `metrics_of_record.py`.
      evaluation_evidence: A `TrainingEvidence` as JSON; empty if no fit was observed.
      op_packages: The imported packages with custom ops, by name.
      example: Sample input for the model check, or None.
      profile: See `RunRecord`.
      phases: Durations in seconds by phase name.
      keras: The `KerasChoice` if the module's use of `tf.estimator` changed it; {} otherwise.
    """

    dialect: str
    evidence: str
    metrics: Metrics
    metrics_from: Origins
    evaluation_evidence: dict[str, object]
    op_packages: dict[str, OpPackage]
    example: SampleInput | None
    profile: Any
    phases: dict[str, float]
    keras: dict[str, Any]


@tracking_parsers()
def execute(state: dict[str, object]) -> TrainingResult:
    """Executes a `TrainingRequest`.

    Raises:
      ModuleError: If no dialect matches the module.
      TrainingProcessError: If the module calls `sys.exit()`.
      Exception: Any exception that the module raises.
    """
    request = TrainingRequest.from_json(state)
    request.keras.check_this_process()
    if request.key:
        delete_marker(file_io.parent(request.fn_args.serving_model_dir))  # of an attempt that is repeated
    clock = time.perf_counter
    start = clock()
    earlier_logs = sizes_of_event_files(request.fn_args.model_run_dir)
    try:
        with (
            op_libraries_noted(),
            loaded(
                request.source,
                request.options.dialect,
                request.keras,
                request.fn_args.checkpoint_dir,
                is_restartable=request.is_restartable,
            ) as module,
        ):
            estimator_use = run_context.part(EstimatorUse)
            installed_dialects = dialects.installed()
            name, evidence = dialects.choose(module, request.function, request.options, installed_dialects)
            run_fn = installed_dialects[name].run_fn(module, request.function, request.options)
            logging.info("Dialect %s: %s.", name, evidence)
            _announce_check(run_fn, request)
            if request.options.deterministic:
                _enable_determinism(request.fn_args)
            if request.fn_args.seed is not None:
                seed_all(request.fn_args.seed)
            if request.options.input_cache is not None:
                cache = CacheOptions(request.options.input_cache, request.options.input_cache_gb)
                request.fn_args.data_accessor = DataAccessor.for_format(request.fn_args.examples_format, cache)
            run_fn_start = clock()
            with (
                profiling.profiled(request.fn_args.model_run_dir, request.options.profile) as profile,
                damage_recorded(request.fn_args.checkpoint_dir, request.fn_args.model_run_dir),
                bad_records.skipping(request.options.bad_records_limit, request.fn_args.model_run_dir),
                collect_sample_input() as example,
                collecting(lambda: _seconds_for_examples(request)) as evaluated,
                metrics_of_record.observed(request.source.files, request.fn_args) as observations,  # imports Estimators
                evaluation_evidence.observed(request.source.files) as fits,
                goals_applied(request.options, request.fn_args),
                fit_progress_reported(request.source.files, _epoch_log(request.fn_args)),
                measured_interval_applied(),
                checkpoints_repaired(),
                managers_repaired(),
                backups_repaired(request.source.files),
                checkpoints_synced(),
                completed_fits.restored(request.fn_args, request.source),  # innermost: the others observe restored fits
            ):
                returned = run_fn(request.fn_args)
            op_packages = imported_op_packages()  # while the user's modules are there
            if not file_io.exists(request.fn_args.serving_model_dir):
                require_has_run(returned, f"{request.source.path}: {request.function or name}")
            done = clock()
    except SystemExit as error:
        # Without this, an exit code of 0 would be taken for a finished training.
        raise TrainingProcessError(
            f"The module {request.source.path} ended with SystemExit({error.code!r})"
            f"{exceptions.describe_handled(error)}. Return from its function instead of calling sys.exit() or exit(); "
            f"no model was published. {request.keras.hint(error)}".rstrip()
        ) from error
    except Exception as error:
        with contextlib.suppress(Exception):  # str() of a user-defined exception may raise; keep the original one
            add_hints(error, request)
        raise
    staged_metrics = metrics_in_staging(request.fn_args.serving_model_dir)
    logged = merge_metrics(staged_metrics, from_event_files(request.fn_args.model_run_dir, earlier_logs))
    seen = fits.evidence()
    if evaluated.examples:
        seen = (seen or TrainingEvidence()).with_examples(evaluated.examples.evidence())
    evaluated.save(request.fn_args.model_run_dir)
    metrics, origins = observations.metrics(returned, logged, installed_dialects[name].eval_remedies)
    result: TrainingResult = {
        "dialect": name,
        "evidence": evidence,
        "metrics": metrics,
        "metrics_from": origins,
        "evaluation_evidence": seen.to_json() if seen else {},
        "op_packages": op_packages,
        "example": example,
        "profile": profile.record,
        "phases": {"load": run_fn_start - start, "run_fn": done - run_fn_start},
        "keras": _changed_keras(request.keras, estimator_use.place if estimator_use else ""),
    }
    if request.key and request.fn_args.is_chief:
        mark_finished(request.fn_args.serving_model_dir, request.key, result)
    return result


def _announce_check(run_fn: Callable[..., object], request: TrainingRequest) -> None:
    """Logs that a model must be a SavedModel if the user's own `run_fn` is in files that import no TensorFlow."""
    code, files = getattr(run_fn, "__code__", None), request.source.files
    imported = {name.partition(".")[0] for file in files for _, name in imports_in(file)}
    is_own = code is not None and code.co_filename in files
    if is_own and "parses" not in request.options.skip_checks and not imported & _WRITE_SAVED_MODELS:
        logging.info(
            "The module imports neither TensorFlow nor Keras. If its model is no SavedModel, such as one of "
            "scikit-learn, use --skip-check parses (skip_checks in Python); else the run will end with exit code 3."
        )


def _seconds_for_examples(request: TrainingRequest) -> float:
    """Returns the time limit for evaluating examples here; 0 if the eval split is in TFRecord files.

    Those are evaluated after the run, in another process and with the published model.
    """
    fn_args = request.fn_args
    files = [path for pattern in fn_args.eval_files or () for path in file_io.glob(pattern)]
    if fn_args.examples_format.payload != TF_EXAMPLE or not files:
        return request.options.analysis_seconds
    with contextlib.suppress(InputError):  # raised for files of other formats
        if next(frames(files[0]), None):
            return 0.0
    return request.options.analysis_seconds


def _epoch_log(fn_args: FnArgs) -> EpochLog:
    folder = fn_args.checkpoint_dir
    return EpochLog(os.path.join(folder, EPOCHS) if folder else "", fn_args.is_chief)


def _changed_keras(chosen: KerasChoice, estimator_used_at: str) -> dict[str, Any]:
    """Returns Keras 2 as a choice if the use of `tf.estimator` made `tf.keras` Keras 2; {} otherwise."""
    if chosen.version == "2" or not estimator_used_at or version_in_use() == "3":
        return {}
    return dataclasses.replace(chosen, version="2", reason=f"{estimator_used_at}: tf.estimator").to_record()


def add_hints(error: Exception, request: TrainingRequest) -> None:
    """Adds notes to the module's exception: the module's path and, if known, the cause and a remedy."""
    if isinstance(error, TrainerError):
        return
    exceptions.add_note(error, f"Raised by the training module {request.source.path}")
    own = request.keras.hint(error), tensorflow_1.hint(error), import_shims.hint(error), exceptions.none_hint(error)
    missing = not any(own) and not request.fn_args.train_files
    lacks_data = missing and exceptions.has_frame_naming("train_files", error)
    no_data = "The run has no training data: --train-files was not given." if lacks_data else ""
    for hint in (*own, no_data, storage_errors.hint(error, request.fn_args.serving_model_dir)):
        if hint:
            exceptions.add_note(error, hint)
    if text := exceptions.tensorflow_message(error):
        exceptions.add_summary(error, f"TensorFlow's message contains bytes that are not text: {text[:_MAX_QUOTED]}")
    with contextlib.suppress(OSError):  # the data files may be gone; the module's exception matters more
        for description in _describe_bad_data(error, request.fn_args):
            exceptions.add_summary(error, description)


def _describe_bad_data(error: Exception, fn_args: FnArgs) -> Iterator[str]:
    """Yields descriptions of the file and record with bad data, which TensorFlow's errors lack."""
    yield from locate_bad_records(error)
    if type(error).__name__ == "DataLossError":
        yield from describe_damage([*(fn_args.train_files or ()), *(fn_args.eval_files or ())])


def _enable_determinism(fn_args: FnArgs) -> None:
    """Enables op determinism, with seed 0 if none is set."""
    import tensorflow as tf

    if fn_args.seed is None:
        fn_args.seed = 0
    tf.config.experimental.enable_op_determinism()
