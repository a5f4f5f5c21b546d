"""Template values that depend on which kinds of columns there are: expressions, names and descriptions."""

from __future__ import annotations

import json
import os
import re
import textwrap

from .column_statistics import INT, TEXT
from .labels import BINARY, MULTICLASS, REGRESSION
from .planning import Plan
from .roles import CATEGORY, Role

_PATIENCE = {True: 10, False: 3}  # epochs of early stopping patience; True for at most 5000 rows
_LOSSES = {
    BINARY: "BinaryCrossentropy",
    MULTICLASS: "SparseCategoricalCrossentropy",
    REGRESSION: "MeanSquaredError",
}
_METRICS = {
    BINARY: ('AUC(name="auc")', 'BinaryAccuracy(name="accuracy")'),
    MULTICLASS: ('SparseCategoricalAccuracy(name="accuracy")',),
    REGRESSION: ('RootMeanSquaredError(name="rmse")', 'MeanAbsoluteError(name="mae")'),
}
_PREPARED_EXAMPLES = {  # by whether there is a Transform, and whether the data are CSV
    (True, True): "Transform/transformed_examples/latest",
    (True, False): "Transform/transformed_examples/latest",
    (False, True): "CsvExampleGen/examples/latest",
    (False, False): "ImportExampleGen/examples/latest",
}
_MAX_SLICES = 30
_OUTPUTS = {BINARY: "probability", MULTICLASS: "probabilities", REGRESSION: "prediction"}
_LABELS = {
    BINARY: "the int64 label (0 or 1)",
    MULTICLASS: "the int64 label (a class ID)",
    REGRESSION: "the float32 label",
}


def template_values(plan: Plan) -> dict[str, object]:
    """Returns the template values other than those of `Plan.constants` and `Project.names`."""
    constants = plan.constants()
    lists = {
        name: bool(constants[name]) for name in ("numbers", "parsed", "categories", "texts", "dates", "timestamps")
    }
    times = lists["dates"] or lists["timestamps"]
    any_numbers = lists["numbers"] or lists["parsed"] or times
    names = _unpack_names(["NUMBERS"] * lists["numbers"] + ["PARSED"] * lists["parsed"] + ["TIMES"] * times)
    has_buckets = bool(constants["buckets"] and any_numbers)
    has_ids = has_buckets or lists["categories"] or times
    categories = [role for role in plan.used if role.kind == CATEGORY]
    task, label = plan.label.task, plan.label.column
    return {
        "title": sanitize(label.name),
        "source": sanitize(os.path.basename(plan.raw.path.rstrip("/"))),
        "output": _OUTPUTS[task],
        "loss": _LOSSES[task],
        "metrics": ", ".join(f"tf.keras.metrics.{metric}" for metric in _METRICS[task]),
        "output_shapes": _output_shapes(plan),
        "patience": _PATIENCE[plan.raw.size <= 5000],
        "label_are_ids": plan.label.are_ids,
        "label_missing": '""' if label.kind == TEXT else "0",
        "integers_with_label": (*constants["integers"], *([label.name] * (label.kind == INT))),
        "times": times,
        "any_numbers": any_numbers,
        "uses_nan": lists["numbers"] or times,
        "numbers_expression": _numbers_expression(lists),
        "parsed_later": lists["numbers"] and lists["parsed"],
        "number_names": names,
        "feature_parts": [f"*{name.upper()}" for name in lists if lists[name]],
        "has_ids": has_ids,
        "embeds": has_ids or lists["texts"],
        "has_codes": any(role.column.kind != TEXT for role in categories),
        "has_words_of": any(role.column.kind == TEXT for role in categories),
        "sizes": _sizes(names, has_buckets, lists["categories"], times),
        "parts": ["*numbers.values()"] * any_numbers + ["*embedded"] * has_ids + ["*averaged"] * lists["texts"],
        "inputs": ["numbers"] * any_numbers + ["ids"] * has_ids + ["words"] * lists["texts"],
        "model_summary": _summary(has_ids, lists["texts"], bool(constants["is_wide"])),
        "returned": _returned(any_numbers, has_ids, lists["texts"], _LABELS[task]),
        "keras": "tf.keras" if plan.transforms else "keras",
        "is_csv": plan.raw.is_csv,
        "list_name": {TEXT: "bytes_list", INT: "int64_list"}.get(label.kind, "float_list"),
        "table": [(sanitize(role.column.name), sanitize(role.why)) for role in plan.roles],
        "slices": ", ".join(json.dumps(role.column.name, ensure_ascii=False) for role in _slices(plan)),
        "transforms": plan.transforms,
        "prepared": f"pipeline/{_PREPARED_EXAMPLES[plan.transforms, plan.raw.is_csv]}",
        "graph": "pipeline/Transform/transform_graph/latest",
    }


def _slices(plan: Plan) -> list[Role]:
    """Returns the first category with at most 30 values, as the feature to slice the evaluation by; [] without one."""
    return [role for role in plan.used if role.kind == CATEGORY and role.size <= _MAX_SLICES][:1]


def sanitize(text: str) -> str:
    """Returns text from the data, sanitized for docstrings, comments and Markdown and cut to 60 characters."""
    kept = re.sub(r"[^\w .,:;+%/()=#$&@'-]", "_", text).strip()
    return kept[:60] or "the label"


def _unpack_names(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"({', '.join(f'*{name}' for name in names)})"


def _numbers_expression(lists: dict[str, bool]) -> str:
    if lists["numbers"]:
        return "{name: to_dense(tf.cast(inputs[name], tf.float32), math.nan) for name in NUMBERS}"
    return "{name: parse_numbers(inputs[name]) for name in PARSED}" if lists["parsed"] else "{}"


def _sizes(names: str, has_buckets: bool, has_categories: bool, times: bool) -> list[str]:
    sizes = []
    if has_buckets:
        sizes.append(f'{{f"{{name}}_bucket": BUCKETS for name in {names}}}')
    if has_categories:
        sizes.append('{f"{name}_id": size for name, size in CATEGORIES.items()}')
    if times:
        sizes.append('{f"{name}_{part}": size for name in TIMES for part, size in TIME_PARTS.items()}')
    return sizes


def _summary(has_ids: bool, has_texts: bool, is_wide: bool) -> str:
    embeddings = ["embeddings for IDs"] * has_ids + ["averaged embeddings for words"] * has_texts
    network = "a small dense network" + ", plus a linear model" * is_wide
    return f"{', '.join(embeddings)}, and {network}" if embeddings else network


def _output_shapes(plan: Plan) -> str:
    task = plan.label.task
    if task == BINARY:
        return "`probability` of shape [batch, 1]"
    if task == REGRESSION:
        return "`prediction` of shape [batch, 1]"
    if plan.transforms:
        return f"`probabilities` of shape [batch, {len(plan.label.classes)}] and `class` of shape [batch, 1]"
    return f"`probabilities` of shape [batch, {len(plan.label.classes)}]"


def _returned(any_numbers: bool, has_ids: bool, has_texts: bool, label: str) -> str:
    columns = ["float32 `<column>_scaled`"] * any_numbers + ["int64 IDs"] * has_ids
    parts = [*columns, *["int64 `<column>_words` of shape [batch, MAX_WORDS]"] * has_texts, label]
    shapes = ("all others" if has_texts else "all") + " of shape [batch, 1]"
    text = f"{', '.join(parts[:-1])}{',' * (len(parts) > 2)} and {parts[-1]}; {shapes}."
    return textwrap.fill(text, 120, initial_indent=" " * 8, subsequent_indent=" " * 8)
