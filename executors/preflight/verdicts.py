"""Verdicts of a check: status of each item, with the user's line and a remedy if it failed.

report = Report("taxi.py")
report.verdicts.append(Verdict("dialect", PASSED, "run_fn: it defines run_fn"))
report.first_failure, report.exit_code
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..runtime.files.json_data import JsonData
from ..runtime.logs.redaction import masked_text

PASSED, WARNING, FAILED, NOT_REACHED, SKIPPED = "passed", "warning", "failed", "not reached", "skipped"

# Items in report order. STATIC items are independent of each other, so one report can show several failures; each TRIAL
# item requires all items before it.
STATIC = (
    "module",
    "train files",
    "eval files",
    "schema",
    "transform graph",
    "base model",
    "hyperparameters",
    "custom_config",
    "data",
    "load",
    "dialect",
    "signatures",
    "examples",
)
EVALUATION_PLAN = "evaluation plan"  # only with a label
_PHASES = ("model", "training", "evaluation", "export", "SavedModel")
TRIAL = ("adaptation", "transform", *_PHASES, EVALUATION_PLAN, "estimate")
_REQUIRED = ("item", "status", "text")  # of a Verdict
ALWAYS = ("module", "load", "dialect", "signatures", "examples", *_PHASES, "estimate")


@dataclasses.dataclass(frozen=True)
class Place:
    """A line in one of the user's files.

    Attributes:
      file: The path, as the user would write it.
      line: The line number, from 1; 0 if only the file is known.
      source: The line's text, stripped.
    """

    file: str
    line: int
    source: str = ""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line else self.file


@dataclasses.dataclass(frozen=True)
class Verdict(JsonData):
    """The result of checking one item.

    Attributes:
      item: A name of STATIC or TRIAL.
      status: PASSED, WARNING, FAILED, NOT_REACHED or SKIPPED.
      text: One line: the result, or the problem.
      place: The line in the user's files, or None.
      remedy: How to fix it; "" if there is no advice beyond the text.
      exit_code: The command's exit code for this failure; 0 unless the item failed.
      traceback: Traceback of the user's exception; "" without one.
      error: The exception as returned by `exceptions.describe`, or None.
      details: Numbers and names behind the text, for programs.
    """

    item: str
    status: str
    text: str
    place: Place | None = None
    remedy: str = ""
    exit_code: int = 0
    traceback: str = ""
    error: dict[str, Any] | None = None
    details: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Returns the verdict as JSON values, without empty optional fields."""
        state = super().to_json()
        return {name: value for name, value in state.items() if name in _REQUIRED or value not in (None, "", {}, 0)}


@dataclasses.dataclass
class Report(JsonData):
    """All verdicts of a check.

    Attributes:
      module: The module that was checked.
      verdicts: The verdicts in order of arrival; `check` sorts them by `STATIC` and `TRIAL` at the end.
      seconds: Duration of the check.
      findings: Option values that `run` takes over from the check, as JSON values: {name of a field of
        `PipelineOptions` or `TrainingOptions`: value}. Contains only options that the user left open.
    """

    module: str
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    findings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def add(self, verdict: Verdict) -> Verdict:
        """Adds a verdict with secrets redacted from its text, and returns it."""
        self.verdicts.append(dataclasses.replace(verdict, text=masked_text(verdict.text)))
        return self.verdicts[-1]

    def get(self, item: str) -> Verdict | None:
        """Returns the verdict on an item, or None."""
        return next((verdict for verdict in self.verdicts if verdict.item == item), None)

    @property
    def failures(self) -> list[Verdict]:
        """The failed verdicts, in the report's order."""
        return [verdict for verdict in self.verdicts if verdict.status == FAILED]

    @property
    def first_failure(self) -> Verdict | None:
        """The first failed verdict, or None."""
        return next(iter(self.failures), None)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def not_reached(self) -> list[str]:
        """The items that could not be checked, for example because the time limit of a stage was reached."""
        return [verdict.item for verdict in self.verdicts if verdict.status == NOT_REACHED]

    @property
    def exit_code(self) -> int:
        """0, or the code of the first failure: 1 for the module, 2 for usage or input, 3 for an invalid model."""
        return self.failures[0].exit_code if self.failures else 0

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values, with the results that follow from the verdicts."""
        results = {"module": self.module, "passed": self.passed, "exit_code": self.exit_code}
        return {**results, **super().to_json(), "seconds": round(self.seconds, 2)}
