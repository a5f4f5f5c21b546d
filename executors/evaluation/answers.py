"""A model's answers and an example's label as the numbers that metrics are computed from.

Metrics want probabilities, class indexes and 0 or 1; models answer with logits, and labels may be one-hot vectors or
-1 and 1.

    scores_in(np.array([[2.0], [-1.0]]), OutputPlan("output_0", BINARY, scores=LOGITS))  # [[0.88], [0.27]]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..errors import InputError, TrainerError
from .plan import (
    ASKED_FOR,
    BINARY,
    LOGITS,
    MARGINS,
    MULTICLASS,
    MULTILABEL,
    PROBABILITIES,
    VALUES,
    EvaluationPlan,
    OutputPlan,
    reason_key,
)

_SMALLEST = 1e-7  # as in Keras: the logarithm of 0 is no number
_TOLERANCE = 1e-3  # that probabilities of half precision may be beyond 0 and 1
_CLASSIFIES = (BINARY, MULTICLASS, MULTILABEL)


class ScoresError(TrainerError):
    """An output's numbers are not what the plan takes them for, so that no example can be judged by them."""


def scores_in(values: np.ndarray, plan: OutputPlan) -> np.ndarray:
    """Returns a batch's answers as probabilities, or as they are for tasks that classify nothing.

    Args:
      values: The output for some examples, of shape [examples, …].
      plan: What is known of the output.

    Returns:
      An array [examples, numbers] of float64.

    Raises:
      ScoresError: When the output does not hold numbers, or is not in the range that it should be in.
    """
    if values.dtype.kind not in "fiub":
        raise ScoresError(f"output {plan.output} holds {values.dtype}, not numbers. --eval-output names another one.")
    scores: np.ndarray = np.asarray(values, np.float64).reshape(len(values), -1)
    if plan.task not in _CLASSIFIES:
        return scores
    if plan.scores in (LOGITS, MARGINS):
        scores = _softmax(scores) if _is_distribution(scores, plan) else _sigmoid(scores)
    elif plan.scores == PROBABILITIES and not are_probabilities(scores):
        raise ScoresError(
            f"output {plan.output} has values from {scores.min():.4g} to {scores.max():.4g}, which are no "
            "probabilities. Give --scores logits if they are logits."
        )
    scores = np.clip(scores, _SMALLEST, 1.0 - _SMALLEST)
    return scores[:, 1:] if plan.task == BINARY and scores.shape[1] == 2 else scores


def are_probabilities(values: np.ndarray) -> bool:
    """Whether all numbers lie between 0 and 1; NaN is let through, as metrics will show it."""
    return not bool(((values < -_TOLERANCE) | (values > 1.0 + _TOLERANCE)).any())


def labels_in(values: np.ndarray, plan: OutputPlan) -> np.ndarray:
    """Returns a batch's labels: a class index for MULTICLASS, 0 or 1 for BINARY and MULTILABEL, else values.

    Args:
      values: The label feature of some examples, of shape [examples, numbers].
      plan: What is known of the output.

    Raises:
      InputError: When the labels are not numbers.
    """
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"label {plan.label} holds {'strings' if values.dtype.kind in 'OSU' else values.dtype}, which cannot be "
            "compared with numbers. Give --label the feature that Transform makes of it."
        )
    labels: np.ndarray = np.asarray(values, np.float64).reshape(len(values), -1)
    if plan.task == MULTICLASS or (plan.task == BINARY and labels.shape[1] == 2):
        is_index = labels.shape[1] == 1
        labels = labels if is_index else labels.argmax(axis=1, keepdims=True).astype(np.float64)
    if plan.task in (BINARY, MULTILABEL) and plan.scores == MARGINS:
        labels = (labels > 0).astype(np.float64)
    return labels


def require_comparable(labels: np.ndarray, scores: np.ndarray, plan: OutputPlan) -> None:
    """Compares the shapes of labels and scores, as `labels_in` and `scores_in` return them.

    Raises:
      InputError: When they cannot be of the same thing; it names both.
    """
    wide = plan.task == MULTICLASS
    fits = labels.shape[1] == 1 and scores.shape[1] > 1 if wide else labels.shape == scores.shape
    if not fits:
        raise InputError(
            f"label {plan.label} has {labels.shape[1]} values in each example and output {plan.output} "
            f"{scores.shape[1]}, which do not go together for the task {plan.task}. Give --label, --eval-output or "
            "--task."
        )
    if wide and len(labels) and not (labels.min() >= 0 and labels.max() < scores.shape[1]):
        raise InputError(
            f"label {plan.label} has the class {int(labels.max() if labels.min() >= 0 else labels.min())}, and output "
            f"{plan.output} has the classes 0 to {scores.shape[1] - 1}. Give --label the feature that the model was "
            "trained with."
        )


def checked_by_values(plan: EvaluationPlan, answers: Mapping[str, np.ndarray]) -> EvaluationPlan:
    """Returns the plan with LOGITS where it has PROBABILITIES for an output whose numbers are none.

    What the user asked for is not changed.

    Args:
      plan: The plan.
      answers: {output: array} for some examples.
    """
    reasons, outputs = dict(plan.reasons), []
    for number, one in enumerate(plan.outputs):
        values = answers[one.output]
        key = reason_key("scores", one.output, number)
        is_wrong = one.task in _CLASSIFIES and one.scores in (PROBABILITIES, VALUES) and reasons.get(key) != ASKED_FOR
        if is_wrong and values.dtype.kind == "f" and not are_probabilities(values):
            one = dataclasses.replace(one, scores=LOGITS)
            reasons[key] = "the answers have values outside 0 to 1"
        outputs.append(one)
    return dataclasses.replace(plan, outputs=tuple(outputs), reasons=reasons)


def _is_distribution(scores: np.ndarray, plan: OutputPlan) -> bool:
    return plan.task == MULTICLASS or (plan.task == BINARY and scores.shape[1] == 2)


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _sigmoid(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        probabilities: np.ndarray = 1.0 / (1.0 + np.exp(-values))
    return probabilities
