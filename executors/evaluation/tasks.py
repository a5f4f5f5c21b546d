"""Infers the task of an output and the kind of its scores from loss, labels and the op that computes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..saved_models.signatures import ServedOutput
from .evidence import LabelEvidence, OutputEvidence
from .features import Feature
from .label_targets import Value
from .losses import HINGES, TASK_OF_LOSS
from .plan import (
    BINARY,
    LOGITS,
    MARGINS,
    MULTICLASS,
    MULTILABEL,
    PROBABILITIES,
    RANKING,
    REGRESSION,
    UNKNOWN,
    VALUES,
)

_MAX_CLASSES = 20  # integer labels with more distinct values are quantities rather than classes
_PROBABILITY_OPS = ("Sigmoid", "Softmax")
_LINEAR_OPS = ("BiasAdd", "MatMul", "AddV2", "Add", "AddN", "BatchMatMulV2", "LogSoftmax")
_LOGITS_NAME = "logit"
_PROBABILITY_KEYS = ("logistic", "probabilities", "probability", "prob")


@dataclasses.dataclass(frozen=True)
class LabelFacts:
    """Facts about the labels of an output.

    Attributes:
      is_integer: Whether they are integers; None if unknown.
      width: Numbers per example; None if unknown.
      is_binary: Whether all are 0 or 1; None if unknown.
      is_one_hot: Whether they are one-hot vectors; None if unknown.
      distinct: Number of distinct values; 0 if unknown or more than 50.
      has_many_values: Whether they are integers with more than 20 distinct values, or a wider range: too many classes.
      lowest, highest: Minimum and maximum; None if unknown.
    """

    is_integer: bool | None = None
    width: int | None = None
    is_binary: bool | None = None
    is_one_hot: bool | None = None
    distinct: int = 0
    has_many_values: bool = False
    lowest: float | None = None
    highest: float | None = None


def label_facts(y: LabelEvidence | None, feature: Feature | None) -> LabelFacts:
    """Returns facts about labels from the labels in `fit`, or from the label feature if their values are unknown."""
    if y is not None and y.lowest is not None and y.highest is not None:
        whole = all(one == int(one) for one in (*y.values, y.lowest, y.highest))
        many = whole and (len(y.values) > _MAX_CLASSES or (not y.values and y.highest - y.lowest > _MAX_CLASSES))
        is_integer = whole and (bool(y.values) or _is_integer(y.dtype))
        return LabelFacts(is_integer, y.width, y.is_binary, y.is_one_hot, len(y.values), many, y.lowest, y.highest)
    width = y.width if y is not None else feature.width if feature else None
    if feature is None:
        return LabelFacts(_is_integer(y.dtype) if y is not None and _is_integer(y.dtype) else None, width)
    is_integer = feature.dtype == "int64"
    if feature.lowest is None or feature.highest is None:
        return LabelFacts(is_integer, width)
    is_binary = is_integer and feature.lowest >= 0 and feature.highest <= 1
    low, high = feature.lowest, feature.highest
    has_many_values = is_integer and (
        len(feature.values) > _MAX_CLASSES or (not feature.values and feature.highest - feature.lowest > _MAX_CLASSES)
    )
    return LabelFacts(is_integer, width, is_binary, None, len(feature.values), has_many_values, low, high)


def mapped_label_facts(y: LabelEvidence | None, pairs: Sequence[tuple[Value, float]]) -> LabelFacts:
    """Returns facts about labels from the targets that the training converts the values of a feature to."""
    targets = {target for _, target in pairs}
    width = y.width if y is not None else None
    is_integer = all(target == int(target) for target in targets)
    return LabelFacts(
        is_integer, width, targets <= {0, 1}, (width or 1) > 1, len(targets), False, min(targets), max(targets)
    )  # fmt: skip


def task_of(trained: OutputEvidence | None, served: ServedOutput, labels: LabelFacts) -> tuple[str, str]:
    """Returns an output's task, and the reason."""
    loss = trained.loss if trained else ""
    if loss == RANKING:
        return RANKING, "a loss of tensorflow_ranking"
    by_loss = TASK_OF_LOSS.get(loss)
    wide = (served.width or 1) > 1
    if by_loss == BINARY:
        if not wide:
            return BINARY, f"loss {loss}"
        if served.op == "Softmax":
            return MULTICLASS, f"loss {loss} on a softmax of {served.width}"
        if labels.is_one_hot is True and served.op != "Sigmoid":
            return MULTICLASS, f"loss {loss} on one-hot labels"
        return MULTILABEL, f"loss {loss} on {served.width} scores"
    if by_loss == REGRESSION:
        if served.op == "Sigmoid" and not wide and _zeros_and_ones(labels):
            return BINARY, f"loss {loss}, but a sigmoid output and labels of 0 and 1"
        if served.op == "Softmax" and wide and labels.is_one_hot is not False:
            return MULTICLASS, f"loss {loss}, but a softmax output"
        return REGRESSION, f"loss {loss}"
    if by_loss:
        return by_loss, f"loss {loss}"
    is_fitted = trained is not None and trained.label is not None
    if is_fitted and not wide and labels.is_binary and served.op in _LINEAR_OPS:
        return BINARY, "a custom loss on a linear output, with labels of 0 and 1"
    return _task_without_loss(served, labels, wide)


