"""Compares a model's predictions with the labels of a sample of the eval split: plots, largest errors and importance.

    analysis = analyze_errors(PlannedModel(plan, "model/Format-Serving"), ExampleReader(None), sample, seconds=2)
    read_error_analysis("model_run").outputs[0].errors.rows

TFMA evaluates all examples, but its import alone takes longer than many trainings; this is for the report of any run.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..inputs.message_text import join_names
from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData, read_or_skip
from .feature_text import feature_texts, text_of
from .permutation_importance import Importance, permutation_importance
from .plan import ANALYSIS_FILE, BINARY, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan
from .plots import OutputPlots, plots_of

if TYPE_CHECKING:
    import numpy as np

    from .eval_sample import Sample
    from .evaluated_examples import EvaluatedExamples
    from .inference import ExampleReader, Features, PlannedModel

_BATCH = 512
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

    def write(self, folder: str) -> None:
        """Writes the analysis into a folder, as `run_error_analysis.write_error_analysis` does."""
        file_io.write_text(os.path.join(folder, ANALYSIS_FILE), json.dumps(self.to_json()) + "\n")


def read_error_analysis(folder: str) -> ErrorAnalysis | None:
    """Reads the analysis in a model run; None if there is none, or, with a warning, if it is odd."""
    # A metric that is undefined on the sample is NaN.
    return read_or_skip(os.path.join(folder, ANALYSIS_FILE), ErrorAnalysis, "The error analysis", finite=False)


def analyze_errors(
    model: PlannedModel,
    reader: ExampleReader,
    sample: Sample,
    *,
    split: str = "eval",
    seconds: float,
    label_sources: Sequence[str] = (),
    names: Mapping[str, Mapping[str, str]] | None = None,
) -> ErrorAnalysis:
    """Analyzes a model's errors.

    Args:
      model: The model, whose plan compares outputs with labels.
      reader: Decodes and transforms examples.
      sample: Examples of the split.
      split: The split.
      seconds: Time limit of the permutation importance.
      label_sources: Raw features that labels are computed from, which are no inputs of the model.
      names: {output: {class index: name}}, as far as known.

    Raises:
      InputError: If no example has a label and a prediction; the reason is that of the first example.
    """
    records, compared = _compare(model, reader, sample.records, label_sources)
    importance = _importance(model, reader, records, compared, label_sources, seconds) if seconds > 0 else None
    return ErrorAnalysis(
        len(records),
        len(sample.records),
        sample.total,
        sample.is_complete,
        split,
        model.plan.line(),
        _output_analyses(compared, model.plan, names or {}),
        importance,
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

    compared = _Compared({one.output: labels}, {one.output: scores}, texts)
    count = len(labels)
    outputs = _output_analyses(compared, plan, {})
    return ErrorAnalysis(count, count, count, examples.is_complete, "eval", plan.line(), outputs)


@dataclasses.dataclass(frozen=True)
class _Compared:
    """Examples with their labels and scores.

    Attributes:
      labels, scores: {output: array [examples, numbers]}.
      texts: Returns {feature: text} of an example, by its number and the name of the label, which is left out.
    """

    labels: Mapping[str, np.ndarray]
    scores: Mapping[str, np.ndarray]
    texts: Callable[[int, str], Mapping[str, str]]


def _output_analyses(
    compared: _Compared, plan: EvaluationPlan, names: Mapping[str, Mapping[str, str]]
) -> tuple[OutputAnalysis, ...]:
    several = len(plan.outputs) > 1
    return tuple(
        OutputAnalysis(
            one.task,
            plots_of(compared.labels[one.output], compared.scores[one.output], one, one.output if several else ""),
            _largest_errors(compared, one, names.get(one.output, {})),
            dict(names.get(one.output, {})),
        )
        for one in plan.outputs
        if one.output in compared.labels
    )


def _compare(
    model: PlannedModel, reader: ExampleReader, records: Sequence[bytes], label_sources: Sequence[str]
) -> tuple[list[bytes], _Compared]:
    """Returns the records that have a label and a prediction, and their comparison."""
    import numpy as np

    from .inference import bisected, labels_of, require_all_comparable

    skipped: list[Exception] = []
    parts: list[tuple[Features, Mapping[str, np.ndarray], Mapping[str, np.ndarray]]] = []

    def ask(part: Sequence[bytes]) -> list[bytes]:
        features = reader.features(part)
        if not parts:
            model.check_scores(features, reader)
        labels, scores = labels_of(features, model.plan.outputs), model.scores(features, reader)
        require_all_comparable(labels, scores, model.plan)
        parts.append((features, labels, scores))
        return list(part)

    kept: list[bytes] = []
    for first in range(0, len(records), _BATCH):
        kept += bisected(records[first : first + _BATCH], ask, skipped.append)
    if not kept:
        raise skipped[0]
    labeled = parts[0][1]
    compared = _Compared(
        {name: np.concatenate([labels[name] for _, labels, _ in parts]) for name in labeled},
        {name: np.concatenate([scores[name] for _, _, scores in parts]) for name in labeled},
        lambda row, label: feature_texts(kept[row], excluded={label, *label_sources}),
    )
    return kept, compared


def _largest_errors(compared: _Compared, one: OutputPlan, names: Mapping[str, str]) -> LargestErrors:
    import numpy as np

    labels, scores = compared.labels[one.output], compared.scores[one.output]
    if one.task == REGRESSION and scores.shape[1] == 1:
        errors = (scores - labels).ravel()
        order, label, predicted, size = np.argsort(-np.abs(errors)), labels.ravel(), scores.ravel(), errors
        head = ("label", "prediction", "error")
    elif one.task in (BINARY, MULTICLASS):
        index: np.ndarray = labels.ravel().astype(int)
        shares = scores if one.task == MULTICLASS else np.hstack([1.0 - scores, scores])
        size = shares[np.arange(len(index)), index]
        order, label, predicted = np.argsort(size), index, shares.argmax(axis=1)
        order = order[predicted[order] != label[order]]
        head = ("label", "prediction", "probability of the label")
    else:
        return LargestErrors()

    def shown(value: float) -> str | float:
        return float(f"{value:.5g}") if one.task == REGRESSION else names.get(str(int(value)), str(int(value)))

    chosen = [int(row) for row in order[:_ERRORS]]
    features = [compared.texts(row, one.label) for row in chosen]
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


def _importance(
    model: PlannedModel,
    reader: ExampleReader,
    records: Sequence[bytes],
    compared: _Compared,
    label_sources: Sequence[str],
    seconds: float,
) -> Importance | None:
    import numpy as np

    one = next(one for one in model.plan.outputs if one.output in compared.labels)
    metric, is_loss = _metric_of(one, compared.labels[one.output])
    if not metric:
        return None

    def score(shuffled: Sequence[bytes], rows: Sequence[int]) -> float:
        parts = [
            model.scores(reader.features(shuffled[first : first + _BATCH]), reader)[one.output]
            for first in range(0, len(shuffled), _BATCH)
        ]
        return _measure(metric, compared.labels[one.output][list(rows)], np.concatenate(parts))

    labels = {other.label for other in model.plan.outputs if not other.label_is_transformed}
    parsed = model.parsed_features if not reader.transforms else None
    return permutation_importance(
        score, records, metric=metric, is_loss=is_loss, features=parsed,
        excluded={*labels, *label_sources}, seconds=seconds,
    )  # fmt: skip


def _metric_of(one: OutputPlan, labels: np.ndarray) -> tuple[str, bool]:
    """Returns (metric, whether less is better); "" if none applies."""
    import numpy as np

    if one.task == BINARY and len(np.unique(labels)) == 2:
        return "AUC", False
    if one.task in (BINARY, MULTICLASS):
        return "accuracy", False
    return ("mean absolute error", True) if one.task == REGRESSION else ("", False)


def _measure(metric: str, labels: np.ndarray, scores: np.ndarray) -> float:
    import numpy as np
    from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score

    if metric == "AUC":
        return float(roc_auc_score(labels.ravel(), scores.ravel())) if len(np.unique(labels)) == 2 else float("nan")
    if metric == "accuracy":
        predicted = scores.argmax(axis=1) if scores.shape[1] > 1 else scores.ravel() >= 0.5
        return float(accuracy_score(labels.ravel().astype(int), predicted.astype(int)))
    return float(mean_absolute_error(labels, scores))
