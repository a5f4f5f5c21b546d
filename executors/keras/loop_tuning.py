"""The option `tune_loop`: tries at the start of a training how its steps run fastest, and goes on like that.

| choice | what is tried | results |
| --- | --- | --- |
| off | nothing | |
| exact | how many steps are run in one call (`steps_per_execution`) | the same to the last bit |
| any | that, XLA (`jit_compile`), and for Keras 3 mixed precision (bfloat16) | differ, which log and record say |

It works by `Model.fit`: of Keras 2 and 3, of the module's own or of the ElasticDL dialect. What the module sets itself
is left as it is. An Estimator's session runs one step at a time; for either choice it is tried which threads do so
fastest, with the same results: `estimator/session_calls.py`.

Usage, in the process that trains:

    with tuned("exact") as report:
        run_fn(fn_args)
    report  # {"asked": "exact", "fits": [{"model": "taxi", "steps_per_execution": 16, "times": 1.4, …}]}
"""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from absl import logging

from .. import run_context
from ..compat.keras import compile_config, is_compiled, steps_per_execution
from ..compat.tensorflow import is_default_strategy
from ..modules.keras_version import KERAS_PACKAGES
from .interception import fits_by, listed

OFF, EXACT, ANY = "off", "exact", "any"
CHOICES = (OFF, EXACT, ANY)
_UNDECIDED = "the training ended before the trial did; give it more steps, or leave it out"


@contextlib.contextmanager
def tuned(choice: str) -> Iterator[dict[str, Any]]:
    """Tunes the Keras trainings of a block.

    Args:
      choice: One of CHOICES.

    Yields:
      What came of it, complete at the end of the block; empty if nothing was asked for.
    """
    report: dict[str, Any] = {}
    if choice == OFF:
        yield report
        return
    tuner = _Tuner(choice)
    try:
        with run_context.extended(tuner), fits_by(tuner.fit):
            yield report
    finally:
        report |= tuner.report()


def plan_for(model: Any) -> Any:
    """Returns the trial for a model whose steps a loop of ours groups; None when no tuning was asked for."""
    tuner = run_context.part(_Tuner)
    return tuner.trial(model) if tuner else None


def trial_for_session(name: str) -> Any:
    """Returns the trial for the session that trains an Estimator; None when no tuning was asked for."""
    tuner = run_context.part(_Tuner)
    return tuner.trial_for_session(name) if tuner else None


class _Tuner:
    """Groups the steps of every `fit`, and keeps what was found for each model."""

    def __init__(self, choice: str) -> None:
        self._choice = choice
        self._fits: list[tuple[str, Any]] = []  # a model's name, and its trial or why there is none
        self._grouped: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def report(self) -> dict[str, Any]:
        """Returns what was found, and says what was not."""
        fits = []
        for name, found in self._fits:
            left = found if isinstance(found, str) else _UNDECIDED if found.choice is None else ""
            outcome = {"left": left} if left else found.report()
            if "left" in outcome:
                logging.warning("tune_loop=%s: %s is as it was: %s.", self._choice, name, outcome["left"])
            fits.append({"model": name, **outcome})
        if not fits:
            logging.warning("tune_loop=%s: there was neither a Keras fit nor an Estimator to tune.", self._choice)
        return {"asked": self._choice, "fits": fits}

    def trial(self, model: Any) -> Any:
        """Begins a trial for a model."""
        from .grouped_steps import Way, keras_of
        from .loop_trial import LoopTrial

        others = []
        if self._choice == ANY:
            own = Way.of(model)
            if not _sets_jit_compile(model):
                others.append(Way(not own.jit_compile))
            if keras_of(model).__version__ >= "3":  # the layers of Keras 2 take their precision when they are made
                others.append(Way(own.jit_compile, mixed=True))
        trial = LoopTrial(Way.of(model), others)
        self._fits.append((model.name, trial))
        return trial

    def trial_for_session(self, name: str) -> Any:
        """Begins a trial for an Estimator."""
        from ..estimator.session_calls import ThreadTrial

        trial = ThreadTrial()
        self._fits.append((name, trial))
        return trial

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **options: Any) -> Any:
        """Is called in place of `Model.fit`."""
        from .grouped_steps import GroupedSteps

        if isinstance(getattr(model, "train_function", None), GroupedSteps):
            return original(model, *args, **options)  # a loop of ours has seen to it
        bound = inspect.signature(original).bind(model, *args, **options)
        reason = _why_not(model, bound.arguments)
        if reason:
            self._leave(model, reason)
            return original(model, *args, **options)
        grouped = self._grouped_steps(model)
        steps_per_epoch = bound.arguments.get("steps_per_epoch")
        bound.arguments["callbacks"] = [*listed(bound.arguments.get("callbacks")), grouped.epochs(steps_per_epoch)]
        with grouped.in_fit():
            return original(*bound.args, **bound.kwargs)

    def _grouped_steps(self, model: Any) -> Any:
        """Returns a model's grouped steps: the same for every fit after one `compile`."""
        from .grouped_steps import GroupedSteps

        compiled = compile_config(model)
        known = self._grouped.get(model)
        if known is None or known[0] is not compiled:
            self._grouped[model] = known = (compiled, GroupedSteps(model, self.trial(model)))
        return known[1]

    def _leave(self, model: Any, reason: str) -> None:
        if (model.name, reason) not in self._fits:
            self._fits.append((model.name, reason))


def _why_not(model: Any, arguments: dict[str, Any]) -> str:
    """Returns why the steps of a fit cannot be grouped, or ""."""
    from .batch_watchers import batch_watcher

    size = _steps_per_execution(model)
    if size is None:
        return "it is not compiled"
    if size != 1:
        return f"the module sets steps_per_execution={size}"
    if model.run_eagerly:
        return "it runs eagerly"
    if not is_default_strategy(model.distribute_strategy):
        return f"steps are not grouped under {type(model.distribute_strategy).__name__}"
    owner = next(kind for kind in type(model).__mro__ if "make_train_function" in vars(kind))
    if owner.__module__.partition(".")[0] not in KERAS_PACKAGES:
        return f"its class {owner.__name__} makes its own train function"
    callbacks = arguments.get("callbacks")
    if hasattr(callbacks, "append"):
        watcher = batch_watcher(listed(callbacks))
        return f"the callback {watcher} looks at each batch" if watcher else ""
    return ""


def _steps_per_execution(model: Any) -> int | str | None:
    if getattr(model, "autotune_steps_per_execution", False):
        return "auto"
    size = steps_per_execution(model)
    if size is not None and hasattr(size, "numpy"):
        return int(size.numpy())
    if not is_compiled(model):
        return None
    return int(getattr(model, "steps_per_execution", 1) or 1)


def _sets_jit_compile(model: Any) -> bool:
    config = getattr(compile_config(model), "config", None) or {}
    return config.get("jit_compile") not in (None, "auto")
