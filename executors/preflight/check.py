"""The whole check: what can be told from here, then what processes of their own find out.

    report = check(CheckRequest("taxi.py", FnArgs(train_files=["data/*.gz"])), show)
    report.passed, report.first_failure

The module is loaded and tried in a process forked where TensorFlow is imported already, the SavedModel is checked in
another one, and raw data are prepared in a third, beside them. All that they write lies in a folder that is removed.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .. import keras_version
from ..cluster import VARIABLE
from ..engines import child_process, fork_server
from ..errors import ModelCheckError, ProcessDiedError, TrainerError
from ..keras_version import KerasChoice
from ..layouts import EVAL_DIR, SERVING_DIRS
from ..masking import masked_text
from ..module_source import ModuleSource, defines, find_source
from ..raised_errors import RemoteTraceback, describe
from ..saved_model import check_saved_model
from .events import EventReader
from .files import file_verdicts, size_shown
from .places import place_of, shown
from .raw_process import RawData
from .remedies import remedy_by_words, shortened
from .request import CheckRequest
from .verdicts import (
    ALWAYS,
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

_PACKAGE = __name__.rpartition(".")[0]
_WORKER = f"{_PACKAGE}.worker"
CHECKING = "GENERIC_TRAINER_CHECK"  # by which a module can tell that nothing is to be kept
Show = Callable[[Verdict], None]


def check(request: CheckRequest, show: Show = lambda verdict: None) -> Report:
    """Checks a run; nothing is left behind, and nothing is written to the run's own folders.

    Args:
      request: What is to be checked.
      show: Called with each verdict as it comes.

    Returns:
      Verdicts on all items that concern this run, those too that were not reached.
    """
    begin = time.perf_counter()
    report = Report(request.module)

    def add(verdict: Verdict) -> None:
        verdict = dataclasses.replace(verdict, text=masked_text(verdict.text))
        report.verdicts.append(verdict)
        show(verdict)

    with tempfile.TemporaryDirectory(prefix="generic-trainer-check-") as folder:
        _Check(request, os.path.realpath(folder), add, report).make()
    for item in ALWAYS:
        if report.get(item) is None:
            add(Verdict(item, NOT_REACHED, _why_not(report)))
    order = (*STATIC, *TRIAL)
    report.verdicts.sort(key=lambda verdict: order.index(verdict.item))
    report.seconds = time.perf_counter() - begin
    return report


def execute(state: dict[str, Any]) -> dict[str, Any]:
    """Makes a check in a process of its own, for who does something else meanwhile; see `engines`."""
    return check(CheckRequest.from_json(state)).to_json()


def _why_not(report: Report) -> str:
    if (failed := report.first_failure) is not None:
        return f"{failed.item} failed"
    return next((f"after {one.item}" for one in reversed(report.verdicts) if one.status == WARNING), "")


class _Check:
    def __init__(self, request: CheckRequest, folder: str, add: Show, report: Report) -> None:
        self._request = dataclasses.replace(request, fn_args=copy.copy(request.fn_args))
        self._folder = folder
        self._add = add
        self._report = report
        self._output = io.StringIO()

    def make(self) -> None:
        """Makes all checks."""
        source, keras = self._find_module()
        temporary = os.path.join(self._folder, "temporary")  # what is tried is ended as it is, and cannot tidy up
        os.mkdir(temporary)
        environment = {**(keras.environment() if keras else {}), VARIABLE: "{}", CHECKING: "1", "TMPDIR": temporary}
        fork_server.prepare(environment)  # imports TensorFlow meanwhile
        for verdict in file_verdicts(self._request):
            self._add(verdict)
        fn_args = self._request.fn_args
        if not (source or self._request.data or fn_args.train_files or fn_args.eval_files or fn_args.schema_path):
            return  # there is nothing to look at
        self._set_outputs()
        raw = self._prepare_raw_data(source, keras, environment)
        try:
            found = self._examine(source, keras, environment, raw)
        finally:
            if raw:
                raw.thread.join()
        if found and self._report.passed:
            self._check_model(found, environment)
            self._add(Verdict.from_json(found["estimate"]))

    def _find_module(self) -> tuple[ModuleSource | None, KerasChoice | None]:
        """Finds the module and sees to it that its files are Python; says which Keras it will have."""
        try:
            source = find_source(self._request.module, os.path.join(self._folder, "source"))
        except TrainerError as error:
            self._add(Verdict("module", FAILED, str(error), exit_code=error.exit_code))
            return None, None
        for file in source.files:
            try:
                with open(file, "rb") as code:
                    compile(code.read(), file, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                place = place_of(error, source.files)
                text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
                self._add(Verdict("module", FAILED, text, place, exit_code=1, error=describe(error)))
                return None, None
        distributed = self._request.options.worker_range[1] > 1
        try:
            keras = keras_version.choose(self._request.options.keras, source.files, distributed=distributed)
        except TrainerError as error:
            place = place_of(error, source.files)
            self._add(Verdict("module", FAILED, str(error), place, exit_code=error.exit_code))
            return None, None
        others = len(source.files) - 1
        more = f" and {others} of its own imports" if others else ""
        text = f"{shown(source.path)}{more}; Keras {keras.version} ({keras.reason})"
        self._add(Verdict("module", PASSED, text, details={"keras": keras.version}))
        if source.function and not self._request.function:
            self._request = dataclasses.replace(self._request, function=source.function)
        return source, keras

    def _set_outputs(self) -> None:
        """Sets folders that will be removed for all that a run writes."""
        fn_args, output = self._request.fn_args, os.path.join(self._folder, "output")
        fn_args.serving_model_dir = os.path.join(output, "model", SERVING_DIRS[0])
        fn_args.eval_model_dir = os.path.join(output, "model", EVAL_DIR)
        fn_args.model_run_dir = os.path.join(output, "model_run")
        fn_args.checkpoint_dir = os.path.join(fn_args.model_run_dir, "checkpoints")
        for folder in (os.path.dirname(fn_args.serving_model_dir), fn_args.model_run_dir):
            os.makedirs(folder)

    def _prepare_raw_data(
        self, source: ModuleSource | None, keras: KerasChoice | None, environment: dict[str, str]
    ) -> RawData | None:
        """Begins to prepare raw data, if there are some, in a process beside the one that loads the module."""
        if not self._request.data:
            return None
        # Which is not to be run where it cannot: then the data alone are looked at.
        transforms = source is not None and defines(source.path, "preprocessing_fn")
        request = {
            "check": self._request.to_json(),
            "source": dataclasses.asdict(source) if source and transforms else None,
            "keras": dataclasses.asdict(keras) if keras else None,
            "folder": os.path.join(self._folder, "raw"),
            "events": os.path.join(self._folder, "raw-events"),
        }
        return RawData(request, environment, os.path.join(self._folder, "raw-done"), self._output)

    def _examine(
        self,
        source: ModuleSource | None,
        keras: KerasChoice | None,
        environment: dict[str, str],
        raw: RawData | None,
    ) -> dict[str, Any]:
        failed = [verdict.item for verdict in self._report.failures]
        state: dict[str, Any] = {
            "check": self._request.to_json(),
            "source": dataclasses.asdict(source) if source else None,
            "keras": dataclasses.asdict(keras) if keras else None,
            "folder": self._folder,
            "events": os.path.join(self._folder, "events"),
            "raw": raw.done if raw else "",
            "failed": failed,
            "can_try": not failed,
        }
        events = EventReader(state["events"], raw.events if raw else "", self._add, self._request.limit)
        try:
            found = child_process.run(
                _WORKER,
                state,
                environment=environment,
                until=events.is_over,
                what="checking",
                forked=True,
                output=self._output,
            )
        except Exception as error:  # of the process itself: what the module raises comes as a verdict
            found = {}
            events.read()
            self._add(self._died(events.stage, error))
        events.read()
        if events.is_over_limit:
            verdict = self._over_limit(events)
            if self._report.get(verdict.item) is None:
                self._add(verdict)
        return found

    def _died(self, stage: str, error: Exception) -> Verdict:
        last = "\n".join(self._output.getvalue().splitlines()[-20:])
        item = _item_of(stage)
        text = str(error) if isinstance(error, TrainerError) else f"{type(error).__name__}: {error}"
        remote = error.__cause__
        trace = remote.text if isinstance(remote, RemoteTraceback) else last
        code = 1 if isinstance(error, ProcessDiedError) else getattr(error, "exit_code", 1)
        return Verdict(item, FAILED, text, exit_code=code, traceback=trace, error=describe(error))

    def _over_limit(self, events: EventReader) -> Verdict:
        """Says what was seen of a training that would not end."""
        seen = events.seen
        item = _item_of(events.stage) if events.stage != "trial" else seen.get("phase", "model")
        if item == "data" and self._report.get("data") is not None:
            item = "transform"
        limit = f"ended after {self._request.limit:g} s (--limit)"
        if events.stage != "trial":
            return Verdict(item, WARNING, f"it was {limit}, before it was through")
        steps = seen.get("steps", 0)
        done = f"{steps} training step{'s' * (steps != 1)} had been done" if steps else "no training step was seen yet"
        if losses := seen.get("losses"):
            done += f", loss {losses[-1]:.4g}"
        return Verdict(
            item,
            WARNING,
            f"{limit}: {done}. Nothing says how to cut this training shorter; what comes after it was not tried.",
            remedy="A loop that goes by fn_args.train_steps is cut short by it; or give a larger --limit.",
            details=seen,
        )

    def _check_model(self, found: dict[str, Any], environment: dict[str, str]) -> None:
        fn_args, options = self._request.fn_args, self._request.options
        place = Place(**found["saved_at"]) if found["saved_at"] else None
        try:
            report = check_saved_model(
                fn_args.serving_model_dir,
                found["eval_files"] or (),
                examples_format=fn_args.examples_format,
                schema_path=found["schema_path"],
                transform_graph_path=found["transform_graph_path"],
                required_signatures=options.required_signatures,
                skip=options.skip_checks,
                op_packages=found["op_packages"],
                example=found["example"],
                shown_as="fn_args.serving_model_dir",
                environment=environment,
                timeout=self._request.limit,
            )
        except ModelCheckError as error:
            text = shortened(str(error).replace(f"{self._folder}/", ""))
            remedy = remedy_by_words(str(error))
            self._add(Verdict("SavedModel", FAILED, text, place, remedy, 3, error=describe(error)))
            return
        except Exception as error:
            self._add(self._died("SavedModel", error))
            return
        answer = ", ".join(f"{name}={_short(values)}" for name, values in report.answer.items())
        text = (
            f"{size_shown(report.size_bytes)}; it loads in a fresh process; signatures: {', '.join(report.signatures)}"
        )
        source = report.example.replace(f"{self._folder}/", "")
        text += (
            f"; it answers {'an eval example' if 'first eval example' in source else source}: {answer}"
            if answer
            else ""
        )
        odd = [f"{name} {outcome}" for name, outcome in report.checks.items() if outcome not in ("passed", "skipped")]
        status = WARNING if odd else PASSED
        self._add(Verdict("SavedModel", status, ". ".join([text, *odd]), details={"signatures": report.signatures}))


def _item_of(stage: str) -> str:
    return {"trial": "training"}.get(stage, stage)


def _short(values: Any) -> str:
    text = str([float(f"{one:.4g}") if isinstance(one, float) else one for one in values])
    return text if len(text) < 120 else f"{text[:120]}…"
