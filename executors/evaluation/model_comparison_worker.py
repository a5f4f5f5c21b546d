"""Subprocess that compares the predictions of two models; see `run_model_comparison.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from .class_names import class_names
from .eval_sample import sample_of
from .feature_text import feature_texts
from .inference import ExampleReader, PlannedModel, bisected, labels_of, require_all_comparable
from .model_comparison import ChangedExample, ComparedModel, ModelComparison, OutputComparison
from .paired_metrics import paired_metrics, predictions_of, probabilities_in
from .plan import BINARY, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan
from .run_model_comparison import ModelComparisonRequest
from .unread_label import with_unread_label

_BATCH = 512
_LISTED, _FEATURES = 10, 12
_TASKS = (BINARY, MULTICLASS, REGRESSION)


def execute(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Entry point of the subprocess: returns a `ModelComparison` as JSON values."""
    request = ModelComparisonRequest.from_json(state)
    sample = sample_of(request.files, request.seconds)
    if not sample.records:
        raise InputError("the eval split has no examples")
    names = ("first", "second")
    sides = [_Side(name, model, sample.records) for name, model in zip(names, request.models, strict=True)]
    pairs = _pairs(*sides)
    records, labels, scores = _compared(sides, sample.records)
    outputs = tuple(
        _output(after, labels[after.output], scores[0][before.output], scores[1][after.output], records, sides[1])
        for before, after in pairs
    )
    return ModelComparison(len(records), len(sample.records), sample.total, sample.is_complete, outputs).to_json()


class _Side:
    """One of the two models, with its reader of examples.

    Attributes:
      model: The model; its plan has a label.
      reader: Decodes and transforms examples.
      graph: The Transform graph's folder, or None.
    """

    def __init__(self, name: str, compared: ComparedModel, records: Sequence[bytes]) -> None:
        self._name, self.graph = name, compared.transform_graph
        self._is_checked = False
        self.reader = ExampleReader(self.graph)
        plan = EvaluationPlan.from_json(compared.plan)
        try:
            self.model = PlannedModel(plan, compared.model)
            if not self.graph:
                self.model.plan = with_unread_label(plan, records, self.model.parsed_features)
        except InputError as error:
            raise InputError(f"the {name} run: {error}") from error

    @property
    def outputs(self) -> Sequence[OutputPlan]:
        """The outputs that are compared with labels."""
        return [one for one in self.model.plan.outputs if one.label and one.task in _TASKS]

    def ask(self, records: Sequence[bytes]) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]:
        """Returns labels and scores: {output: array [examples, numbers]}.

        Raises:
          InputError: If an example has no label, or the model fails on it.
        """
        try:
            features = self.reader.features(records)
            if not self._is_checked:
                self.model.check_scores(features, self.reader)
                self._is_checked = True
            labels, scores = labels_of(features, self.outputs), self.model.scores(features, self.reader)
            require_all_comparable(labels, scores, self.model.plan)
        except InputError as error:
            raise InputError(f"the {self._name} run's model: {error}") from error
        return labels, scores


def _pairs(first: _Side, second: _Side) -> list[tuple[OutputPlan, OutputPlan]]:
    """Returns the outputs of both models for the same label and task.

    Raises:
      InputError: If there are none.
    """
    known = {(one.label, one.task): one for one in first.outputs}
    pairs = [(known[key], one) for one in second.outputs if (key := (one.label, one.task)) in known]
    if not pairs:
        lines = [side.model.plan.line() for side in (first, second)]
        raise InputError(f"the models predict different labels. First: {lines[0]}. Second: {lines[1]}")
    return pairs


def _compared(
    sides: Sequence[_Side], records: Sequence[bytes]
) -> tuple[list[bytes], dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """Returns the examples with a label and predictions of both models, the labels, and the scores of each model.

    Raises:
      InputError: If there are none in the first batch, or the runs encode labels differently.
    """
    parts: list[list[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]]] = []
    skipped: list[InputError] = []

    def ask(part: Sequence[bytes]) -> list[bytes]:
        parts.append([side.ask(part) for side in sides])
        return list(part)

    kept: list[bytes] = []
    for first in range(0, len(records), _BATCH):
        kept += bisected(records[first : first + _BATCH], ask, skipped.append)
        if not kept:
            raise skipped[0]
    for before, after in _pairs(*sides):
        if not all(np.array_equal(one[0][before.output], other[0][after.output]) for one, other in parts):
            raise InputError(f"the runs encode label {after.label} differently, so their classes cannot be compared")
    scores = [
        {one.output: np.concatenate([part[number][1][one.output] for part in parts]) for one in side.outputs}
        for number, side in enumerate(sides)
    ]
    labels = {one.output: np.concatenate([part[1][0][one.output] for part in parts]) for one in sides[1].outputs}
    return kept, labels, scores


def _output(
    plan: OutputPlan, labels: np.ndarray, before: np.ndarray, after: np.ndarray, records: Sequence[bytes], side: _Side
) -> OutputComparison:
    if before.shape != after.shape:
        raise InputError(
            f"the models predict {before.shape[1]} and {after.shape[1]} numbers for label {plan.label}, so their "
            "predictions cannot be compared"
        )
    task, label = plan.task, labels.ravel()
    predicted = [predictions_of(task, scores) for scores in (before, after)]
    errors = [abs(one - label) if task == REGRESSION else one != label for one in predicted]
    changed = np.flatnonzero(predicted[0] != predicted[1])
    moved = abs(probabilities_in(task, after) - probabilities_in(task, before)).max(axis=1)
    rows = changed[np.argsort(-moved[changed], kind="stable")][:_LISTED]
    return OutputComparison(
        plan.label,
        task,
        tuple(paired_metrics(task, labels, before, after)),
        len(changed),
        int((errors[1] < errors[0]).sum()),
        int((errors[1] > errors[0]).sum()),
        _changes(plan, [records[row] for row in rows], [one[rows] for one in (label, *predicted)], side),
    )


def _changes(
    plan: OutputPlan, records: Sequence[bytes], values: Sequence[np.ndarray], side: _Side
) -> tuple[ChangedExample, ...]:
    """Returns the examples with their labels and both predictions, which are the rows of `values`."""
    if not records:
        return ()
    named = dataclasses.replace(side.model.plan, outputs=(plan,))
    names = class_names(side.reader.features(records), named, side.graph).get(plan.output, {})

    def shown(value: float) -> str:
        return f"{value:.5g}" if plan.task == REGRESSION else names.get(str(int(value)), str(int(value)))

    return tuple(
        ChangedExample(shown(label), shown(before), shown(after), _features(record, plan.label))
        for label, before, after, record in zip(*values, records, strict=True)
    )


def _features(record: bytes, label: str) -> dict[str, str]:
    """Returns the texts of the first 12 features that have a value."""
    found = {name: text for name, text in feature_texts(record, (label,)).items() if text}
    return dict(list(found.items())[:_FEATURES])
