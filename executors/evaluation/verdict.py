"""The verdict of an evaluation with its reasons, as a file in the ModelEvaluation artifact beside TFMA's results."""

from __future__ import annotations

import dataclasses
import json
import os

from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData, read_or_skip
from .plan import EvaluationPlan

FILE_NAME = "verdict.json"


@dataclasses.dataclass(frozen=True)
class Verdict(JsonData):
    """The verdict of an evaluation.

    Attributes:
      blessed: Whether the model may be pushed.
      plan: The evaluation plan, as JSON values; {} if none could be made.
      reason: Why the model was not blessed, or why no metric decided; "" if it met the threshold.
      has_threshold: Whether a metric's threshold decided.
      failed: Whether the evaluation itself failed.
      notes: Further sentences, such as about a skipped baseline.
      class_names: {output: {class index: name}}, for the classes whose names are known.
    """

    blessed: bool
    plan: dict[str, object] = dataclasses.field(default_factory=dict)
    reason: str = ""
    has_threshold: bool = True
    failed: bool = False
    notes: tuple[str, ...] = ()
    class_names: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the plan: in a file, it may be odd.

        Raises:
          InputError: If it is.
        """
        EvaluationPlan.from_json(self.plan, "plan")

    @property
    def plan_line(self) -> str:
        """The plan as one line of text; "" without a plan."""
        return EvaluationPlan.from_json(self.plan).line() if self.plan else ""

    def write(self, folder: str) -> None:
        """Writes the verdict into an artifact's folder."""
        file_io.write_text(os.path.join(folder, FILE_NAME), json.dumps(self.to_json(), indent=2) + "\n")


def read_verdict(folder: str) -> Verdict | None:
    """Reads a verdict written by `Verdict.write`.

    Returns None if there is none, as for TFX's own Evaluator, or, with a warning, if the file is odd.
    """
    return read_or_skip(os.path.join(folder, FILE_NAME), Verdict, "The verdict")
