"""Iris and the digits of scikit-learn as files. TensorFlow is imported at the first call."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np

from .records import write_examples

IRIS_FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")


@dataclasses.dataclass(frozen=True)
class Examples:
    """Files of tf.Examples: patterns of both splits, the schema file, and the number of records."""

    train: str
    eval: str
    schema: str
    counts: dict[str, int]


def iris_csv(header: str = ",".join([*IRIS_FEATURES, "variety"])) -> str:
    """Returns iris as CSV text, without a first line if the header is empty."""
    from sklearn.datasets import load_iris

    data = load_iris()
    rows = [",".join(map(str, [*measures, kind])) for measures, kind in zip(data.data, data.target, strict=True)]
    return "\n".join([*filter(None, [header]), *rows, ""])


def write_iris(folder: pathlib.Path) -> Examples:
    """Writes 120 training examples and 30 for evaluation, shuffled by a fixed seed."""
    from sklearn.datasets import load_iris

    data = load_iris()
    order = np.random.default_rng(0).permutation(150)
    rows = [
        {**dict(zip(IRIS_FEATURES, map(float, data.data[i]), strict=True)), "variety": int(data.target[i])}
        for i in order
    ]
    return _write_splits(folder, rows, 120, {**dict.fromkeys(IRIS_FEATURES, ("FLOAT", 1)), "variety": ("INT", 1)})


def write_digits(folder: pathlib.Path) -> Examples:
    """Writes the 8x8 digits, pixels from 0 to 16 as floats: 1,500 training examples and 297 for evaluation."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    rows = [{"image": data.data[i], "label": int(data.target[i])} for i in order]
    return _write_splits(folder, rows, 1500, {"image": ("FLOAT", 64), "label": ("INT", 1)})


def _write_splits(
    folder: pathlib.Path, rows: list[dict[str, Any]], count: int, features: dict[str, tuple[str, int]]
) -> Examples:
    write_examples(folder / "train" / "part-0.gz", rows[:count])
    write_examples(folder / "eval" / "part-0.gz", rows[count:])
    schema = folder / "schema.pbtxt"
    schema.write_text(schema_text(features))
    return Examples(f"{folder}/train/*", f"{folder}/eval/*", str(schema), {"train": count, "eval": len(rows) - count})


def schema_text(features: dict[str, tuple[str, int]]) -> str:
    """Returns a Schema in text form for {name: (type, number of values)}."""
    return "".join(
        f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: 1 min_count: 1 }} '
        f"shape {{ dim {{ size: {size} }} }} }}\n"
        for name, (kind, size) in features.items()
    )


def outputs_in(folder: pathlib.Path) -> dict[str, str]:
    """Returns the output folders of `FnArgs` below a folder, as `generic-trainer train --output` sets them."""
    return {"serving_model_dir": str(folder / "model" / "Format-Serving"), "model_run_dir": str(folder / "model_run")}
