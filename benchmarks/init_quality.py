"""Compares models of `generic-trainer init` with gradient boosting and a linear model, on 13 data sets.

    python benchmarks/init_quality.py                      # 20 minutes on two cores; writes benchmarks/QUALITY.md
    python benchmarks/init_quality.py wide taxi            # some of them; prints the table

Each data set is divided at random, with a fixed seed: three quarters for `init`, which writes a module for them, and
`run`, which trains it; the others only for the comparison, by `predict` on the pushed model. The peers are
scikit-learn's HistGradientBoosting, as it is, and a logistic or ridge regression on scaled numbers and one-hot
categories; both are trained on the same three quarters, of which the pipeline uses a third to stop. The score is
accuracy, AUC for `taxi`, which is unbalanced, or R² for regression. The target is at least 0.97 of the better peer.

The data are scikit-learn's own sets and generators, with fixed seeds, and the taxi trips in the tfx package.
"""

# ruff: noqa: T201 (prints a table)

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets as data
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

_LABEL, _TARGET = "label", 0.97
_OUTPUT = pathlib.Path(__file__).with_name("QUALITY.md")
_COMMAND = (sys.executable, "-m", "generic_trainer.cli.main")
ACCURACY, AUC, R2 = "accuracy", "AUC", "R²"


def _bundled(load: Callable[..., Any]) -> pd.DataFrame:
    found = load(as_frame=True)
    frame = found.data.copy()
    frame.columns = [str(name).replace(" ", "_").replace("(", "").replace(")", "").replace("/", "_") for name in frame]
    frame[_LABEL] = found.target
    return frame


