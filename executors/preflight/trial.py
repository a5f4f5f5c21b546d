"""A shortened training: its arguments, and the verdicts on its steps, its evaluation and its export.

The module writes to temporary folders that the check removes. `watch.py` stops Keras and Estimator loops early; loops
of dialects and custom loops get small step counts in `fn_args`.
"""

from __future__ import annotations

import ast
import copy
import math
import os
from collections.abc import Iterator, Sequence

from ..dialects import Dialect
from ..dialects.needs import uses_estimators
from ..errors import TrainerError
from ..fn_args import FnArgs
from ..modules.source import ModuleSource, parsed
from ..runtime.logs.exceptions import describe, describe_handled
from ..runtime.quantities import duration_text
from .places import definition, place_of
from .remedies import error_line, remedy_for
from .verdicts import FAILED, PASSED, SKIPPED, WARNING, Place, Verdict
from .watch import EVALUATION, EXPORT, MODEL, PHASES, STEPS, TRAINING, Watch

_CUSTOM_LOOP_STEPS = 10  # for a custom loop, which only fn_args can shorten
_CUSTOM_LOOP_EVAL_STEPS = 2
_NAN = (
    "Check loss and model for a logarithm of zero or a division by zero, check the data for NaN, or lower the learning "
    "rate."
)


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


def failure(item: str, error: BaseException, source: ModuleSource | None, fn_args: FnArgs, hint: str = "") -> Verdict:
    """Returns the verdict on an item for which an exception was raised.

    Args:
      item: The item of the report.
      error: The exception, with its traceback.
      source: The module's files, to find the user's line; None without a module.
      fn_args: The run's arguments.
      hint: Advice added to the remedy.
    """
    files = source.files if source else ()
    place = place_of(error, files)
    if place is None and item == "transform" and source:
        place = definition(source.path, "preprocessing_fn")
    if isinstance(error, TrainerError):
        text, remedy, code = str(error), hint, error.exit_code
    else:
        siblings = [os.path.splitext(os.path.basename(file))[0] for file in _python_files_in_folder(source)]
        line = place.source if place else ""
        text, code = error_line(error), 1
        advice = remedy_for(error, files, siblings, list(fn_args.custom_config or ()), line)
        remedy = " ".join(filter(None, (advice, hint)))
    if isinstance(error, SystemExit):
        text = f"the module exited with SystemExit({error.code!r}){describe_handled(error)}"
    described = describe(error)
    return Verdict(item, FAILED, text, place, remedy, code, described["traceback"], described)


def verdicts(
    watch: Watch,
    fn_args: FnArgs,
    seconds: float,
    error: BaseException | None = None,
    source: ModuleSource | None = None,
) -> Iterator[Verdict]:
    """Yields a verdict on each phase up to the failed one, or on all phases.

    Args:
      watch: Measurements of the training.
      fn_args: The run's arguments.
      seconds: Duration of the training.
      error: The exception that ended it, or None.
      source: The module's files; needed for an exception.
    """
    failed_at = PHASES.index(watch.phase) if error else len(PHASES)
    if isinstance(error, FloatingPointError) and watch.losses and not math.isfinite(watch.losses[-1]):
        failed_at = PHASES.index(TRAINING)
    for number, phase in enumerate(PHASES):
        if error and number == failed_at:
            yield failure(phase, error, source, fn_args, _NAN if isinstance(error, FloatingPointError) else "")
            return
        if phase == MODEL:
            yield Verdict(MODEL, PASSED, watch.model or "built")
        elif phase == TRAINING:
            yield _training(watch, seconds)
        elif phase == EXPORT:
            yield _export(watch, fn_args)
        elif watch.evaluations or not error:  # modules evaluate before or after the export
            yield _evaluation(watch, fn_args)


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


def _python_files_in_folder(source: ModuleSource | None) -> Sequence[str]:
    if source is None:
        return ()
    return [entry.name for entry in os.scandir(source.roots[0]) if entry.name.endswith(".py") or entry.is_dir()]


def _has_observed_loop(source: ModuleSource) -> bool:
    """Returns whether the source calls a method `fit` or uses Estimators, whose steps `Watch` limits."""
    nodes = (node for file in source.files for node in ast.walk(parsed(file)))
    return uses_estimators(source.files) or any(map(_is_fit, nodes))


def _is_fit(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit"


def place_of_save(watch: Watch) -> Place | None:
    """Returns the user's line that wrote the last SavedModel, or None."""
    return next((place for _, place in reversed(watch.saves) if place), None)
