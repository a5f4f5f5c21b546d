"""Tries a module with the default settings, then with alternatives that the outcome suggests; reports one attempt.

The report takes the verdicts of an attempt that passes. If none passes, it takes those of the attempt that went
furthest, and of several the first one, which shows the failure with TFX's default wiring. While alternatives are
possible, failures are shown only after the last attempt; all other verdicts are shown immediately.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection

from ..inputs.example_kinds import RAW
from .adaptation import MAX_ATTEMPTS, Settings, alternatives
from .attempt import Trial
from .verdicts import FAILED, WARNING, Report, Verdict

Show = Callable[[Verdict], None]
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+)', re.MULTILINE)
_ONCE = ("load", "dialect", "signatures")  # same result in every attempt


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
        elif attempt.settings.train_examples != RAW and (why := attempt.trial.outcome.reason_for_raw()):
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
