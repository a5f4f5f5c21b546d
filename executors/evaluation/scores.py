"""Converts a model's outputs and labels to the numbers that metrics are computed from.

Metrics need probabilities, class indices, and labels of 0 and 1; models may return logits, and labels may be one-hot
vectors, or -1 and 1.

    scores_in(np.array([[2.0], [-1.0]]), OutputPlan("output_0", BINARY, scores=LOGITS))  # [[0.88], [0.27]]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..errors import InputError, TrainerError
from ..inputs.message_text import join_names
from .label_scale import outputs_in_units
from .plan import (
    BINARY,
    LOGITS,
    MARGINS,
    MULTICLASS,
    MULTILABEL,
    PROBABILITIES,
    REGRESSION,
    SET_BY_OPTION,
    VALUES,
    EvaluationPlan,
    OutputPlan,
    reason_key,
)

SMALLEST_PROBABILITY = 1e-7  # Keras's epsilon: avoids the logarithm of 0
_LARGEST_LOGIT = 17.0  # its probability is closer to 1 than any loss distinguishes
_LOG_OF_ALL = 90.0  # the logarithm of the largest float32
_TOLERANCE = 1e-3  # rounding error by which float16 probabilities may be outside 0 to 1
_CLASSIFIES = (BINARY, MULTICLASS, MULTILABEL)


class ScoresError(TrainerError):
    """An output's values contradict the plan's kind of scores, so that no example can be evaluated."""


def scores_in(values: np.ndarray, plan: OutputPlan) -> np.ndarray:
    """Returns an output as probabilities for classification tasks, unchanged for others.

    Args:
      values: The output for some examples, of shape [examples, …].
      plan: The output's plan.

    Returns:
      A float64 array [examples, numbers]. Probabilities keep the order of the outputs, also where they are almost 0 or
      1, because AUC compares ranks; of two outputs of a BINARY task, only the second is returned.

    Raises:
      ScoresError: If the output is not numeric or NaN, or planned PROBABILITIES are outside 0 to 1.
    """
    if values.dtype.kind not in "fiub":
        raise ScoresError(
            f"output {plan.output} has dtype {values.dtype}, which is not numeric. Select another with --eval-output."
        )
    scores: np.ndarray = np.asarray(values, np.float64).reshape(len(values), -1)
    if plan.task in (*_CLASSIFIES, REGRESSION) and (nan := int(np.isnan(scores).any(axis=1).sum())):
        raise ScoresError(
            f"output {plan.output} is NaN for {nan} of {len(scores)} examples. Look for NaN in the features, and for "
            "operations such as log(0) in the model."
        )
    if plan.task not in _CLASSIFIES:
        return scores
    if plan.scores in (LOGITS, MARGINS):
        if plan.task == BINARY and scores.shape[1] == 2:
            return _sigmoid(scores[:, 1:] - scores[:, :1])
        scores = _softmax(scores) if plan.task == MULTICLASS else _sigmoid(scores)
    elif plan.scores == PROBABILITIES and not are_probabilities(scores):
        raise ScoresError(
            f"output {plan.output} has values from {scores.min():.4g} to {scores.max():.4g}, which are not "
            "probabilities. Set --scores logits if they are logits."
        )
    scores = np.clip(scores, 0.0, 1.0)
    return scores[:, 1:] if plan.task == BINARY and scores.shape[1] == 2 else scores


def are_probabilities(values: np.ndarray) -> bool:
    """Whether all numbers are between 0 and 1, with a tolerance of 0.001. Ignores NaN."""
    return not bool(((values < -_TOLERANCE) | (values > 1.0 + _TOLERANCE)).any())


def targets_in(values: np.ndarray, plan: OutputPlan) -> np.ndarray:
    """Returns the model's targets for values of a label that the module converts itself; others unchanged.

    Raises:
      InputError: If the training was not seen to convert a value, or an example has several.
    """
    if not plan.label_values:
        return values
    if values.shape[1] != 1:
        raise InputError(
            f"label {plan.label} has {values.shape[1]} values per example; the training converts single ones."
        )
    targets = dict(plan.label_values)
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values[:, 0].tolist()]
    if (unknown := next((text for text in texts if text not in targets), None)) is not None:
        raise InputError(
            f"label {plan.label} has the value {unknown!r}, which was not among the first 10,000 rows of the training "
            "data, so that its target is unknown."
        )
    found: np.ndarray = np.array([[targets[text]] for text in texts])
    return found


def labels_in(values: np.ndarray, plan: OutputPlan) -> np.ndarray:
    """Returns labels as float64: class indices for MULTICLASS, 0 or 1 for BINARY and MULTILABEL, else unchanged.

    Args:
      values: The label feature of some examples, of shape [examples, numbers].
      plan: The output's plan.

    Raises:
      InputError: If the labels are not numeric.
    """
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"label {plan.label} has {'string' if values.dtype.kind in 'OSU' else values.dtype} values, which cannot "
            "be compared with numbers. Set --label to the feature that Transform computes from it."
        )
    labels: np.ndarray = np.asarray(values, np.float64).reshape(len(values), -1)
    if plan.task == MULTICLASS or (plan.task == BINARY and labels.shape[1] == 2):
        is_index = labels.shape[1] == 1
        labels = labels if is_index else labels.argmax(axis=1, keepdims=True).astype(np.float64)
    if plan.task in (BINARY, MULTILABEL) and plan.scores == MARGINS:
        labels = (labels > 0).astype(np.float64)
    return labels


def predictions_of(task: str, scores: np.ndarray) -> np.ndarray:
    """Returns the predicted class of each example, or the predicted value for REGRESSION."""
    if task == REGRESSION:
        return scores.ravel()
    predicted: np.ndarray = probabilities_in(task, scores).argmax(axis=1)
    return predicted


def probabilities_in(task: str, scores: np.ndarray) -> np.ndarray:
    """Returns the probabilities of all classes, also of the class 0 of a BINARY task."""
    return np.hstack([1.0 - scores, scores]) if task == BINARY else scores


def require_comparable(labels: np.ndarray, scores: np.ndarray, plan: OutputPlan) -> None:
    """Checks that labels from `labels_in` and scores from `scores_in` match.

    Raises:
      InputError: If their shapes do not match, or a class index is out of range; names label and output.
    """
    wide = plan.task == MULTICLASS
    fits = labels.shape[1] == 1 and scores.shape[1] > 1 if wide else labels.shape == scores.shape
    if not fits:
        raise InputError(
            f"label {plan.label} has {labels.shape[1]} values per example and output {plan.output} has "
            f"{scores.shape[1]}, which does not match task {plan.task}. Set --label, --eval-output or --task."
        )
    if wide and len(labels) and not (labels.min() >= 0 and labels.max() < scores.shape[1]):
        raise InputError(
            f"label {plan.label} has class {int(labels.max() if labels.min() >= 0 else labels.min())}, but output "
            f"{plan.output} has classes 0 to {scores.shape[1] - 1}. Set --label to the feature that the model was "
            "trained on."
        )


def corrected_by_values(plan: EvaluationPlan, answers: Mapping[str, np.ndarray]) -> EvaluationPlan:
    """Returns the plan with LOGITS for outputs of classification tasks with values outside 0 to 1.

    Replaces only planned PROBABILITIES and VALUES that were not set by the user.

    Args:
      plan: The plan.
      answers: {output: array} for some examples.
    """
    reasons, outputs = dict(plan.reasons), []
    for number, one in enumerate(plan.outputs):
        values = answers[one.output]
        key = reason_key("scores", one.output, number)
        is_wrong = (
            one.task in _CLASSIFIES and one.scores in (PROBABILITIES, VALUES) and reasons.get(key) != SET_BY_OPTION
        )
        if is_wrong and values.dtype.kind == "f" and not are_probabilities(values):
            one = dataclasses.replace(one, scores=LOGITS)
            reasons[key] = "the output has values outside 0 to 1"
        outputs.append(one)
    return dataclasses.replace(plan, outputs=tuple(outputs), reasons=reasons)


def in_units_of_labels(plan: EvaluationPlan, answers: Mapping[str, np.ndarray]) -> EvaluationPlan:
    """Returns the plan with outputs in the units of their labels; see `OutputPlan.label_scale`.

    Args:
      plan: The plan.
      answers: {output: array} for some examples.

    Raises:
      InputError: If the user set an output in other units, or if there is none in those of the label, or several that
        differ.
    """
    reasons, outputs = dict(plan.reasons), list(plan.outputs)
    for number, output in enumerate(plan.outputs):
        if output.label and output.label_scale:
            is_set = reasons.get("output") == SET_BY_OPTION
            outputs[number] = _in_units(output, {} if is_set else answers, answers[output.output])
            reasons["output"] = f"it is {output.output} in the units of label {output.label}"
    return dataclasses.replace(plan, outputs=tuple(outputs), reasons=reasons)


def _in_units(output: OutputPlan, answers: Mapping[str, np.ndarray], fitted: np.ndarray) -> OutputPlan:
    names = outputs_in_units(output.label_scale, fitted, answers)
    value, target = output.label_scale[len(output.label_scale) // 2]
    conversion = f"the training converts label {output.label} to other units, such as {value:.4g} to {target:.4g}"
    if not names:
        raise InputError(
            f"{conversion}, which are those of output {output.output}. Export the output in the units of the label "
            "too, or set --label to a feature in those of the model."
        )
    if len({answers[name].astype(np.float32).tobytes() for name in names}) > 1:  # copies may differ in shape and type
        raise InputError(
            f"{conversion}, and the outputs {join_names(names)} may be in those of the label. Set --eval-output."
        )
    return dataclasses.replace(output, output=names[0], label_scale=())


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _sigmoid(values: np.ndarray) -> np.ndarray:
    """Returns probabilities of logits; those of larger logits are larger, where a sigmoid would round them to 1."""
    size = np.abs(values)
    rest = np.exp(-np.minimum(size, _LARGEST_LOGIT))
    rest *= 1.0 - np.minimum(np.log(np.maximum(size / _LARGEST_LOGIT, 1.0)) / _LOG_OF_ALL, 1.0)
    probabilities: np.ndarray = np.where(values > 0, 1.0, rest) / (1.0 + rest)
    return probabilities
