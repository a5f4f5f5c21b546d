"""Runs a hyperparameter search in the worker process: calls the module's `tuner_fn`, then searches.

An engine calls `execute` in this process or another one; arguments and result are JSON values. KerasTuner's own tables
are suppressed; each trial is logged as one line:

    Trial 2 of 10 (learning_rate=0.01, units=32): val_accuracy 0.9333, best so far 0.9667
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from absl import logging

from ..dialects.loading import loaded
from ..engines.training_request import TrainingRequest
from ..errors import ModuleError, TrainingProcessError, did_you_mean
from ..fn_args import FnArgs
from ..inputs import bad_records
from ..inputs.bad_data_notes import bad_data_described
from ..keras.fit_progress import fit_progress_reported
from ..keras.interception import KerasCall, KerasObserver
from ..keras.step_count import EpochLog
from ..modules.keras_version import KerasChoice, has_keras_3
from ..modules.seeds import seed_all
from ..monitoring import progress
from ..runtime.files import file_io
from ..runtime.logs.first_error import first_logged_error
from ..runtime.observers import observed_by
from ..training.hints import add_hints
from .trial_values import trial_values
from .tuner_fn import KERAS_TUNER_PREFIX

if TYPE_CHECKING:
    from types import ModuleType

    import keras
    import keras_tuner
    from keras_tuner.engine.trial import Trial

R = TypeVar("R")

TUNER_FN = "tuner_fn"
_COMPLETED = "COMPLETED"  # keras_tuner.engine.trial.TrialStatus


class SearchSpace(TypedDict):
    """KerasTuner's configuration of hyperparameters as JSON values."""

    space: list[dict[str, object]]
    values: dict[str, object]


class _BestTrials(TypedDict):
    best: SearchSpace
    trials: list[dict[str, str | float]]
    objective: str


class SearchResult(_BestTrials):
    """The result of a search as JSON values.

    Attributes:
      best: KerasTuner's configuration of the best hyperparameters.
      trials: [{"trial_id": …, "score": …, and the values}], best first.
      objective: Name of the score.
      bad_records: See `RunRecord`.
    """

    bad_records: dict[str, Any]


def execute(state: dict[str, object]) -> SearchResult:
    """Executes a search.

    Args:
      state: A `TrainingRequest`; the `working_dir` of its fn_args may contain trials of an earlier attempt.

    Raises:
      ModuleError: If there is no `tuner_fn`, or it does not return a tuner.
      TrainingProcessError: If no trial was completed.
      Exception: Any exception that the module raises.
    """
    request = TrainingRequest.from_json(state)
    request.keras.check_this_process()
    import_keras_tuner(request.keras)
    try:
        files = [*(request.fn_args.train_files or ()), *(request.fn_args.eval_files or ())]
        with (
            bad_data_described(files),
            loaded(request.source, keras=request.keras, is_restartable=request.is_restartable) as module,
        ):
            return _search(module, request)
    except Exception as error:
        file_io.rmtree(str(request.fn_args.working_dir))  # a retry would resume after the failed trials
        add_hints(error, request)
        raise


def defaults_of_search(module: ModuleType, name: str | None, fn_args: FnArgs) -> dict[str, Any]:
    """Returns KerasTuner's configuration of the search that a module's `tuner_fn` defines, with default values.

    What only the tuner sets, such as `tuner/epochs`, has the value of a trial.

    Raises:
      ModuleError: See `execute`.
      Exception: Any exception that the module raises.
    """
    tuner, _ = _call_tuner_fn(module, name, fn_args)
    config: dict[str, Any] = tuner.oracle.get_space().get_config()
    config["values"] = {**trial_values(tuner.oracle), **config["values"]}
    return config


def _search(module: ModuleType, request: TrainingRequest) -> SearchResult:
    fn_args = request.fn_args
    policy = getattr(request.options, "on_bad_records", bad_records.ERROR)  # an option of a feature
    if fn_args.seed is not None:
        seed_all(fn_args.seed)
    with (
        bad_records.skipping(bad_records.limit_of(policy)) as bad,
        observed_by(_QuietTrials()),
        fit_progress_reported(request.source.files, EpochLog()),
    ):
        tuner, fit_kwargs = _call_tuner_fn(module, request.function, fn_args)
        _log_trials(tuner, fn_args.seed)
        tuner.search(**fit_kwargs)
    return {**_best_trials(tuner), "bad_records": bad.to_json() if bad else {}}


def _call_tuner_fn(
    module: ModuleType, function: str | None, fn_args: FnArgs
) -> tuple[keras_tuner.Tuner, Mapping[str, object]]:
    name = function or TUNER_FN
    tuner_fn = getattr(module, name, None)
    if not callable(tuner_fn):
        raise ModuleError(
            f"{module.__file__} has no function {name}(fn_args), which the Tuner needs."
            f"{did_you_mean(name, [known for known, value in vars(module).items() if callable(value)])}"
        )
    with first_logged_error() as logged:
        result = tuner_fn(fn_args)
    tuner = getattr(result, "tuner", None)
    if not all(callable(getattr(tuner, method, None)) for method in ("search", "get_best_hyperparameters")):
        cause = f"; it logged an error: {logged.text[:200]}" if logged.text else ""
        raise ModuleError(
            f"{module.__file__}: {name} returned {type(result).__name__} ({str(result)[:200]}){cause}. It must return "
            "TunerFnResult(tuner, fit_kwargs) with a KerasTuner tuner (from generic_trainer import TunerFnResult)."
        )
    return tuner, result.fit_kwargs or {}


