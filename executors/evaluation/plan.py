"""The evaluation plan: which outputs of a model are compared with which labels, and for which task.

One plan is made per run: by `check` from its trial, or by the Evaluator from the trained model. `check`, the
Evaluator's configuration, its thresholds, the report and `predict` all use it.

    plan = EvaluationPlan.from_json(record["evaluation_plan"])
    plan.line()  # "binary: output_0 (logits) against label income_xf; signature serving_default, raw examples"
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from ..inputs.example_kinds import RAW
from ..runtime.files.json_data import JsonData

BINARY, MULTICLASS, MULTILABEL, REGRESSION, RANKING, UNKNOWN = TASKS = (
    "binary",
    "multiclass",
    "multilabel",
    "regression",
    "ranking",
    "unknown",
)
PROBABILITIES, LOGITS, MARGINS, VALUES = SCORES = ("probabilities", "logits", "margins", "values")
Scale: TypeAlias = tuple[tuple[float, float], ...]  # see `label_scale`
ANALYSIS_FILE = "error_analysis.json"  # in a model run: how the plan's outputs compare with their labels
SET_BY_OPTION = "asked for"  # the reason for parts that an option sets


@dataclasses.dataclass(frozen=True)
class OutputPlan:
    """How one output of a model is evaluated.

    Attributes:
      output: The key of the signature's output tensor.
      task: One of TASKS; UNKNOWN if no metric of quality applies.
      label: The feature with the label; "" if unknown.
      label_is_transformed: Whether the label is a feature of the transformed examples, rather than of the raw ones.
      label_is_one_hot: Whether the label feature is a one-hot vector; else it is a class index or a value.
      classes: Number of classes (MULTICLASS) or labels (MULTILABEL); 0 for other tasks and if unknown.
      scores: Kind of the output's numbers, one of SCORES. Sigmoid or softmax is applied to LOGITS and MARGINS before
        the comparison; MARGINS are trained with labels -1 and 1.
      loss: The compiled loss, such as "binary_crossentropy"; "" if unknown.
      label_values: (value of the label, target of the model) of each value, for a label that the module converts
        itself; () if the label has the targets.
      label_scale: (value of the label, target of the model) of some examples, if the training converts the label to
        other units, which are the output's; () if the label has the targets.
    """

    output: str
    task: str = UNKNOWN
    label: str = ""
    label_is_transformed: bool = False
    label_is_one_hot: bool = False
    classes: int = 0
    scores: str = VALUES
    loss: str = ""
    label_values: tuple[tuple[str | int, float], ...] = ()
    label_scale: Scale = ()

    def class_names(self) -> dict[str, str | int]:
        """Returns {class index: value of the label} for the classes that come from one value."""
        targets = [(value, max(target, 0) if self.scores == MARGINS else target) for value, target in self.label_values]
        counts = Counter(target for _, target in targets)
        return {str(target): value for value, target in targets if counts[target] == 1}


@dataclasses.dataclass(frozen=True)
class EvaluationPlan(JsonData):
    """How a model is evaluated.

    Attributes:
      signature: The signature to run.
      examples: RAW or TRANSFORMED: kind of the serialized tf.Examples that it takes; with `takes_tensors`, kind of
        the examples whose features are its inputs.
      takes_tensors: Whether the signature takes a tensor for each feature, instead of serialized examples.
      inputs: {input: feature} of the inputs that get a feature; the others get serialized examples. {} also if the
        features of the examples are unknown.
      outputs: One entry per output with a label, the main output first; one without a label if no output has any.
      problem: Why the model's outputs cannot be compared with labels, and the remedy; "" if they can.
      reasons: {part: reason for the decision}, for `check` and the record; "asked for" for overrides. Parts are
        "signature", "examples", "output", and "label", "task" and "scores" of the first output; "task of NAME" of
        another one.
      is_guess: Whether nothing shows that these outputs are what the training fitted.
      weights: What weights the examples in the training; "" if they all count the same, as in the evaluation.
    """

    signature: str = ""
    examples: str = RAW
    takes_tensors: bool = False
    outputs: tuple[OutputPlan, ...] = ()
    problem: str = ""
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    is_guess: bool = False
    weights: str = ""

    @property
    def compares(self) -> bool:
        """Whether an output is compared with a label for a known task."""
        return not self.problem and any(one.label and one.task != UNKNOWN for one in self.outputs)

    @property
    def label_values(self) -> list[tuple[tuple[str | int, float], ...]]:
        """The `label_values` of the outputs that have them."""
        return [one.label_values for one in self.outputs if one.label_values]

    def line(self) -> str:
        """Returns the plan as one line of text."""
        if self.problem:
            return self.problem
        what = (
            "; ".join(_described(one, self.reasons, number) for number, one in enumerate(self.outputs))
            or "example count only"
        )
        takes = f"{self.examples} features as tensors" if self.takes_tensors else f"{self.examples} examples"
        guess = f"; the output is {self.reasons.get('output')}" if self.is_guess else ""
        weights = f"; not weighted, as the training is by its {self.weights}" if self.weights else ""
        return f"{what}; signature {self.signature}, {takes}{weights}{guess}"


@dataclasses.dataclass(frozen=True)
class Overrides:
    """The user's options for the plan; parts with an empty value or "auto" are derived from the evidence.

    Attributes:
      labels: {output: feature}; the key "" means the only or the main output.
      task: One of TASKS, or "auto".
      scores: One of SCORES, or "auto".
      signature: The signature to run.
      output: The key of the output to evaluate.
    """

    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    task: str = "auto"
    scores: str = "auto"
    signature: str = ""
    output: str = ""


def reason_key(part: str, output: str, number: int) -> str:
    """Returns the key of a part in `EvaluationPlan.reasons`: "task", and "task of NAME" from the second output on."""
    return f"{part} of {output}" if number else part


def _described(one: OutputPlan, reasons: Mapping[str, str], number: int) -> str:
    def because(what: str, part: str) -> str:
        reason = reasons.get(reason_key(part, one.output, number))
        return f"{what} ({reason})" if reason else what

    classes = f", {one.classes} classes" if one.classes else ""
    against = f" against label {one.label}" if one.label else because(", no label", "label")
    task = because(one.task, "task") if one.task == UNKNOWN and one.label else one.task
    return f"{task}{classes}: {one.output} ({one.scores}){against}"
