"""Tries a module with the default settings, then with alternatives that the outcome suggests; reports one attempt.

The report takes the verdicts of an attempt that passes. If none passes, it takes those of the attempt that went
furthest, and of several the first one, which shows the failure with TFX's default wiring. While alternatives are
possible, failures are shown only after the last attempt; all other verdicts are shown immediately. Each attempt runs
the worker process that loads and tries the module, in a folder of its own.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
import re
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..dialects.needs import choose_keras
from ..dialects.restart import with_restarts
from ..engines import child_process
from ..errors import ProcessTimeoutError
from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..runtime.process.forwarding import LastText
from .adaptation import MAX_ATTEMPTS, Outcome, Settings, alternatives
from .events import EventReader, EventWriter, crash_verdict, timeout_verdict
from .request import CheckRequest, PartRequest
from .verdicts import FAILED, WARNING, Report, Verdict

if TYPE_CHECKING:
    from .worker import Found

Show = Callable[[Verdict], None]
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+)', re.MULTILINE)
_ONCE = ("load", "dialect", "signatures")  # same result in every attempt


@dataclasses.dataclass(frozen=True)
class Trial:
    """The result of an attempt.

    Attributes:
      outcome: Failure and facts that decide about further attempts.
      found: Return value of the worker process; {} if it failed.
      folder: Folder with all output of the attempt.
      environment: Environment variables of the worker process.
    """

    outcome: Outcome
    found: Found
    folder: str
    environment: Mapping[str, str]


@dataclasses.dataclass
class Trials:
    """Runs attempts with different settings; raw data are prepared once for each value of `schema_shapes`.

    Attributes:
      request: The run to check.
      keras: The Keras version of the training module; None if the module cannot be run.
      environment: Environment variables of all processes.
      folder: Folder for all output.
      output: Captures the output of the processes.
    """

    request: CheckRequest
    keras: KerasChoice | None
    environment: Mapping[str, str]
    folder: str
    output: LastText

    def __post_init__(self) -> None:
        self._raw: dict[str, threading.Thread] = {}

    def run(self, settings: Settings, report: Report, add: Show) -> Trial:
        """Runs the worker process.

        Args:
          settings: Kind of examples, schema and Keras version to try.
          report: The verdicts so far.
          add: Adds a verdict to the report; called with those of the process as they arrive.
        """
        shapes, keras = settings.schema_shapes, self.keras
        folder = os.path.join(self.folder, f"{settings.train_examples}-{shapes}{settings.keras}")
        fn_args = _with_outputs_in(os.path.join(folder, "Trainer"), self.request.fn_args)
        check = dataclasses.replace(
            self.request, fn_args=fn_args, train_examples=settings.train_examples, schema_shapes=shapes
        )
        raw = self._raw_data(shapes) if check.data else ""
        request = PartRequest(check, folder, raw=raw, failed=tuple(verdict.item for verdict in report.failures))
        environment = dict(self.environment)
        events = EventReader([raw, folder] if raw else [folder], add, check.limit)

        def start(choice: KerasChoice | None) -> Found:
            environment.update(choice.environment() if choice else {})
            own = dataclasses.replace(request, keras=choice)
            returned = self._execute("worker", own, environment, until=events.check_timeout, what="checking")
            return cast("Found", returned)

        if keras and settings.keras:
            keras = dataclasses.replace(keras, version=settings.keras, reason="determined by a trial")
        try:
            result = with_restarts(keras, check.options, start) if keras else start(None)
        except Exception as error:  # the process itself failed: exceptions of the module arrive as verdicts
            result = {}
            events.read()
            add(crash_verdict(events.stage, error, self.output))
        events.read()
        if events.has_timed_out:
            verdict = timeout_verdict(events, report, check.limit)
            if report.get(verdict.item) is None:
                add(verdict)
        outcome = Outcome(report.first_failure, events.reads, (events.prepared or {}).get("kinds", {}))
        return Trial(outcome, result, folder, environment)

    def close(self) -> None:
        """Waits for the preparation of raw data."""
        for thread in self._raw.values():
            thread.join()

    def _raw_data(self, shapes: str) -> str:
        """Returns the folder of the raw data, whose preparation runs in parallel with the import of the module."""
        folder = os.path.join(self.folder, f"raw-{shapes}")
        if folder not in self._raw:
            environment, modules = dict(self.environment), self.request.modules
            if modules and modules.transform:
                keras = choose_keras(self.request.options.keras, modules.transform.files, beside=modules.files)
                environment |= keras.environment()
            request = PartRequest(dataclasses.replace(self.request, schema_shapes=shapes), folder)
            self._raw[folder] = threading.Thread(
                target=self._prepare_raw_data, args=(request, environment), daemon=True
            )
            self._raw[folder].start()
        return folder

    def _prepare_raw_data(self, request: PartRequest, environment: Mapping[str, str]) -> None:
        """Runs the process that prepares raw data; its last event is the result, {} after a failure."""
        events, limit, prepared = EventWriter(request.folder), request.check.limit, {}
        try:
            prepared = self._execute("raw_data", request, environment, timeout=limit, what="raw data")
        except ProcessTimeoutError:
            events.verdict(Verdict("data", WARNING, f"preparation was stopped after {limit:g} s (--limit)"))
        except Exception as error:  # the process itself failed: it reports errors of data and module as verdicts
            events.verdict(crash_verdict("data", error, self.output))
        events.write("prepared", prepared)

    def _execute(
        self, worker: str, request: PartRequest, environment: Mapping[str, str], **others: Any
    ) -> dict[str, Any]:
        return child_process.run(
            f"{__package__}.{worker}",
            request.to_json(),
            environment=environment,
            forked=True,
            output=self.output,
            **others,
        )


def _with_outputs_in(folder: str, fn_args: FnArgs) -> FnArgs:
    """Returns a copy of the arguments with outputs in a folder, in the layout of a pipeline root."""
    fn_args = copy.copy(fn_args)
    fn_args.serving_model_dir = os.path.join(folder, "model", "1", SERVING_DIRS[0])
    fn_args.eval_model_dir = os.path.join(folder, "model", "1", EVAL_DIR)
    fn_args.model_run_dir = os.path.join(folder, "model_run", "1")
    fn_args.checkpoint_dir = os.path.join(fn_args.model_run_dir, "checkpoints")
    for output in (os.path.dirname(fn_args.serving_model_dir), fn_args.model_run_dir):
        os.makedirs(output)
    return fn_args


@dataclasses.dataclass(frozen=True)
class _Attempt:
    settings: Settings
    reasons: tuple[str, ...]
    report: Report
    trial: Trial


class Attempts:
    """Runs attempts until one passes and suggests no alternative.

    Args:
      attempt: Runs one attempt; called with its settings, its report, and a function that adds a verdict to the report.
      report: The check's report, with the verdicts so far.
      show: Called with each verdict to show, once for each.
    """

    def __init__(self, attempt: Callable[[Settings, Report, Show], Trial], report: Report, show: Show) -> None:
        self._attempt = attempt
        self._report = report
        self._show = show
        self._shown = {(verdict.item, verdict.text) for verdict in report.verdicts}

    def run(self, first: Settings, adjustable: Collection[str]) -> Trial:
        """Runs up to `MAX_ATTEMPTS` attempts; the report takes the verdicts and findings of the selected one.

        Args:
          first: Settings of the first attempt.
          adjustable: Names of the fields of `Settings` that may be changed.

        Returns:
          The trial of the selected attempt.
        """
        attempts: list[_Attempt] = []
        pending: list[tuple[Settings, tuple[str, ...]]] = [(first, ())]
        selected: _Attempt | None = None
        while pending and len(attempts) < MAX_ATTEMPTS:
            settings, reasons = pending.pop(0)
            if any(attempt.settings == settings for attempt in attempts):
                continue
            if attempts:
                self._show_once(Verdict("adaptation", WARNING, f"retrying with {settings}: {reasons[-1]}"))
            attempt = self._run_one(settings, reasons, bool(adjustable))
            attempts.append(attempt)
            further = list(alternatives(settings, attempt.trial.outcome, adjustable))
            pending[:0] = [(other, (*reasons, why)) for other, why in further]
            if attempt.trial.outcome.fits(settings):
                selected = selected or attempt
                if not further:
                    selected = attempt
                    break
        selected = selected or functools.reduce(_further, attempts)
        self._report_selected(selected, first, adjustable)
        return selected.trial

    def _run_one(self, settings: Settings, reasons: tuple[str, ...], defers_failures: bool) -> _Attempt:
        report = Report(self._report.module, list(self._report.verdicts))

        def add(verdict: Verdict) -> None:
            verdict = report.add(verdict)
            if not (defers_failures and verdict.status == FAILED):
                self._show_once(verdict)

        return _Attempt(settings, reasons, report, self._attempt(settings, report, add))

    def _report_selected(self, attempt: _Attempt, first: Settings, adjustable: Collection[str]) -> None:
        verdicts = attempt.report.verdicts
        changed = {name: value for name, value in vars(attempt.settings).items() if value != getattr(first, name)}
        if changed and attempt.trial.outcome.failure:
            text = f"with {attempt.settings}, the run gets further, but fails, too: {'; '.join(attempt.reasons)}"
            verdicts.append(Verdict("adaptation", WARNING, text))
        elif changed:
            flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in changed.items())
            text = (
                f"the run succeeds with {Settings(**changed)}: {'; '.join(attempt.reasons)}. `run` uses this setting; "
                f"{flags} sets it without a trial."
            )
            verdicts.append(Verdict("adaptation", WARNING, text, details=changed))
            self._report.findings.update(changed)
        elif why := attempt.trial.outcome.reason_for_raw(attempt.settings):
            was_tried = "train_examples" in adjustable
            text = f"{why}, but the Trainer reads the transformed examples."
            text += " With raw examples, the run would fail, too." if was_tried else ""
            remedy = "" if was_tried else "Remove --train-examples transformed, or set --train-examples raw."
            verdicts.append(Verdict("adaptation", WARNING, text, remedy=remedy))
        for verdict in verdicts:
            self._show_once(verdict)
        self._report.verdicts[:] = verdicts

    def _show_once(self, verdict: Verdict) -> None:
        key = verdict.item, verdict.text
        if key in self._shown or (verdict.item in _ONCE and any(item == verdict.item for item, _ in self._shown)):
            return
        self._shown.add(key)
        self._show(verdict)


def _further(furthest: _Attempt, attempt: _Attempt) -> _Attempt:
    """Returns the attempt that went further: it passed what the first failed at, or failed at a later line."""
    failure, before = attempt.trial.outcome.failure, furthest.trial.outcome.failure
    if failure is None or before is None:
        return furthest
    if failure.item != before.item:  # the report's order of the items is not that in which they are tried
        statuses = {verdict.status for verdict in attempt.report.verdicts if verdict.item == before.item}
        return attempt if statuses - {FAILED} else furthest
    frames = zip(_FRAME.findall(failure.traceback), _FRAME.findall(before.traceback), strict=False)
    for (file, line), (other_file, other_line) in frames:  # of the first code that differs
        if (file, line) != (other_file, other_line):
            return attempt if file == other_file and int(line) > int(other_line) else furthest
    return furthest
