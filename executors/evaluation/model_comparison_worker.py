"""Subprocess that compares the predictions of two models; see `model_comparison.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from .class_names import class_names
from .eval_sample import sample_of
from .feature_text import feature_texts
from .inference import ExampleReader, Scored, Scorer, score
from .model_comparison import (
    ChangedExample,
    ComparedModel,
    ModelComparison,
    ModelComparisonRequest,
    OutputComparison,
)
from .paired_metrics import paired_metrics
from .plan import BINARY, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan
from .scores import predictions_of, probabilities_in
from .unread_label import with_unread_label

_LISTED, _FEATURES = 10, 12
_TASKS = (BINARY, MULTICLASS, REGRESSION)


def execute(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Entry point of the subprocess: returns a `ModelComparison` as JSON values."""
    request = ModelComparisonRequest.from_json(state)
    sample = sample_of(request.files, request.seconds, request.payload)
    if not sample.records:
        raise InputError("the eval split has no examples")
    first, second = (
        _scorer(name, model, sample.records) for name, model in zip(("first", "second"), request.models, strict=True)
    )
    pairs = _pairs(first, second)
    before, after = score(sample.records, [first, second])
    outputs = tuple(
        _output(first.plan.outputs[one], second.plan.outputs[other], before, after, second) for one, other in pairs
    )
    return ModelComparison(len(after.records), len(sample.records), sample.total, sample.is_complete, outputs).to_json()


def _scorer(name: str, compared: ComparedModel, records: Sequence[bytes]) -> Scorer:
    plan, graph = EvaluationPlan.from_json(compared.plan), compared.transform_graph
    try:
        scorer = Scorer(plan, compared.model, ExampleReader(graph), name=f"the {name} run's model")
        if not graph:
            scorer.plan = with_unread_label(plan, records, scorer.parsed_features)
    except InputError as error:
        raise InputError(f"the {name} run: {error}") from error
    return scorer


def _pairs(first: Scorer, second: Scorer) -> list[tuple[int, int]]:
    """Returns the positions of the outputs of both models for the same label and task; drops the labels of others.

    Raises:
      InputError: If there are none.
    """
    keys = [[(planned.label, planned.task) for planned in scorer.plan.outputs] for scorer in (first, second)]
    shared = [key for key in keys[1] if all(key) and key[1] in _TASKS and key in keys[0]]
    if not shared:
        raise InputError(
            f"the models predict different labels. First: {first.plan.line()}. Second: {second.plan.line()}"
        )
    for scorer in (first, second):
        outputs = [
            planned if (planned.label, planned.task) in shared else dataclasses.replace(planned, label="")
            for planned in scorer.plan.outputs
        ]
        scorer.plan = dataclasses.replace(scorer.plan, outputs=tuple(outputs))
    return [(keys[0].index(key), position) for position, key in enumerate(keys[1]) if key in shared]


def _output(
    before_plan: OutputPlan, plan: OutputPlan, first: Scored, second: Scored, scorer: Scorer
) -> OutputComparison:
    before, after, labels = first.scores[before_plan.output], second.scores[plan.output], second.labels[plan.output]
    if not np.array_equal(first.labels[before_plan.output], labels):
        raise InputError(f"the runs encode label {plan.label} differently, so their classes cannot be compared")
    if before.shape != after.shape:
        raise InputError(
            f"the models predict {before.shape[1]} and {after.shape[1]} numbers for label {plan.label}, so their "
            "predictions cannot be compared"
        )
    task, label = plan.task, labels.ravel()
    predicted = [predictions_of(task, scores) for scores in (before, after)]
    errors = [abs(values - label) if task == REGRESSION else values != label for values in predicted]
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
        _changes(plan, [second.records[row] for row in rows], [values[rows] for values in (label, *predicted)], scorer),
    )


def _changes(
    plan: OutputPlan, records: Sequence[bytes], values: Sequence[np.ndarray], scorer: Scorer
) -> tuple[ChangedExample, ...]:
    """Returns the examples with their labels and both predictions, which are the rows of `values`."""
    if not records:
        return ()
    named = dataclasses.replace(scorer.plan, outputs=(plan,))
    features = scorer.reader.features(records)
    names = class_names(features, named, scorer.reader.transform_graph).get(plan.output, {})

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
