"""What an evaluation decided and why, as a file in the ModelEvaluation artifact, beside TFMA's results."""

from __future__ import annotations

import dataclasses
import json
import os

from ..runtime.files import file_io
from ..runtime.files.json_text import parsed_json
from .plan import EvaluationPlan

FILE_NAME = "verdict.json"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """An evaluation's verdict.

    Attributes:
      blessed: Whether the model may be pushed.
      plan: The plan by which it was evaluated, as JSON; {} when none could be made.
      reason: Why it was not blessed, or why no metric decided; "" when it met the threshold.
      has_threshold: Whether a metric decided.
      failed: Whether the evaluation itself failed.
      notes: Further lines, such as a baseline that was left out.
    """

    blessed: bool
    plan: dict[str, object] = dataclasses.field(default_factory=dict)
    reason: str = ""
    has_threshold: bool = True
    failed: bool = False
    notes: tuple[str, ...] = ()

    @property
    def plan_line(self) -> str:
        """The plan in one line; "" when there is none."""
        return EvaluationPlan.from_json(self.plan).line() if self.plan else ""

    def write(self, folder: str) -> None:
        """Writes the verdict into an artifact's folder."""
        file_io.write_text(os.path.join(folder, FILE_NAME), json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def read_verdict(folder: str) -> Verdict | None:
    """Reads what `Verdict.write` wrote; None for evaluations by TFX's own Evaluator."""
    path = os.path.join(folder, FILE_NAME)
    if not file_io.exists(path):
        return None
    state = parsed_json(file_io.read_bytes(path), path)
    return Verdict(**{**state, "notes": tuple(state["notes"])})
