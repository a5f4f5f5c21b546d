"""Compares a model's predictions with the labels of a sample of the eval split: plots, largest errors and importance.

    analysis = analyze_errors(Scorer(plan, "model/Format-Serving", ExampleReader(None)), sample, seconds=2)
    read_error_analysis("model_run").outputs[0].errors.rows

TFMA evaluates all examples, but its import alone takes longer than many trainings; this is for the report of any run.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import InputError
from ..inputs.message_text import join_names
from ..runtime.files.json_data import JsonData, read_or_skip
from .feature_text import feature_texts, text_of
from .permutation_importance import Importance, permutation_importance
from .plan import ANALYSIS_FILE, BINARY, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan
from .plots import OutputPlots, plots_of

if TYPE_CHECKING:
    import numpy as np

    from .eval_sample import Sample
    from .evaluated_examples import EvaluatedExamples
    from .inference import Scored, Scorer

    # Returns {feature: text} of an example, by its number and the name of the label, which is left out.
    Texts: TypeAlias = Callable[[int, str], Mapping[str, str]]

_ERRORS = 20  # listed examples with the largest errors
_COLUMNS = 12  # features of them
_COMPUTED = "computed by the module"  # in place of a label's name, after the word "label"


@dataclasses.dataclass(frozen=True)
class LargestErrors(JsonData):
    """The examples with the largest errors of one output, the largest first.

    Attributes:
      columns: "label", "prediction", and "probability of the label" or "error"; then features.
      rows: The values of each example.
    """

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()

    def __post_init__(self) -> None:
        """Checks that each row has a value for each column: in a file, it may not.

        Raises:
          InputError: If it has not.
        """
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InputError(f"a row has not {len(self.columns)} values")


@dataclasses.dataclass(frozen=True)
class OutputAnalysis(JsonData):
    """The analysis of one output: its task, plots, largest errors, and {class index: name} as far as known."""

    task: str
    plots: OutputPlots
    errors: LargestErrors
    class_names: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ErrorAnalysis(JsonData):
    """The result of `analyze_errors`.

    Attributes:
      examples: Number of examples with a label and a prediction.
      sampled: Number of examples in the sample.
      total: Number of examples in the split; those that were read in time if not `is_complete`.
      is_complete: Whether the sample was drawn from the whole split.
      split: The split, "eval" or "test".
      plan_line: The outputs and the labels that were compared, as one line of text.
      outputs: One entry for each output that has a label.
      importance: Importance of the features for the first output; None if it was not measured.
      problem: Why there is no analysis; "" if there is one.
    """

    examples: int = 0
    sampled: int = 0
    total: int = 0
    is_complete: bool = True
    split: str = "eval"
    plan_line: str = ""
    outputs: tuple[OutputAnalysis, ...] = ()
    importance: Importance | None = None
    problem: str = ""


def read_error_analysis(folder: str) -> ErrorAnalysis | None:
    """Reads the analysis in a model run; None if there is none, or, with a warning, if it is not readable."""
    # A metric that is undefined on the sample is NaN.
    return read_or_skip(os.path.join(folder, ANALYSIS_FILE), ErrorAnalysis, "The error analysis", finite=False)


def analyze_errors(
    scorer: Scorer,
    sample: Sample,
    *,
    split: str = "eval",
    seconds: float,
    names: Mapping[str, Mapping[str, str]] | None = None,
) -> ErrorAnalysis:
    """Analyzes a model's errors.

    Args:
      scorer: The model, whose plan compares outputs with labels.
      sample: Examples of the split.
      split: The split.
      seconds: Time limit of the permutation importance.
      names: {output: {class index: name}}, as far as known.

    Raises:
      InputError: If no example has a label and a prediction; the reason is that of the first example.
    """
    from .feature_origins import label_sources
    from .inference import score

    [scored] = score(sample.records, [scorer], skip_batches=True)
    no_inputs = label_sources(scorer.plan, scorer.reader.transform_graph)
    return ErrorAnalysis(
        len(scored.records),
        len(sample.records),
        sample.total,
        sample.is_complete,
        split,
        scorer.plan.line(),
        _output_analyses(
            scored, scorer.plan, names or {}, lambda row, label: feature_texts(scored.records[row], {label, *no_inputs})
        ),
        _importance(scorer, scored, no_inputs, seconds) if seconds > 0 else None,
    )


def analyze_evaluated(plan: EvaluationPlan, examples: EvaluatedExamples) -> ErrorAnalysis:
    """Analyzes the errors of a model on examples that the training process has evaluated; without importance.

    Args:
      plan: The model's plan, whose first output is compared with the labels.
      examples: The examples.

    Raises:
      InputError: If the plan's output is not among the examples' outputs, or does not match the labels.
      ScoresError: If the outputs are no scores of the plan's kind.
    """
    from .inference import Scored
    from .scores import corrected_by_values, labels_in, require_comparable, scores_in

    planned = plan.outputs[0]
    if planned.output not in examples.outputs:
        known = join_names(sorted(examples.outputs))
        raise InputError(f"the training process evaluated no output {planned.output!r}, but {known}")
    plan = dataclasses.replace(plan, outputs=(dataclasses.replace(planned, label=planned.label or _COMPUTED),))
    plan = corrected_by_values(plan, examples.outputs)
    [one] = plan.outputs
    labels, scores = labels_in(examples.labels, one), scores_in(examples.outputs[one.output], one)
    require_comparable(labels, scores, one)

    def texts(row: int, label: str) -> dict[str, str]:
        del label  # the examples' features do not contain it
        return {name: text_of(values[row].ravel().tolist()) for name, values in examples.features.items()}

    count = len(labels)
    outputs = _output_analyses(Scored((), {one.output: labels}, {one.output: scores}), plan, {}, texts)
    return ErrorAnalysis(count, count, count, examples.is_complete, "eval", plan.line(), outputs)


def _output_analyses(
    scored: Scored, plan: EvaluationPlan, names: Mapping[str, Mapping[str, str]], texts: Texts
) -> tuple[OutputAnalysis, ...]:
    several = len(plan.outputs) > 1
    return tuple(
        OutputAnalysis(
            one.task,
            plots_of(scored.labels[one.output], scored.scores[one.output], one, one.output if several else ""),
            _largest_errors(scored, one, names.get(one.output, {}), texts),
            dict(names.get(one.output, {})),
        )
        for one in plan.outputs
        if one.output in scored.labels
    )


def _largest_errors(scored: Scored, planned: OutputPlan, names: Mapping[str, str], texts: Texts) -> LargestErrors:
    import numpy as np

    from .scores import probabilities_in

    labels, scores = scored.labels[planned.output], scored.scores[planned.output]
    if planned.task == REGRESSION and scores.shape[1] == 1:
        errors = (scores - labels).ravel()
        order, label, predicted, size = np.argsort(-np.abs(errors)), labels.ravel(), scores.ravel(), errors
        head = ("label", "prediction", "error")
    elif planned.task in (BINARY, MULTICLASS):
        index: np.ndarray = labels.ravel().astype(int)
        shares = probabilities_in(planned.task, scores)
        size = shares[np.arange(len(index)), index]
        order, label, predicted = np.argsort(size), index, shares.argmax(axis=1)
        order = order[predicted[order] != label[order]]
        head = ("label", "prediction", "probability of the label")
    else:
        return LargestErrors()

    def shown(value: float) -> str | float:
        return float(f"{value:.5g}") if planned.task == REGRESSION else names.get(str(int(value)), str(int(value)))

    chosen = [int(row) for row in order[:_ERRORS]]
    features = [texts(row, planned.label) for row in chosen]
    columns = list(dict.fromkeys(name for found in features for name in found))[:_COLUMNS]
    rows = [
        (
            shown(float(label[row])),
            shown(float(predicted[row])),
            float(f"{size[row]:.4g}"),
            *(found.get(name, "") for name in columns),
        )
        for row, found in zip(chosen, features, strict=True)
    ]
    return LargestErrors((*head, *columns), rows) if rows else LargestErrors()


def _importance(scorer: Scorer, scored: Scored, no_inputs: Sequence[str], seconds: float) -> Importance | None:
    import numpy as np

    from .inference import BATCH

    outputs = scorer.plan.outputs
    first = next(planned for planned in outputs if planned.output in scored.labels)
    labels = scored.labels[first.output]
    metric, is_loss = _metric_of(first, labels)
    if not metric:
        return None

    def measure(shuffled: Sequence[bytes], rows: Sequence[int]) -> float:
        batches = [scorer.reader.features(shuffled[start : start + BATCH]) for start in range(0, len(shuffled), BATCH)]
        scores = np.concatenate([scorer.scores(features)[first.output] for features in batches])
        return _measure(metric, first.task, labels[list(rows)], scores)

    raw_labels = [planned.label for planned in outputs if not planned.label_is_transformed]
    parsed = scorer.parsed_features if not scorer.reader.transform_graph else None
    return permutation_importance(
        measure, scored.records, metric=metric, is_loss=is_loss, features=parsed,
        excluded={*raw_labels, *no_inputs}, seconds=seconds,
    )  # fmt: skip


def _metric_of(planned: OutputPlan, labels: np.ndarray) -> tuple[str, bool]:
    """Returns (metric, whether less is better); "" if none applies."""
    import numpy as np

    if planned.task == BINARY and len(np.unique(labels)) == 2:
        return "AUC", False
    if planned.task in (BINARY, MULTICLASS):
        return "accuracy", False
    return ("mean absolute error", True) if planned.task == REGRESSION else ("", False)


def _measure(metric: str, task: str, labels: np.ndarray, scores: np.ndarray) -> float:
    import numpy as np
    from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score

    from .scores import predictions_of

    if metric == "AUC":
        return float(roc_auc_score(labels.ravel(), scores.ravel())) if len(np.unique(labels)) == 2 else float("nan")
    if metric == "accuracy":
        return float(accuracy_score(labels.ravel().astype(int), predictions_of(task, scores)))
    return float(mean_absolute_error(labels, scores))
