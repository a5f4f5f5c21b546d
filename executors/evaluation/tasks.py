"""Infers the task of an output and the kind of its scores from loss, labels and the op that computes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..saved_models.signatures import ServedOutput
from .evidence import LabelEvidence, OutputEvidence
from .features import Feature
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
      has_many_values: Whether they are integers with more than 20 distinct values, or a wider range: too many classes.
      highest: Maximum; None if unknown.
    """

    is_integer: bool | None = None
    width: int | None = None
    is_binary: bool | None = None
    is_one_hot: bool | None = None
    has_many_values: bool = False
    highest: float | None = None


def label_facts(y: LabelEvidence | None, feature: Feature | None) -> LabelFacts:
    """Returns facts about labels from the labels in `fit`, or from the label feature if their values are unknown."""
    if y is not None and y.lowest is not None and y.highest is not None:
        is_whole = all(value == int(value) for value in (*y.values, y.lowest, y.highest))
        is_integer = is_whole and (bool(y.values) or _is_integer(y.dtype))
        return LabelFacts(is_integer, y.width, y.is_binary, y.is_one_hot, is_whole and _are_many(y), y.highest)
    width = y.width if y is not None else feature.width if feature else None
    if feature is None:
        return LabelFacts(True if y is not None and _is_integer(y.dtype) else None, width)
    is_integer = feature.dtype == "int64"
    if feature.lowest is None or feature.highest is None:
        return LabelFacts(is_integer, width)
    is_binary = is_integer and feature.lowest >= 0 and feature.highest <= 1
    return LabelFacts(is_integer, width, is_binary, None, is_integer and _are_many(feature), feature.highest)


def _are_many(known: LabelEvidence | Feature) -> bool:
    """Whether whole numbers have more values than there are classes; without the values, their range counts."""
    if known.values or known.lowest is None or known.highest is None:
        return len(known.values) > _MAX_CLASSES
    return known.highest - known.lowest > _MAX_CLASSES


def mapped_label_facts(y: LabelEvidence | None, pairs: Sequence[tuple[str | int, float]]) -> LabelFacts:
    """Returns facts about labels from the targets that the training converts the values of a feature to."""
    targets = {target for _, target in pairs}
    width = y.width if y is not None else None
    is_integer = all(target == int(target) for target in targets)
    return LabelFacts(is_integer, width, targets <= {0, 1}, (width or 1) > 1, highest=max(targets))


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What the rules look at: the loss, the output of the SavedModel and the labels."""

    loss: str
    served: ServedOutput
    labels: LabelFacts
    is_fitted: bool

    @property
    def op(self) -> str:
        return self.served.op

    @property
    def is_wide(self) -> bool:
        return (self.served.width or 1) > 1

    @property
    def noun(self) -> str:
        return f"{self.op.lower()} output" if self.op in _PROBABILITY_OPS else "output"

    @property
    def has_binary_labels(self) -> bool:
        """Whether the labels are 0 and 1, or integers that may be."""
        return self.labels.is_binary is True or (self.labels.is_binary is None and self.labels.is_integer is True)

    @property
    def has_class_labels(self) -> bool:
        """Whether each label is one class: one-hot, or an integer for several scores."""
        is_index = self.labels.width == 1 and self.labels.is_integer is True and self.served.width is not None
        return self.labels.is_one_hot is True or is_index

    @property
    def looks_binary(self) -> bool:
        """Whether the output's op or name is that of a probability or a logit."""
        return self.op == "Sigmoid" or self.served.name in _PROBABILITY_KEYS or _LOGITS_NAME in self.served.name


# Condition, task, and reason. The first rule whose condition holds decides.
_Rules: TypeAlias = "tuple[tuple[Callable[[_Facts], bool], str, str], ...]"

