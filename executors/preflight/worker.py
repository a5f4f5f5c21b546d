"""Worker process of a check: trains the module with `training.worker`, for a few steps; started by `attempt.py`.

Verdicts and progress are written immediately, one JSON object a line, so they survive a crash of the module.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import time
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict, cast

from .. import plugins
from ..dialects.loading import loaded
from ..engines.training_request import TrainingRequest
from ..errors import LateVariableError
from ..evaluation.evidence import observed
from ..evaluation.overrides import overrides_of
from ..runtime.logs.first_error import first_logged_error
from ..training.worker import train_module
from ..training.worker_callbacks import GROUP, Context, WorkerCallback
from ..tuning.search import TUNER_FN, defaults_of_search, hyperparameters_text, import_keras_tuner
from . import input_watch, trial
from .events import EventWriter
from .examples import Examples
from .module_checks import require_step_functions, signatures_verdict
from .remedies import error_line, shorten_message
from .request import PartRequest
from .verdicts import FAILED, PASSED, Verdict
from .watch import Watch

if TYPE_CHECKING:
    from ..evaluation.planning import PlanningFacts
    from ..fn_args import FnArgs

_LABEL_BATCHES = 4  # read for the labels' values
_FOR_MODEL_CHECK = ("op_packages", "sample_input")


class Found(TypedDict, total=False):
    """Result of a trial and input of the SavedModel check, as JSON values; empty if no training succeeded.

    Attributes:
      estimate: The `Verdict` on time and memory.
      trained: Results of the callbacks of a training for the SavedModel check, by name.
      fn_args: The `FnArgs` of the whole training, on the sampled examples.
      raw_eval_files: Patterns of the raw evaluation examples; [] without raw data.
      saved_at: The `Place` in the user's files that saved the model, or None.
      evaluation: Facts from which the evaluation plan is made.
    """

    estimate: dict[str, object]
    trained: dict[str, Any]
    fn_args: dict[str, Any]
    raw_eval_files: list[str]
    saved_at: dict[str, Any] | None
    evaluation: PlanningFacts


def execute(state: dict[str, object]) -> Found:
    """Entry point of the worker process: tries the training of a `PartRequest`, and checks the examples in any case."""
    request = PartRequest.from_json(state)
    events = EventWriter(request.folder)
    examples, check = Examples(request, events), request.check
    if check.modules and request.keras:
        training = TrainingRequest(check.modules.trainer, check.function, check.fn_args, check.options, request.keras)
        short = ShortTraining(training, request, examples, events)
        try:
            parts = dict(train_module(training, {**_kept_callbacks(training), "check": short}).parts)
            return cast("Found", {**parts.pop("check"), "trained": parts})
        except _NotTriedError:
            return {}
        except (Exception, SystemExit) as error:
            if isinstance(error, LateVariableError) and events.stage == "load":
                raise
            short.add_failure(error)
    if not examples.are_examined:
        examples.examine()
    return {}


def _kept_callbacks(training: TrainingRequest) -> dict[str, WorkerCallback]:
    """Returns the callbacks of a training whose results the check of the model takes."""
    installed = [entry.name for entry in plugins.entries(GROUP) if entry.name in _FOR_MODEL_CHECK]
    return {name: cast("type[WorkerCallback]", plugins.load_one(GROUP, name))(training) for name in installed}


class _NotTriedError(Exception):
    """Ends the examination after a failure that is in a verdict already."""


class ShortTraining(WorkerCallback):
    """Checks the module and its examples, and shortens the training."""

    def __init__(
        self, training: TrainingRequest, request: PartRequest, examples: Examples, events: EventWriter
    ) -> None:
        super().__init__(training)
        self._check = request.check
        self._folder = request.folder
        self._has_failed = bool(request.failed)
        self._examples = examples
        self._events = events
        self._watch = Watch(training.source.files, lambda progress: events.write("progress", progress))
        modules = request.check.modules
        self._hints = list(modules.hints) if modules and request.check.data else []

    def loading(self) -> Context:
        """Notes the time."""
        self._events.enter("load")
        self._begin = time.perf_counter()
        if self._check.tunes:
            import_keras_tuner(self.request.keras)
        return contextlib.nullcontext()

    def imported(self, module: ModuleType) -> None:
        """Adds the verdict on the import."""
        self._module = module
        self._events.verdict(Verdict("load", PASSED, f"imported in {time.perf_counter() - self._begin:.1f} s"))
        self._events.enter("dialect")

    def chosen(self, name: str, evidence: str) -> None:
        """Adds the verdict on the dialect."""
        self._events.verdict(Verdict("dialect", PASSED, f"{name}: {evidence}", details={"dialect": name}))
        self._events.enter("signatures")

    def arguments(self, fn_args: FnArgs) -> FnArgs:
        """Checks the functions and the examples; returns the arguments of a training of a few steps.

        Raises:
          _NotTriedError: If something has failed, so that no training is tried.
        """
        self._events.verdict(signatures_verdict(self.dialect, self._module, self._check))
        self._examples.examine()
        if self._check.tunes and not self._events.has_failed:
            self._use_search_defaults()
        if self._events.has_failed or self._has_failed:
            raise _NotTriedError
        short_args, self._is_shortened = trial.shorten_args(fn_args, self.dialect, self.request.source)
        return short_args

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Observes the training, and stops its loops early."""
        self._events.enter("trial")
        self._begin = time.perf_counter()
        with (
            input_watch.watching(lambda reads: self._events.write("reads", reads)),
            self._watch.watching(),
            observed(self.request.source.files, _LABEL_BATCHES) as self._fits,
            first_logged_error(error_line) as logged,
        ):
            yield
        self._seconds = time.perf_counter() - self._begin
        self._watch.logged_error = shorten_message(logged.text)

    def result(self, returned: object) -> Found:
        """Adds the verdicts on the training; returns the input of the SavedModel check."""
        fn_args, watch = self._check.fn_args, self._watch
        for verdict in trial.verdicts(watch, fn_args, self._seconds):
            self._add(verdict)
        steps = self.dialect.steps_requested(self._module, self._check.function, fn_args)
        estimated = trial.estimate(watch, steps, self._is_shortened, self._examples.records, self._seconds)
        place = next((place for _, place in reversed(watch.saves) if place), None)
        evidence = self._fits.evidence()
        overrides = overrides_of({"label": self._check.label, **self._check.evaluation})
        return {
            "estimate": estimated.to_json(),
            "fn_args": fn_args.to_json(),
            "raw_eval_files": self._examples.raw_eval_files,
            "saved_at": vars(place) if place else None,
            "evaluation": {
                "evidence": evidence.to_json() if evidence else {},
                "features": self._examples.features,
                "overrides": dataclasses.asdict(overrides),
            },
        }

    def add_failure(self, error: BaseException) -> None:
        """Adds the verdict on the stage, or on the phase of the training, in which an exception was raised."""
        fn_args, item = self._check.fn_args, self._events.stage
        if item == "trial":
            item = trial.failed_phase(self._watch, error)
            for verdict in trial.verdicts(self._watch, fn_args, time.perf_counter() - self._begin, error):
                self._add(verdict)
        self._add(trial.failure(item, error, self.request.source, fn_args, self.request.keras))

    def _add(self, verdict: Verdict) -> None:
        if verdict.status == FAILED:
            hints = [*self._hints, *self._examples.hints, verdict.remedy]
            remedy = " ".join(f"{hint.rstrip('.')}." for hint in hints if hint)
            text = self._examples.with_original_paths(verdict.text)
            verdict = dataclasses.replace(verdict, text=text, remedy=remedy)
        self._events.verdict(verdict)

    def _use_search_defaults(self) -> None:
        """Sets the hyper-parameters to the defaults of the search."""
        self._events.enter("hyperparameters")
        assert self._check.modules is not None
        assert self._check.modules.tuner is not None
        tuner, fn_args = self._check.modules.tuner, copy.copy(self._check.fn_args)
        # TFX's directory layout: some modules parse the path.
        working = ("Tuner", ".system", "executor_execution", "1", ".temp", "1")
        fn_args.working_dir = os.path.join(self._folder, *working)
        other: Context = contextlib.nullcontext(self._module) if tuner == self.request.source else loaded(tuner)
        with other as module:
            assert isinstance(module, ModuleType)
            require_step_functions(module, [TUNER_FN])
            defaults = self._check.fn_args.hyperparameters = defaults_of_search(module, None, fn_args)
        text = f"defaults of the search: {hyperparameters_text(defaults['values'])}"
        self._events.verdict(Verdict("hyperparameters", PASSED, text))
