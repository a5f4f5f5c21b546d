"""Tries a module with the default settings, then with alternatives that the outcome suggests; reports one attempt.

The report takes the verdicts of an attempt that passes. If none passes, it takes those of the first attempt, which
shows the failure with TFX's default wiring. While alternatives are possible, failures are shown only after the last
attempt; all other verdicts are shown immediately.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from ..inputs.example_kinds import RAW
from ..runtime.logs.redaction import masked_text
from .adaptation import MAX_ATTEMPTS, Settings, adaptation_verdict, alternatives, transformed_examples_warning
from .attempt import Trial
from .verdicts import FAILED, WARNING, Report, Verdict

Show = Callable[[Verdict], None]
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
            if any(one.settings == settings for one in attempts):
                continue
            if attempts:
                text = f"retrying with {settings}: {reasons[-1]}"
                self._show_once(Verdict("adaptation", WARNING, text))
            one = self._run_one(settings, reasons, bool(adjustable))
            attempts.append(one)
            further = list(alternatives(settings, one.trial.outcome, adjustable))
            pending[:0] = [(other, (*reasons, why)) for other, why in further]
            if one.trial.outcome.fits(settings):
                selected = selected or one
                if not further:
                    selected = one
                    break
        self._report_selected(selected or attempts[0], first, adjustable)
        return (selected or attempts[0]).trial

    def _run_one(self, settings: Settings, reasons: tuple[str, ...], defers_failures: bool) -> _Attempt:
        report = Report(self._report.module, list(self._report.verdicts))

        def add(verdict: Verdict) -> None:
            verdict = redacted(verdict)
            report.verdicts.append(verdict)
            if not (defers_failures and verdict.status == FAILED):
                self._show_once(verdict)

        return _Attempt(settings, reasons, report, self._attempt(settings, report, add))

    def _report_selected(self, one: _Attempt, first: Settings, adjustable: Collection[str]) -> None:
        verdicts = one.report.verdicts
        changed = {name: value for name, value in vars(one.settings).items() if value != getattr(first, name)}
        if changed:
            verdicts.append(adaptation_verdict(changed, one.reasons))
        elif one.settings.train_examples != RAW and (why := one.trial.outcome.reason_for_raw()):
            verdicts.append(transformed_examples_warning(why, "train_examples" in adjustable))
        for verdict in verdicts:
            self._show_once(verdict)
        self._report.verdicts[:] = verdicts
        self._report.findings.update(changed)

    def _show_once(self, verdict: Verdict) -> None:
        key = verdict.item, verdict.text
        if key in self._shown or (verdict.item in _ONCE and any(item == verdict.item for item, _ in self._shown)):
            return
        self._shown.add(key)
        self._show(verdict)


def redacted(verdict: Verdict) -> Verdict:
    """Returns a verdict with secrets redacted from its text."""
    return dataclasses.replace(verdict, text=masked_text(verdict.text))
