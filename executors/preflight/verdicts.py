"""What a check says of each item: passed, failed where and what to do, or not reached.

report = Report("taxi.py")
report.add(Verdict("dialect", PASSED, "run_fn: it defines run_fn"))
report.first_failure, report.exit_code
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypedDict

PASSED, WARNING, FAILED, NOT_REACHED, SKIPPED = "passed", "warning", "failed", "not reached", "skipped"

# In the order of the report. Those of the first group do not depend on each other, so that several faults are seen at
# once; those of the second each need all before them.
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
ALWAYS = ("module", "load", "dialect", "signatures", "examples", *_PHASES, "estimate")


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of the user's.

    Attributes:
      file: The path, as the user would write it.
      line: Its number, from 1; 0 when only the file is known.
      source: The line's text, stripped.
    """

    file: str
    line: int
    source: str = ""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line else self.file


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What was found of one item.

    Attributes:
      item: A name of STATIC or TRIAL.
      status: PASSED, WARNING, FAILED, NOT_REACHED or SKIPPED.
      text: One line: what was found, or what is wrong.
      place: Where in the user's files, or None.
      remedy: What to do; "" where the text says it.
      exit_code: What the command ends with for it; 0 unless it failed.
      traceback: Of the user's exception; "" when there is none.
      error: The exception as `raised_errors.describe` gives it, or None.
      details: Numbers and names behind the text.
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
        """Returns it as JSON values; what is empty is left out."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, "", {}, 0)}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Verdict:
        """Rebuilds what `to_json` returned."""
        place = state.get("place")
        return cls(**{**state, "place": Place(**place) if place else None})


class ReportState(TypedDict):
    """A report as JSON values: its verdicts, and what follows from them."""

    module: str
    passed: bool
    exit_code: int
    seconds: float
    findings: dict[str, Any]
    verdicts: list[dict[str, object]]


@dataclasses.dataclass
class Report:
    """All verdicts of a check.

    Attributes:
      module: What was checked.
      verdicts: In the order in which they came.
      seconds: How long it took.
      findings: What `run` takes over from the check, as JSON values: {name of a field of `PipelineOptions`, or of
        `TrainingOptions`: value}.
        Only options that the user left open are in it.
    """

    module: str
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    findings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def get(self, item: str) -> Verdict | None:
        """Returns the verdict on an item, or None."""
        return next((verdict for verdict in self.verdicts if verdict.item == item), None)

    @property
    def failures(self) -> list[Verdict]:
        """What failed, in the report's order."""
        return [verdict for verdict in self.verdicts if verdict.status == FAILED]

    @property
    def first_failure(self) -> Verdict | None:
        """The first of them, or None."""
        return next(iter(self.failures), None)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def exit_code(self) -> int:
        """0, or that of the first failure: 1 the module failed, 2 wrong usage or input, 3 the model is not one."""
        return self.failures[0].exit_code if self.failures else 0

    def to_json(self) -> ReportState:
        """Returns the report as JSON values."""
        return {
            "module": self.module,
            "passed": self.passed,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 2),
            "findings": self.findings,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Report:
        """Rebuilds what `to_json` returned."""
        verdicts = [Verdict.from_json(one) for one in state["verdicts"]]
        return cls(state["module"], verdicts, state["seconds"], state["findings"])
