"""A shortened training: its arguments, the verdicts on its phases, and the estimate for the whole run.

The module writes to temporary folders that the check removes. `watch.py` stops Keras and Estimator loops early; loops
of dialects and custom loops get small step counts in `fn_args`.
"""

from __future__ import annotations

import ast
import copy
import math
import os
import resource
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..dialects import Dialect
from ..dialects.needs import uses_estimators
from ..errors import TrainerError
from ..fn_args import FnArgs
from ..modules.source import ModuleSource, parsed
from ..runtime.logs.exceptions import describe, describe_handled
from ..runtime.quantities import duration_text
from ..training.hints import advice_on
from .loops import STEPS
from .places import definition, place_of
from .remedies import error_line, remedy_for
from .verdicts import FAILED, PASSED, SKIPPED, WARNING, Verdict
from .watch import EVALUATION, EXPORT, MODEL, TRAINING, Watch

if TYPE_CHECKING:
    from ..modules.keras_version import KerasChoice

_CUSTOM_LOOP_STEPS = 10  # for a custom loop, which only fn_args can shorten
_CUSTOM_LOOP_EVAL_STEPS = 2


def shorten_args(fn_args: FnArgs, dialect: Dialect, source: ModuleSource) -> tuple[FnArgs, bool]:
    """Returns a copy of the arguments, and whether its step counts were reduced.

    They are reduced for dialects and custom loops that take their number of steps from the arguments. A module that
    trains with Keras's `fit` or an Estimator gets the requested step counts, as it may compute epochs from them.
    """
    trial_args = copy.copy(fn_args)
    trial_args.custom_config = copy.deepcopy(fn_args.custom_config)
    if dialect.limit_steps(trial_args, STEPS):
        return trial_args, True
    is_shortened = not _has_observed_loop(source)
    if is_shortened:
        trial_args.train_steps = min(fn_args.train_steps or _CUSTOM_LOOP_STEPS, _CUSTOM_LOOP_STEPS)
        trial_args.eval_steps = min(fn_args.eval_steps, _CUSTOM_LOOP_EVAL_STEPS) if fn_args.eval_steps else None
    return trial_args, is_shortened


def failure(
    item: str,
    error: BaseException,
    source: ModuleSource | None,
    fn_args: FnArgs,
    keras: KerasChoice | None = None,
) -> Verdict:
    """Returns the verdict on an item for which an exception was raised.

    Args:
      item: The item of the report.
      error: The exception, with its traceback.
      source: The module's files, to find the user's line; None without a module.
      fn_args: The run's arguments.
      keras: The Keras version of the process, if the module trains in it.
    """
    files = source.files if source else ()
    place = place_of(error, files)
    if place is None and item == "transform" and source:
        place = definition(source.path, "preprocessing_fn")
    advice = advice_on(error, keras)
    if isinstance(error, TrainerError):
        text, code = str(error), error.exit_code
    else:
        text, code = error_line(error), 1
        line = place.source if place else ""
        advice.append(remedy_for(error, files, _names_beside(source), list(fn_args.custom_config or ()), line))
    if isinstance(error, SystemExit):
        text = f"the module exited with SystemExit({error.code!r}){describe_handled(error)}"
    described = describe(error)
    remedy = " ".join(dict.fromkeys(filter(None, advice)))
    return Verdict(item, FAILED, text, place, remedy, code, described["traceback"], described)


def verdicts(watch: Watch, fn_args: FnArgs, seconds: float, error: BaseException | None = None) -> Iterator[Verdict]:
    """Yields a verdict on each phase of a training; after an exception, on those before the phase that raised it.

    Args:
      watch: Measurements of the training.
      fn_args: The run's arguments.
      seconds: Duration of the training.
      error: The exception that ended it, or None.
    """
    failed = failed_phase(watch, error) if error else ""
    results: dict[str, Callable[[], Verdict]] = {
        MODEL: lambda: Verdict(MODEL, PASSED, watch.model or "built"),
        TRAINING: lambda: _training(watch, seconds),
        EVALUATION: lambda: _evaluation(watch, fn_args),
        EXPORT: lambda: _export(watch, fn_args),
    }
    for phase, result in results.items():
        if phase == failed:
            return
        if phase != EVALUATION or watch.evaluations or not error:  # modules evaluate before or after the export
            yield result()


def failed_phase(watch: Watch, error: BaseException) -> str:
    """Returns the phase that raised an exception; a loss that is not finite is one of the training."""
    is_loss = isinstance(error, FloatingPointError) and watch.losses and not math.isfinite(watch.losses[-1])
    return TRAINING if is_loss else watch.phase


def estimate(watch: Watch, requested: int | None, is_shortened: bool, records: int, seconds: float) -> Verdict:
    """Returns the estimate for a whole run.

    Args:
      watch: Measurements of the trial.
      requested: Requested number of steps, or None.
      is_shortened: Whether the trial got a reduced number of steps, so that `watch.planned_steps` is too small.
      records: Estimated number of training examples; 0 if unknown.
      seconds: Duration of the trial.
    """
    peaks = _peak_memory()
    memory = f"{peaks['memory'] / 1e9:.2g} GB of memory"
    if "gpu_memory" in peaks:
        memory += f", {peaks['gpu_memory'] / 1e9:.2g} GB of GPU memory"
    steady, steps = watch.steady_seconds(), _steps(watch, requested, is_shortened, records)
    details: dict[str, object] = {**peaks, "seconds_per_step": steady, "steps": steps}
    if steady is None:
        return Verdict("estimate", SKIPPED, f"{memory}; too few steps to measure the time per step", details=details)
    measured = f"measured over {len(watch.step_seconds)} steps on this machine"
    if not steps:
        text = (
            f"{duration_text(steady)} per step, {memory}; {measured}. No number of steps was requested (--train-steps)."
        )
        return Verdict("estimate", PASSED, text, details=details)
    other_seconds = max(0.0, seconds - watch.first_seconds - sum(watch.step_seconds))
    total = other_seconds + watch.first_seconds + steady * (steps - 1)
    about = "" if requested or watch.planned_steps else "about "
    text = (
        f"training takes about {duration_text(total)} for {about}{steps:,} steps of {duration_text(steady)}, "
        f"{duration_text(max(0.0, total - steady * steps))} of it for startup and export, and {memory}; "
        f"{measured}, without evaluations and cached data"
    )
    return Verdict("estimate", PASSED, text, details={**details, "seconds": total})


