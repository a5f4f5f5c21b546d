"""Finds the label of a model that was trained without a pipeline: the feature of the examples that it does not read.

plan = with_unread_label(plan, records, {"sepal_length", "sepal_width"})
plan.outputs[0].label  # "species"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from ..errors import InputError
from ..inputs.csv.columns import from_tf_examples
from ..inputs.input_format import Batch
from ..inputs.message_text import join_names
from .plan import BINARY, MARGINS, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan

_EXAMPLES = 1000
_USUAL = ("label", "target", "y", "class")


def with_unread_label(plan: EvaluationPlan, records: Sequence[bytes], read: Collection[str] | None) -> EvaluationPlan:
    """Returns the plan with a label for its only output, if it has none.

    The label is the only feature that the model does not read and whose values fit the task; of several, the one with a
    usual name.

    Args:
      plan: The plan.
      records: Serialized tf.Examples.
      read: The features that the model reads; None if unknown.

    Raises:
      InputError: If there is not exactly one such feature; names the candidates.
    """
    if any(one.label for one in plan.outputs):
        return plan
    if len(plan.outputs) != 1:
        raise InputError("the labels of the model's outputs are unknown")
    if read is None:
        raise InputError("the label is unknown, and so are the features that the model reads")
    [output] = plan.outputs
    some = list(records[:_EXAMPLES])
    columns = from_tf_examples(Batch("the eval split", 1, len(some), records=some))
    fitting: dict[str, OutputPlan] = {}
    for name in sorted(set(columns) - set(read)):
        values = [value for value in columns[name].to_pylist() if value is not None]
        if values and (label := _as_label(output, name, values)) is not None:
            fitting[name] = label
    usual = [name for name in fitting if name.lower() in _USUAL]
    chosen = list(fitting) if len(fitting) == 1 else usual
    if len(chosen) != 1:
        candidates = f"several features fit: {join_names(list(fitting))}" if fitting else "no unread feature fits"
        raise InputError(f"the label is unknown: of the features that the model does not read, {candidates}")
    reasons = {**plan.reasons, "label": "the model does not read it, and it fits the task"}
    return dataclasses.replace(plan, outputs=(fitting[chosen[0]],), reasons=reasons)


def _as_label(output: OutputPlan, name: str, values: Sequence[Sequence[object]]) -> OutputPlan | None:
    """Returns the output's plan with a feature as label; None if its values do not fit the task."""
    lengths = {len(value) for value in values}
    if len(lengths) != 1 or not isinstance(values[0][0], (int, float)):
        return None
    array = np.asarray(values, np.float64)
    width = array.shape[1]
    if output.task == REGRESSION and width == 1:
        return dataclasses.replace(output, label=name)
    allowed = (-1, 1) if output.scores == MARGINS else (0, 1)
    if output.task == BINARY and width == 1 and np.isin(array, allowed).all():
        return dataclasses.replace(output, label=name)
    if output.task == MULTICLASS and width == 1:
        fits = (array == array.round()).all() and array.min() >= 0 and array.max() < (output.classes or 2)
        return dataclasses.replace(output, label=name) if fits else None
    if output.task == MULTICLASS and width == output.classes and (np.sort(array)[:, :-1] == 0).all():
        return dataclasses.replace(output, label=name, label_is_one_hot=True)
    return None