_RULES_OF_LOSS: dict[str, _Rules] = {
    BINARY: (
        (lambda f: not f.is_wide, BINARY, "loss {0.loss}"),
        (lambda f: f.op == "Softmax", MULTICLASS, "loss {0.loss} on a softmax of {0.served.width}"),
        (lambda f: f.labels.is_one_hot is True and f.op != "Sigmoid", MULTICLASS, "loss {0.loss} on one-hot labels"),
        (lambda f: True, MULTILABEL, "loss {0.loss} on {0.served.width} scores"),
    ),
    REGRESSION: (
        (
            lambda f: f.op == "Sigmoid" and not f.is_wide and f.has_binary_labels,
            BINARY,
            "loss {0.loss}, but a sigmoid output and labels of 0 and 1",
        ),
        (
            lambda f: f.op == "Softmax" and f.is_wide and f.labels.is_one_hot is not False,
            MULTICLASS,
            "loss {0.loss}, but a softmax output",
        ),
    ),
}
_WIDE_RULES: _Rules = (
    (
        lambda f: f.op == "Softmax" or (f.op != "Sigmoid" and f.has_class_labels),
        MULTICLASS,
        "no known loss; {0.served.width} {0.noun}s for one class label",
    ),
    (
        lambda f: f.labels.width == f.served.width and f.labels.is_binary is True,
        MULTILABEL,
        "no known loss; {0.served.width} {0.noun}s for as many labels of 0 and 1",
    ),
    (
        lambda f: f.op == "Sigmoid" and f.labels.width in (f.served.width, None),
        MULTILABEL,
        "no known loss; {0.served.width} sigmoid outputs",
    ),
    (
        lambda f: f.labels.is_integer is False and f.labels.width == f.served.width,
        REGRESSION,
        "no known loss; labels are floats",
    ),
    (lambda f: True, UNKNOWN, "no known loss, and {0.served.width} {0.noun}s match no task"),
)
_SINGLE_RULES: _Rules = (
    (
        lambda f: f.is_fitted and f.labels.is_binary is True and f.op in _LINEAR_OPS,
        BINARY,
        "a custom loss on a linear output, with labels of 0 and 1",
    ),
    (
        lambda f: f.op == "Sigmoid" and f.labels.highest is not None and f.labels.highest > 1,
        UNKNOWN,
        "no known loss; one sigmoid output, but labels up to {0.labels.highest:g}",
    ),
    (
        lambda f: f.looks_binary and f.has_binary_labels and not f.labels.has_many_values,
        BINARY,
        "no known loss; one {0.noun} for labels of 0 and 1",
    ),
    (
        lambda f: f.labels.is_binary is True and f.op in _LINEAR_OPS,
        UNKNOWN,
        "no known loss; a linear output for labels of 0 and 1 may be a logit or a value: set --task",
    ),
    (
        lambda f: f.op == "Sigmoid" and (f.labels.is_integer is None or f.labels.highest is not None),
        BINARY,
        "no known loss; one sigmoid output",
    ),
    (lambda f: f.labels.is_integer is False, REGRESSION, "no known loss; labels are floats"),
    (
        lambda f: f.labels.is_integer is True and (f.labels.has_many_values or f.op in _LINEAR_OPS),
        REGRESSION,
        "no known loss; integer labels with one {0.noun}",
    ),
    (lambda f: True, UNKNOWN, "no known loss, and neither labels nor output determine the task"),
)


def task_of(trained: OutputEvidence | None, served: ServedOutput, labels: LabelFacts) -> tuple[str, str]:
    """Returns an output's task, and the reason."""
    loss = trained.loss if trained else ""
    if loss == RANKING:
        return RANKING, "a loss of tensorflow_ranking"
    facts = _Facts(loss, served, labels, is_fitted=trained is not None and trained.label is not None)
    if task := TASK_OF_LOSS.get(loss):
        rules = (*_RULES_OF_LOSS.get(task, ()), (lambda f: True, task, "loss {0.loss}"))
    else:
        rules = _WIDE_RULES if facts.is_wide else _SINGLE_RULES
    return next((task, reason.format(facts)) for applies, task, reason in rules if applies(facts))


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


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "bool"))