def _generated(x: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(x, columns=[f"x{number}" for number in range(x.shape[1])]).round(6)
    frame[_LABEL] = y
    return frame


def _taxi() -> pd.DataFrame:
    import tfx

    frame = pd.read_csv(pathlib.Path(tfx.__file__).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv")
    frame[_LABEL] = (frame.pop("tips") > 0.2 * frame["fare"]).astype(int)
    return frame


def _classes(**options: Any) -> pd.DataFrame:
    return _generated(*data.make_classification(random_state=1, **options))


def _quantiles() -> tuple[np.ndarray, np.ndarray]:
    found: tuple[np.ndarray, np.ndarray] = data.make_gaussian_quantiles(
        n_samples=3000, n_features=10, n_classes=3, random_state=1
    )
    return found


SETS: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
    "iris": (ACCURACY, lambda: _bundled(data.load_iris)),
    "wine": (ACCURACY, lambda: _bundled(data.load_wine)),
    "breast_cancer": (ACCURACY, lambda: _bundled(data.load_breast_cancer)),
    "digits": (ACCURACY, lambda: _bundled(data.load_digits)),
    "diabetes": (R2, lambda: _bundled(data.load_diabetes)),
    "taxi": (AUC, _taxi),
    "wide": (ACCURACY, lambda: _classes(n_samples=2000, n_features=200, n_informative=8, n_redundant=0, class_sep=1.5)),
    "classes": (ACCURACY, lambda: _classes(n_samples=4000, n_features=20, n_informative=10, n_classes=5)),
    "moons": (ACCURACY, lambda: _generated(*data.make_moons(2000, noise=0.3, random_state=1))),
    "quantiles": (ACCURACY, lambda: _generated(*_quantiles())),
    "hastie": (ACCURACY, lambda: _generated(*data.make_hastie_10_2(4000, random_state=1))),
    "friedman": (R2, lambda: _generated(*data.make_friedman1(3000, noise=1.0, random_state=1))),
    "sparse": (R2, lambda: _generated(*data.make_sparse_uncorrelated(2000, 50, random_state=1))),
}  # fmt: skip


def measure(name: str, folder: pathlib.Path) -> dict[str, float]:
    """Returns {model: score on the held-out quarter} and the seconds of `init`, `run` and `predict`."""
    metric, load = SETS[name]
    frame = load()
    train, test = train_test_split(
        frame, test_size=0.25, random_state=1, stratify=None if metric == R2 else frame[_LABEL]
    )
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    begin = time.monotonic()
    _run(folder, "init", "project", "--data", "train.csv", "--label", _LABEL, "--no-test-split")
    _run(folder / "project", "run", "--config", "pipeline.yaml")
    output = folder / "predictions.parquet"
    _run(folder, "predict", "--model", "project/pipeline/serving", "--examples", "test.csv", "--output", str(output))
    found = {"init": _score(metric, test[_LABEL], _predictions(pd.read_parquet(output), frame[_LABEL]))}
    found["seconds"] = time.monotonic() - begin
    for peer, model in _peers(train, metric).items():
        model.fit(train.drop(columns=_LABEL), train[_LABEL])
        inputs = test.drop(columns=_LABEL)
        predicted = model.predict_proba(inputs)[:, 1] if metric == AUC else model.predict(inputs)
        found[peer] = _score(metric, test[_LABEL], predicted)
    return found


def _run(folder: pathlib.Path, *line: str) -> None:
    done = subprocess.run([*_COMMAND, *line], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):  # 4: not blessed
        raise SystemExit(f"{' '.join(line)}:\n{done.stderr[-3000:]}")


def _predictions(frame: pd.DataFrame, labels: pd.Series) -> np.ndarray:
    """Returns predicted values, classes, or the probabilities of the second class."""
    classes = np.sort(labels.unique())
    if "prediction" in frame:
        return np.stack(frame["prediction"].to_numpy()).ravel()
    if "probability" in frame:
        return np.stack(frame["probability"].to_numpy()).ravel()
    return classes[np.stack(frame["probabilities"].to_numpy()).argmax(axis=1)]


def _score(metric: str, labels: pd.Series, predicted: np.ndarray) -> float:
    if metric == R2:
        return float(r2_score(labels, predicted))
    if metric == AUC:
        return float(roc_auc_score(labels, predicted))
    classes = np.sort(labels.unique())
    if predicted.dtype.kind == "f" and not np.isin(predicted, classes).all():
        predicted = classes[(predicted >= 0.5).astype(int)]
    return float(accuracy_score(labels, predicted))


def _peers(train: pd.DataFrame, metric: str) -> dict[str, Any]:
    inputs = train.drop(columns=_LABEL)
    texts = [name for name in inputs if inputs[name].dtype == object]
    numbers = [name for name in inputs if name not in texts]

    def with_columns(scaled: bool, model: Any) -> Any:
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False, max_categories=200)
        steps = (SimpleImputer(keep_empty_features=True), StandardScaler()) if scaled else ("passthrough",)
        plain = make_pipeline(*steps) if scaled else "passthrough"
        return make_pipeline(make_column_transformer((plain, numbers), (one_hot, texts)), model)

    is_regression = metric == R2
    boosting = HistGradientBoostingRegressor if is_regression else HistGradientBoostingClassifier
    linear = RidgeCV(np.logspace(-3, 3, 13)) if is_regression else LogisticRegression(max_iter=2000, C=0.1)
    return {"boosting": with_columns(False, boosting(random_state=1)), "linear": with_columns(True, linear)}


def table_of(results: dict[str, dict[str, float]]) -> str:
    """Returns the results as Markdown."""
    lines = [
        "| data | rows | columns | score | `init` | gradient boosting | linear | of the better | met | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in results.items():
        metric, load = SETS[name]
        frame = load()
        share = found["init"] / max(found["boosting"], found["linear"])
        scores = " | ".join(f"{found[model]:.3f}" for model in ("init", "boosting", "linear"))
        met = "yes" if share >= _TARGET else "**no**"
        lines.append(
            f"| {name} | {len(frame):,} | {frame.shape[1] - 1} | {metric} | {scores} | {share:.3f} | {met} | "
            f"{found['seconds']:.0f} |"
        )
    return "\n".join(lines)


def main(names: Sequence[str]) -> None:
    """Measures the data sets; writes the table for all of them, prints it for some."""
    results = {}
    for name in names or SETS:
        with tempfile.TemporaryDirectory(prefix="init-quality-") as folder:
            results[name] = measure(name, pathlib.Path(folder))
        print(name, {key: round(value, 3) for key, value in results[name].items()}, flush=True)
    table = table_of(results)
    if names:
        print(table)
        return
    _OUTPUT.write_text(
        "# Quality of generated models\n\nWritten by `python benchmarks/init_quality.py`; see its docstring.\n\n"
        f"{table}\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"default: {' '.join(SETS)}")
    main(parser.parse_args().sets)