def _zeros_and_ones(labels: LabelFacts) -> bool:
    return labels.is_binary is True or (labels.is_binary is None and labels.is_integer is True)


def _task_without_loss(served: ServedOutput, labels: LabelFacts, wide: bool) -> tuple[str, str]:
    why = "no known loss"
    looks_binary = served.op == "Sigmoid" or _is_called(served, _PROBABILITY_KEYS) or _LOGITS_NAME in served.name
    if wide:
        if served.op == "Softmax" or (served.op != "Sigmoid" and (labels.is_one_hot or _is_index(labels, served))):
            return MULTICLASS, f"{why}; {served.width} {_output_noun(served)}s for one class label"
        if labels.width == served.width and labels.is_binary:
            return MULTILABEL, f"{why}; {served.width} {_output_noun(served)}s for as many labels of 0 and 1"
        if served.op == "Sigmoid" and labels.width in (served.width, None):
            return MULTILABEL, f"{why}; {served.width} sigmoid outputs"
        if labels.is_integer is False and labels.width == served.width:
            return REGRESSION, f"{why}; labels are floats"
        return UNKNOWN, f"{why}, and {served.width} {_output_noun(served)}s match no task"
    if served.op == "Sigmoid" and labels.highest is not None and labels.highest > 1:
        return UNKNOWN, f"{why}; one sigmoid output, but labels up to {labels.highest:g}"
    if looks_binary and _zeros_and_ones(labels) and not labels.has_many_values:
        return BINARY, f"{why}; one {_output_noun(served)} for labels of 0 and 1"
    if labels.is_binary and served.op in _LINEAR_OPS:
        return UNKNOWN, f"{why}; a linear output for labels of 0 and 1 may be a logit or a value: set --task"
    if served.op == "Sigmoid" and (labels.is_integer is None or labels.highest is not None):
        return BINARY, f"{why}; one sigmoid output"
    if labels.is_integer is False:
        return REGRESSION, f"{why}; labels are floats"
    if labels.is_integer and (labels.has_many_values or served.op in _LINEAR_OPS):
        return REGRESSION, f"{why}; integer labels with one {_output_noun(served)}"
    return UNKNOWN, f"{why}, and neither labels nor output determine the task"


def scores_of(task: str, trained: OutputEvidence | None, served: ServedOutput) -> tuple[str, str]:
    """Returns the kind of an output's numbers, one of `plan.SCORES`, and the reason."""
    if served.op in _PROBABILITY_OPS and task != REGRESSION:
        return PROBABILITIES, f"computed by {served.op}"
    if task in (REGRESSION, RANKING):
        return VALUES, f"the task is {task}"
    loss = trained.loss if trained else ""
    if loss in HINGES:
        return MARGINS, f"loss {loss}"
    if trained and trained.from_logits is not None and loss in TASK_OF_LOSS and TASK_OF_LOSS[loss] != REGRESSION:
        if trained.from_logits:
            return LOGITS, "the loss takes logits"
        return PROBABILITIES, "the loss takes probabilities"
    if task == UNKNOWN:
        return VALUES, "the task is unknown"
    if _LOGITS_NAME in served.name or served.op in _LINEAR_OPS:
        return LOGITS, f"computed by {served.op}" if served.op else f"the output is named {served.name}"
    return PROBABILITIES, "no indication of logits"


def _is_called(served: ServedOutput, names: tuple[str, ...]) -> bool:
    return served.name in names


def _is_index(labels: LabelFacts, served: ServedOutput) -> bool:
    return labels.width == 1 and labels.is_integer is True and served.width is not None


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "bool"))


def _output_noun(served: ServedOutput) -> str:
    return f"{served.op.lower()} output" if served.op in _PROBABILITY_OPS else "output"