def _best_trials(tuner: keras_tuner.Tuner) -> _BestTrials:
    oracle = tuner.oracle
    completed = [one for one in oracle.get_best_trials(len(oracle.trials) or 1) if one.status == _COMPLETED]
    if not completed:
        messages = [message for one in oracle.trials.values() if (message := getattr(one, "message", None))]
        raise TrainingProcessError(f"None of the {len(oracle.trials)} trials completed.{_first_failure(messages)}")
    trials = [
        {"trial_id": one.trial_id, "score": one.score, **one.hyperparameters.values}
        for one in completed
        if one.hyperparameters.values
    ]
    best = tuner.get_best_hyperparameters()[0].get_config()
    return {"best": best, "trials": trials, "objective": _objective(oracle)}


def _first_failure(messages: list[str]) -> str:
    return f" The first one failed with:\n{messages[0].strip()}" if messages else ""


def _log_trials(tuner: keras_tuner.Tuner, seed: int | None) -> None:
    """Makes a tuner log one line per trial and nothing else, and resets the seed at the beginning of each trial.

    Trials then differ only by their hyperparameters, and those after an interruption are the same as without it.
    """

    def on_search_begin(original: Callable[[], R]) -> R:
        tuner.oracle.verbose = 0  # set here because `search` sets it from its `verbose` argument
        return original()

    def on_trial_begin(original: Callable[[Trial], R], trial: Trial) -> R:
        if seed is not None:
            seed_all(seed)
        progress.report_details(doing=_number(tuner.oracle, trial).lower())
        return original(trial)

    def on_trial_end(original: Callable[[Trial], R], trial: Trial) -> R:
        try:
            return original(trial)
        finally:
            _log_trial(tuner.oracle, trial)

    for hook in (on_search_begin, on_trial_begin, on_trial_end):
        original = getattr(tuner, hook.__name__, None)
        if original is not None:
            setattr(tuner, hook.__name__, _bound(hook, original))


def _bound(hook: Callable[..., R], original: Callable[..., R]) -> Callable[..., R]:
    return lambda *arguments: hook(original, *arguments)


def _log_trial(oracle: keras_tuner.Oracle, trial: Trial) -> None:
    known = oracle.get_trial(trial.trial_id)
    which = f"{_number(oracle, trial)} ({hyperparameters_text(known.hyperparameters.values)})"
    if known.status != _COMPLETED or known.score is None:
        reason = (known.message or "its score is not a number").strip().splitlines()[-1]
        logging.warning("%s: failed: %s", which, reason)
        return
    best = oracle.get_best_trials(1)[0].score
    logging.info("%s: %s %.5g, best so far %.5g", which, _objective(oracle), known.score, best)


def hyperparameters_text(values: Mapping[str, object]) -> str:
    """Returns hyperparameters as one line: "learning_rate=0.01, units=32"."""
    own = {name: value for name, value in values.items() if not name.startswith(KERAS_TUNER_PREFIX)}
    texts = (f"{name}={f'{value:.5g}' if isinstance(value, float) else value}" for name, value in own.items())
    return ", ".join(texts) or "defaults"


def _number(oracle: keras_tuner.Oracle, trial: Trial) -> str:
    number = list(oracle.trials).index(trial.trial_id) + 1
    total = oracle.max_trials
    return f"Trial {number} of {total}" if total and math.isfinite(total) else f"Trial {number}"


def _objective(oracle: keras_tuner.Oracle) -> str:
    name = getattr(oracle.objective, "name", "score")
    return "score" if name in ("default_objective", "multi_objective") else str(name)


class _QuietTrials(KerasObserver):
    """Silences the fits of trials, unless the module sets `verbose`."""

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        call.arguments.setdefault("verbose", 0)
        return proceed()


def import_keras_tuner(keras: KerasChoice) -> None:
    """Imports KerasTuner so that it accepts models of the Keras version of `tf.keras`.

    KerasTuner uses the package `keras`, which is Keras 3 if that is installed, and then rejects models of tf-keras.
    `keras` is therefore replaced by tf-keras during the import.
    """
    if "keras_tuner" in sys.modules or not has_keras_3() or keras.version == "3":
        return
    with contextlib.suppress(ImportError), _tf_keras_as_keras():
        import keras_tuner  # noqa: F401


@contextlib.contextmanager
def _tf_keras_as_keras() -> Iterator[None]:
    import tf_keras

    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "keras"}
    sys.modules["keras"] = tf_keras
    try:
        yield
    finally:
        del sys.modules["keras"]
        sys.modules.update(hidden)
