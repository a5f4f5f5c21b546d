"""Data drift between two runs: of `train`, on samples of their examples, and of pipelines, on StatisticsGen's files."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from generic_trainer.executors.compat.tfdv import import_tfdv
from generic_trainer.pipelines.history.drift import NUMBERS, VALUES, compare_data
from generic_trainer.pipelines.history.run import Run, read_run
from generic_trainer.pipelines.history.run_artifacts import example_files, raw_patterns
from generic_trainer.pipelines.history.runs import find_runs

from ...world.records import rows_of, write_examples

COUNT = 1500
RANDOM = np.random.default_rng(1)
Columns = Mapping[str, Any]
Trained = Callable[..., Run]


def columns(count: int = COUNT, scale: float = 1.0, payment: tuple[str, ...] = ("cash", "card")) -> dict[str, Any]:
    return {
        "fare": scale * RANDOM.lognormal(size=count),
        "seconds": RANDOM.lognormal(5, 2, size=count),  # with outliers
        "payment": RANDOM.choice(payment, size=count),
    }


def write(path: pathlib.Path, data: Columns) -> None:
    write_examples(path, rows_of(data))


@pytest.fixture
def trained(tmp_path: pathlib.Path) -> Trained:
    """Returns a function that writes a run of `train` on given data."""

    def run(name: str, train: Columns, evaluation: Columns | None = None, **arguments: Any) -> Run:
        folder = tmp_path / name
        for split, data in {"train": train, "eval": evaluation or train}.items():
            write(folder / split / "part-0", data)
        files = {f"{split}_files": [f"{folder}/{split}/*"] for split in ("train", "eval")}
        record = {"id": name, "status": "succeeded", "started": "2026-11-26", "arguments": {**files, **arguments}}
        (folder / "model_run").mkdir()
        (folder / "model_run" / "run.json").write_text(json.dumps(record))
        return read_run(str(folder / "model_run"))

    return run


def test_samples_of_the_same_distribution_have_no_drift(trained: Trained) -> None:
    found = compare_data(trained("first", columns(), columns(200)), trained("second", columns(), columns(300)))
    assert found.examples == {"train": (COUNT, COUNT), "eval": (200, 300)}
    assert {(one.feature, one.split, one.measure) for one in found.distances} == {
        (feature, split, measure)
        for feature, measure in {"fare": NUMBERS, "seconds": NUMBERS, "payment": VALUES}.items()
        for split in ("train", "eval")
    }
    assert not [one for one in found.distances if one.is_drift]
    assert (found.anomalies, found.problem, found.is_same) == ([], "", False)
    thresholds = {one.split: one.threshold for one in found.distances}
    assert thresholds == {"train": 0.1, "eval": pytest.approx(1.95 * (1 / 200 + 1 / 300) ** 0.5)}


def test_a_scaled_column_and_a_new_category_are_found(trained: Trained) -> None:
    other = columns(scale=2.0, payment=("cash", "mobile"))
    found = compare_data(trained("first", columns()), trained("second", other))
    drifted = [(one.feature, one.split) for one in found.distances if one.is_drift]
    assert sorted(drifted) == [("fare", "eval"), ("fare", "train"), ("payment", "eval"), ("payment", "train")]
    assert drifted[0][0] == "payment"  # the largest distance: cards are gone
    [train, _] = found.anomalies
    assert (train.feature, train.anomaly) == ("payment", "Unexpected string values")
    assert "mobile" in train.details
    state: Any = json.loads(json.dumps(found.to_json()))
    assert [one["is_drift"] for one in state["distances"]] == [True] * 4 + [False] * 2


def test_missing_and_new_features_are_anomalies(trained: Trained) -> None:
    other = columns()
    other["miles"] = other.pop("seconds")
    found = compare_data(trained("first", columns()), trained("second", other))
    anomalies = {(one.feature, one.split): one.anomaly for one in found.anomalies}
    assert anomalies["seconds", "train"] == "Column dropped"
    assert anomalies["miles", "eval"] == "New column"
    assert {one.feature for one in found.distances} == {"fare", "payment"}


def test_the_same_files_are_not_compared(trained: Trained) -> None:
    first = trained("first", columns())
    assert compare_data(first, first).is_same


def test_data_without_statistics_or_examples_is_not_compared(trained: Trained, tmp_path: pathlib.Path) -> None:
    first, second = trained("first", columns(9)), trained("second", columns(9))
    (tmp_path / "second" / "train" / "part-0").unlink()
    assert list(compare_data(first, second).examples) == ["eval"]
    (tmp_path / "second" / "eval" / "part-0").unlink()
    assert compare_data(first, second).problem == "the second run has no statistics, and its examples do not exist"
    other = trained("third", columns(9), examples_format={"payload": "FORMAT_PROTO"})
    assert compare_data(other, first).problem.startswith("the first run has no statistics, and its data is not of tf.E")
    (tmp_path / "first" / "train" / "part-0").write_bytes(b"damaged" * 9)
    assert "part-0" in compare_data(first, trained("fourth", columns(9))).problem
    (tmp_path / "first" / "train" / "part-0").write_bytes(b"")
    assert compare_data(first, read_run(str(tmp_path / "fourth" / "model_run"))).problem.endswith("has no examples")


@pytest.fixture
def pipeline(new_metadata: Any) -> Callable[..., Run]:
    """Returns a function that writes a run of a pipeline with StatisticsGen and Transform, as TFX does."""

    def run(name: str, data: Columns) -> Run:
        examples = new_metadata.step(name, "ExampleGen", {}, {"examples": ("Examples", {})})
        outputs = {"statistics": ("ExampleStatistics", {})}
        statistics = new_metadata.step(name, "StatisticsGen", examples, outputs)["statistics"]
        outputs = {"transformed": ("Examples", {}), "pre_transform_stats": ("ExampleStatistics", {})}
        transformed = new_metadata.step(name, "Transform", examples, outputs)
        outputs = {"model": ("Model", {}), "model_run": ("ModelRun", {"run_id": name})}
        made = new_metadata.step(name, "Trainer", {"examples": transformed["transformed"]}, outputs)
        for split in ("train", "eval"):
            write(pathlib.Path(examples["examples"].uri, f"Split-{split}", "part-0"), data)
            path = pathlib.Path(statistics.uri, f"Split-{split}", "FeatureStats.pb")
            path.parent.mkdir(parents=True)
            path.write_bytes(statistics_of(data))
        pathlib.Path(transformed["pre_transform_stats"].uri).mkdir(parents=True)  # an artifact without splits
        arguments = {
            f"{split}_files": [f"{transformed['transformed'].uri}/Split-{split}/*"] for split in ("train", "eval")
        }
        record = {"id": name, "arguments": {**arguments, "transform_graph_path": "graph"}}
        pathlib.Path(made["model_run"].uri).mkdir(parents=True)
        pathlib.Path(made["model_run"].uri, "run.json").write_text(json.dumps(record))
        [found] = [one for one in find_runs([str(new_metadata.root)]) if one.pipeline_run == name]
        return found

    return run


def statistics_of(data: Columns) -> bytes:
    import pandas as pd

    found: bytes = import_tfdv().generate_statistics_from_dataframe(pd.DataFrame(data)).SerializeToString()
    return found


def test_pipelines_are_compared_by_the_statistics_of_statistics_gen(
    pipeline: Callable[..., Run], trained: Trained, new_metadata: Any
) -> None:
    first, second = pipeline("run-1", columns()), pipeline("run-2", columns(scale=2.0))
    root = pathlib.Path(new_metadata.root)
    assert raw_patterns(second, "eval") == [f"{root}/ExampleGen/examples/5/Split-eval/*"]
    assert example_files(second, "train") == [f"{root}/ExampleGen/examples/5/Split-train/part-0"]
    for part in root.glob("ExampleGen/examples/*/*/part-0"):
        part.unlink()  # the statistics suffice
    found = compare_data(first, second)
    assert [(one.feature, one.is_drift) for one in found.distances[:3]] == [
        ("fare", True),
        ("fare", True),
        ("seconds", False),
    ]
    assert compare_data(first, first).is_same
    with_train = compare_data(first, trained("third", columns()))
    assert (with_train.problem, [one for one in with_train.distances if one.is_drift]) == ("", [])
