"""Tries a module with the default settings, then with alternatives that the outcome suggests; reports one attempt.

The report takes the verdicts of an attempt that passes. If none passes, it takes those of the first attempt, which
shows the failure with TFX's default wiring. While alternatives are possible, failures are shown only after the last
attempt; all other verdicts are shown immediately.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from ..runtime.logs.redaction import masked_text
from .adaptation import MOST, RAW, Settings, adapted, alternatives, on_transformed
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

    def make(self, first: Settings, open_to: Collection[str]) -> Trial:
        """Runs up to `MOST` attempts; the report takes the verdicts and findings of the selected one.

        Args:
          first: Settings of the first attempt.
          open_to: Names of the fields of `Settings` that may be changed.

        Returns:
          The trial of the selected attempt.
        """
        made: list[_Attempt] = []
        ahead: list[tuple[Settings, tuple[str, ...]]] = [(first, ())]
        taken: _Attempt | None = None
        while ahead and len(made) < MOST:
            settings, reasons = ahead.pop(0)
            if any(one.settings == settings for one in made):
                continue
            if made:
                text = f"retrying with {settings}: {reasons[-1]}"
                self._tell(Verdict("adaptation", WARNING, text))
            one = self._make(settings, reasons, bool(open_to))
            made.append(one)
            more = list(alternatives(settings, one.trial.outcome, open_to))
            ahead[:0] = [(other, (*reasons, why)) for other, why in more]
            if one.trial.outcome.fits(settings):
                taken = taken or one
                if not more:
                    taken = one
                    break
        self._take(taken or made[0], first, open_to)
        return (taken or made[0]).trial

    def _make(self, settings: Settings, reasons: tuple[str, ...], holds: bool) -> _Attempt:
        report = Report(self._report.module, list(self._report.verdicts))

        def add(verdict: Verdict) -> None:
            verdict = masked(verdict)
            report.verdicts.append(verdict)
            if not (holds and verdict.status == FAILED):
                self._tell(verdict)

        return _Attempt(settings, reasons, report, self._attempt(settings, report, add))

    def _take(self, one: _Attempt, first: Settings, open_to: Collection[str]) -> None:
        verdicts = one.report.verdicts
        changed = {name: value for name, value in vars(one.settings).items() if value != getattr(first, name)}
        if changed:
            verdicts.append(adapted(changed, one.reasons))
        elif one.settings.train_examples != RAW and (why := one.trial.outcome.wants_raw()):
            verdicts.append(on_transformed(why, "train_examples" in open_to))
        for verdict in verdicts:
            self._tell(verdict)
        self._report.verdicts[:] = verdicts
        self._report.findings.update(changed)

    def _tell(self, verdict: Verdict) -> None:
        key = verdict.item, verdict.text
        if key in self._shown or (verdict.item in _ONCE and any(item == verdict.item for item, _ in self._shown)):
            return
        self._shown.add(key)
        self._show(verdict)


def masked(verdict: Verdict) -> Verdict:
    """Returns a verdict with secrets redacted from its text."""
    return dataclasses.replace(verdict, text=masked_text(verdict.text))
