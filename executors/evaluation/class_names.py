"""Finds the names of classes: raw labels that Transform or the module converts to class indexes, as "setosa" to 0."""

from __future__ import annotations

import os

import pyarrow as pa

from ..saved_models.signatures import TRANSFORM_FN
from .feature_origins import origins_of
from .inference import Features, labels_of
from .plan import BINARY, MULTICLASS, EvaluationPlan, OutputPlan


def class_names(features: Features, plan: EvaluationPlan, transform_graph: str | None) -> dict[str, dict[str, str]]:
    """Returns {output: {class index: name}} of BINARY and MULTICLASS tasks, for the classes in some examples.

    An output is left out unless its label is computed from one raw feature, and each class from one of its values; a
    class to which the module converts several values.
    """
    outputs = [one for one in plan.outputs if one.label_is_transformed and one.task in (BINARY, MULTICLASS)]
    origins = origins_of(os.path.join(transform_graph, TRANSFORM_FN)) if transform_graph and outputs else {}
    names = {one.output: _texts(one) for one in plan.outputs if one.label_values}
    for one in outputs:
        raw = [features.raw[name] for name in origins.get(one.label, ()) if name in features.raw]
        labels = labels_of(features, [one])[one.output].ravel()
        if (
            one.output not in names
            and len(raw) == 1
            and (found := _names(raw[0], [str(int(label)) for label in labels]))
        ):
            names[one.output] = found
    return names


def _texts(one: OutputPlan) -> dict[str, str]:
    return {index: str(value) for index, value in one.class_names().items()}


def _names(column: pa.ListArray, classes: list[str]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for number, values in zip(classes, column.to_pylist(), strict=True):
        if values is None or len(values) != 1 or isinstance(values[0], float):
            return None
        text = values[0].decode("utf-8", "replace") if isinstance(values[0], bytes) else str(values[0])
        if names.setdefault(number, text) != text:
            return None
    return names
