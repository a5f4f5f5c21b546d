"""Runs all checks of a training run: static checks in this process, the others in subprocesses.

    report = check(CheckRequest("taxi.py", FnArgs(train_files=["data/*.gz"])), show)
    report.passed, report.first_failure

The module is loaded and tried in a process forked from a server that has imported TensorFlow, the SavedModel is checked
in a second process, and raw data are prepared in a third, in parallel with the first. All output goes to a temporary
directory that is removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..dialects.needs import choose_keras
from ..distributed.tf_config import VARIABLE
from ..engines import fork_server
from ..engines.cluster_options import worker_range
from ..errors import ModelCheckError, TrainerError
from ..evaluation.plan import EvaluationPlan
from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice, has_keras_3
from ..modules.libraries import libraries_of
from ..runtime.logs.exceptions import describe
from ..runtime.process.forwarding import LastText
from ..runtime.quantities import size_text
from ..saved_models.locations import find_saved_model
from ..training.outputs import check_model
from .adaptation import AUTO, Settings
from .attempts import Attempts, Show, Trial, Trials
from .events import crash_verdict
from .files import file_verdicts
from .places import display_path, place_of
from .remedies import remedy_for_message, shorten_message
from .request import CheckRequest
from .verdicts import (
    ALWAYS,
    EVALUATION_PLAN,
    FAILED,
    NOT_REACHED,
    PASSED,
    STATIC,
    TRIAL,
    WARNING,
    Place,
    Report,
    Verdict,
)

if TYPE_CHECKING:
    from ..monitoring.run_json import CheckReport

CHECKING = "GENERIC_TRAINER_CHECK"  # environment variable, "1" during a check: modules can skip lasting side effects


def check(request: CheckRequest, show: Show = lambda verdict: None) -> Report:
    """Checks a run in a temporary directory, without writing to the run's output folders.

    Args:
      request: The run to check.
      show: Called with each verdict as soon as it is known; texts are redacted.

    Returns:
      A report with verdicts on all items that concern this run, in report order; items of `ALWAYS` that were not
      reached have status NOT_REACHED.
    """
    begin = time.perf_counter()
    report = Report(request.module)
    with tempfile.TemporaryDirectory(prefix="generic-trainer-check-") as folder:
        _Check(request, os.path.realpath(folder), show, report).run()
    for item in ALWAYS:
        if report.get(item) is None:
            show(report.add(Verdict(item, NOT_REACHED, _reason_not_reached(report))))
    order = (*STATIC, *TRIAL)
    report.verdicts.sort(key=lambda verdict: order.index(verdict.item))
    report.seconds = time.perf_counter() - begin
    return report


def execute(state: Mapping[str, object]) -> dict[str, Any]:
    """Entry point of a subprocess that runs a check in the background; see `engines`."""
    return check(CheckRequest.from_json(state)).to_json()


def _reason_not_reached(report: Report) -> str:
    if (failed := report.first_failure) is not None:
        return f"{failed.item} failed"
    verdicts = reversed(report.verdicts)
    return next((f"stopped at {verdict.item}" for verdict in verdicts if verdict.status == WARNING), "")


class _Check:
    def __init__(self, request: CheckRequest, folder: str, show: Show, report: Report) -> None:
        self._request = request
        self._folder = folder
        self._show = show
        self._report = report
        self._output = LastText()

    def run(self) -> None:
        """Runs all checks."""
        keras = self._find_module()
        temporary = os.path.join(self._folder, "temporary")  # trial processes are killed before they remove temp files
        os.mkdir(temporary)
        environment = {**(keras.environment() if keras else {}), VARIABLE: "{}", CHECKING: "1", "TMPDIR": temporary}
        fn_args, modules = self._request.fn_args, self._request.modules
        if not (modules or self._request.data or fn_args.train_files or fn_args.eval_files or fn_args.schema_path):
            return  # no data to check without the module
        fork_server.prepare(environment, libraries_of(modules.trainer.files) if modules else ())  # in the background
        for verdict in file_verdicts(self._request):
            self._add(verdict)
        request = self._request
        trials = Trials(request, keras, environment, self._folder, self._output)
        first = Settings.of(request.train_examples, request.schema_shapes)
        with contextlib.closing(trials):
            trial = Attempts(trials.run, self._report, self._show).run(first, self._adjustable())
        if trial.found and self._report.passed:
            self._check_model(trial)
            self._add(Verdict.from_json(trial.found["estimate"]))

    def _add(self, verdict: Verdict) -> None:
        self._show(self._report.add(verdict))

    def _find_module(self) -> KerasChoice | None:
        """Finds the modules and compiles their files; returns the training module's Keras version, or None."""
        request, options = self._request, self._request.options
        self._request = dataclasses.replace(request, modules=None)
        files: Sequence[str] = ()
        try:
            modules = request.find_modules(os.path.join(self._folder, "source"))
            source = modules.trainer
            files = list(dict.fromkeys(modules.files if request.data else source.files))
            for file in files:
                with open(file, "rb") as code:
                    compile(code.read(), file, "exec", dont_inherit=True)
            distributed = worker_range(options.workers)[1] > 1
            keras = choose_keras(options.keras, source.files, beside=modules.files, distributed=distributed)
        except TrainerError as error:
            self._add(Verdict("module", FAILED, str(error), place_of(error, files), exit_code=error.exit_code))
            return None
        except (SyntaxError, ValueError) as error:
            text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
            place = place_of(error, files)
            self._add(Verdict("module", FAILED, text, place, exit_code=1, error=describe(error)))
            return None
        others = len(source.files) - 1
        more = f" and {others} imported file{'s' * (others != 1)}" if others else ""
        text = f"{display_path(source.path)}{more}; Keras {keras.version} ({keras.reason})"
        if request.data and modules.transform not in (None, source):
            text += f"; {modules.notice or f'Transform uses {display_path(modules.transform.path)}'}"
        if request.tunes and modules.tuner_notice:
            text += f"; {modules.tuner_notice}"
        self._add(Verdict("module", PASSED, text, details={"keras": keras.version}))
        self._request = dataclasses.replace(request, modules=modules, function=request.function or source.function)
        return keras

    def _adjustable(self) -> set[str]:
        """Returns the names of the settings that the user left open, and that other values may suit."""
        request, modules = self._request, self._request.modules
        adjustable = set()
        if request.data and modules and modules.transform and request.train_examples == AUTO:
            adjustable.add("train_examples")
        if request.data and modules and not request.fn_args.schema_path and request.schema_shapes == AUTO:
            adjustable.add("schema_shapes")
        options = request.options
        if modules and options.keras == AUTO and worker_range(options.workers)[1] == 1 and has_keras_3():
            adjustable.add("keras")
        return adjustable

    def _check_model(self, trial: Trial) -> None:
        result, fn_args = trial.found, FnArgs.from_json(trial.found["fn_args"])
        try:
            report = check_model(
                fn_args,
                self._request.options,
                raw_eval_files=result["raw_eval_files"],
                op_packages=result["trained"].get("op_packages", {}),
                example=result["trained"].get("sample_input"),
                shown_as="fn_args.serving_model_dir",
                environment=trial.environment,
                timeout=self._request.limit,
                parts={"evaluation": result["evaluation"]},
            )
        except ModelCheckError as error:
            text = shorten_message(_relative_to(str(error), trial.folder, self._folder))
            remedy = remedy_for_message(str(error))
            place = Place(**result["saved_at"]) if result["saved_at"] else None
            self._add(Verdict("SavedModel", FAILED, text, place, remedy, 3, error=describe(error)))
            return
        except Exception as error:
            self._add(crash_verdict("SavedModel", error, self._output))
            return
        source = _relative_to(report.example, trial.folder, self._folder)
        self._add(_model_verdict(report, re.sub(r"the first (\w+ )?eval example \(.*\)", "an eval example", source)))
        is_evaluated = result["evaluation"]["overrides"]["labels"]
        if is_evaluated and (plan := report.parts.get("evaluation")):
            self._report.findings["evaluation_plan"] = plan
            made = EvaluationPlan.from_json(plan)
            self._add(Verdict(EVALUATION_PLAN, PASSED if made.compares else WARNING, made.line(), details=plan))
        elif is_evaluated and find_saved_model(fn_args.serving_model_dir) is None:
            problem = "fn_args.serving_model_dir contains no SavedModel, which the evaluation needs"
            self._add(Verdict(EVALUATION_PLAN, FAILED, problem, remedy="Leave out --label.", exit_code=3))


def _model_verdict(report: CheckReport, source: str) -> Verdict:
    """Returns the verdict on a model that passed its check, with its answer for an example from `source`."""
    answer = ", ".join(f"{name}={_shortened_values(values)}" for name, values in report.answer.items())
    loads = "; loads in a new process" if report.checks["loads"] == "passed" else ""
    needs = f"; needs {', '.join(report.op_packages)}" if report.op_packages else ""
    text = f"{size_text(report.size_bytes)}{loads}{needs}; signatures: {', '.join(report.signatures)}"
    text += f"; prediction for {source}: {answer}" if answer else ""
    warnings = [f"{name} {outcome}" for name, outcome in report.warnings.items()]
    status = WARNING if warnings else PASSED
    return Verdict("SavedModel", status, ". ".join([text, *warnings]), details={"signatures": report.signatures})


def _relative_to(text: str, *folders: str) -> str:
    """Returns a text with paths in these folders made relative to them."""
    for folder in folders:
        text = text.replace(f"{folder}/", "")
    return text


def _shortened_values(values: Sequence[object]) -> str:
    text = str([float(f"{value:.4g}") if isinstance(value, float) else value for value in values])
    return text if len(text) < 120 else f"{text[:120]}…"