def _training(watch: Watch, seconds: float) -> Verdict:
    if not watch.steps:
        return Verdict(
            TRAINING,
            WARNING,
            f"run_fn returned after {seconds:.1f} s without a training step of Keras or an Estimator, or a call of "
            "report_progress",
            remedy="A custom loop reports its steps with report_progress(step). Without a loop, do nothing.",
        )
    loss = f", loss {watch.losses[-1]:.4g}" if watch.losses else ""
    steady = watch.steady_seconds()
    pace = f", later steps: {duration_text(steady)} each" if steady is not None else ""
    return Verdict(
        TRAINING,
        PASSED,
        f"{watch.steps} step{'s' * (watch.steps != 1)}{loss}; first step: {duration_text(watch.first_seconds)}{pace}",
        details={"steps": watch.steps, "losses": watch.losses[:STEPS]},
    )


def _evaluation(watch: Watch, fn_args: FnArgs) -> Verdict:
    if watch.evaluates_forever:
        text = "fit gets infinite validation data (repeated), and validation_steps is not set, or 0"
        remedy = "Set validation_steps, or remove repeat(); otherwise, the first evaluation never ends."
        return Verdict(EVALUATION, WARNING, text, remedy=remedy)
    if watch.evaluations:
        return Verdict(EVALUATION, PASSED, f"{watch.evaluations} step{'s' * (watch.evaluations != 1)}")
    why = "custom evaluation code is not monitored" if fn_args.eval_files else "there are no eval examples"
    return Verdict(EVALUATION, SKIPPED, f"no evaluation was observed: {why}")


def _export(watch: Watch, fn_args: FnArgs) -> Verdict:
    target = os.path.realpath(fn_args.serving_model_dir)
    if os.path.isdir(target) and any(os.scandir(target)):
        place = next((place for folder, place in watch.saves if os.path.realpath(folder).startswith(target)), None)
        return Verdict(EXPORT, PASSED, f"saved{f' by {place}' if place else ''}", place)
    elsewhere = [(folder, place) for folder, place in watch.saves if os.path.realpath(folder) != target]
    if elsewhere:
        folder, place = elsewhere[-1]
        saved_to = _display_folder(folder, fn_args)
        text = f"nothing was saved to fn_args.serving_model_dir; a SavedModel was saved to {saved_to}"
    else:
        places = (definition(file, "run_fn") for file in watch.files)
        text, place = "run_fn wrote no model", next((place for place in places if place), None)
    if watch.logged_error:
        text += f"; it logged an error: {watch.logged_error}"
    return Verdict(EXPORT, FAILED, text, place, "Save the model to fn_args.serving_model_dir.", exit_code=3)


def _display_folder(folder: str, fn_args: FnArgs) -> str:
    """Returns a folder of the check relative to the argument of `fn_args` that contains it."""
    for name in ("model_run_dir", "checkpoint_dir"):
        if folder.startswith(getattr(fn_args, name)):
            return f"fn_args.{name}{folder[len(getattr(fn_args, name)) :]}"
    parent = os.path.dirname(fn_args.serving_model_dir)
    return f"{os.path.relpath(folder, parent)}, next to it" if folder.startswith(parent) else folder


def _names_beside(source: ModuleSource | None) -> list[str]:
    """Returns the names of the modules and folders in the module's folder."""
    entries = os.scandir(source.roots[0]) if source else ()
    return [os.path.splitext(entry.name)[0] for entry in entries if entry.name.endswith(".py") or entry.is_dir()]


def _has_observed_loop(source: ModuleSource) -> bool:
    """Returns whether the source calls a method `fit` or uses Estimators, whose steps `Watch` limits."""
    nodes = (node for file in source.files for node in ast.walk(parsed(file)))
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return uses_estimators(source.files) or any(
        isinstance(function, ast.Attribute) and function.attr == "fit" for function in calls
    )


def _steps(watch: Watch, requested: int | None, is_shortened: bool, records: int) -> int | None:
    """Returns the number of steps of a run: planned by the loop, requested, or computed from epochs and records."""
    planned = None if is_shortened else watch.planned_steps
    if planned or requested:
        return planned or requested
    if watch.epochs and records and watch.batch_size:
        return max(1, math.ceil(records / watch.batch_size)) * watch.epochs
    return None


def _peak_memory() -> dict[str, int]:
    """Returns peak bytes of this process: `memory`, and with GPUs `gpu_memory`, the maximum over all GPUs."""
    import tensorflow as tf

    peaks = {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    for gpu in tf.config.list_physical_devices("GPU"):
        name = gpu.name.rpartition("physical_device:")[2]
        peaks["gpu_memory"] = max(peaks.get("gpu_memory", 0), tf.config.experimental.get_memory_info(name)["peak"])
    return peaks
