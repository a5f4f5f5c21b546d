"""What ElasticDL's dialect exports, and that it rehearses the export before training; in one process, with Keras 2."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from generic_trainer.executors.modules.keras_version import choose

pytestmark = pytest.mark.slow

PROGRAM = pathlib.Path(__file__).parent / "programs" / "export.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("export")
    (folder / "tmp").mkdir()
    environment = {**os.environ, **choose("2", []).environment(), "TMPDIR": str(folder / "tmp")}
    line = [sys.executable, str(PROGRAM), str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.thorough
def test_features_may_have_names_that_are_no_identifiers(found: dict[str, Any]) -> None:
    answer = found["odd names"]
    assert answer["inputs"] == ["a_b", "arg_1st", "capital_gain", "class_", "plain", "self_", "x_y", "x_y_1"]
    assert answer["tensors"] == pytest.approx(answer["records"])


@pytest.mark.thorough
def test_a_model_of_a_distribution_strategy_is_exported(found: dict[str, Any]) -> None:
    """Even if its variables change when it is called."""
    assert found["strategy"] == {"records": 1, "tensors": 1}


def test_features_that_are_no_dense_tensors_are_made_of_records(found: dict[str, Any]) -> None:
    assert found["sparse"]["signatures"] == ["serving_default"]
    assert found["unknown rank"]["signatures"] == ["serving_default", "tensors"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("feed", "KeyError: 'label'"), ("model", "no graph"), ("layer", "RuntimeError: no graph")],
)
def test_what_the_export_would_raise_is_raised_before_the_first_step(
    found: dict[str, Any], name: str, text: str
) -> None:
    answer = found[f"bad {name}"]
    assert text in answer["error"]
    assert any("before the first training step" in note for note in answer["notes"])
    assert answer["own_line"]
    assert answer["begun"] == 0
    assert answer["files"] == []


def test_a_file_that_is_not_there_yet_stops_no_training(found: dict[str, Any]) -> None:
    assert found["late file"]["begun"] == 1
    assert "error" not in found["late file"]


def test_a_rehearsal_changes_no_training_and_leaves_nothing(found: dict[str, Any]) -> None:
    rehearsed, plain = found["unchanged"]
    assert rehearsed == plain
    assert found["left"] == []


def test_a_processor_of_predictions_gets_tensors(found: dict[str, Any]) -> None:
    assert found["processor"] == {"is_tensor": True, "shape": [4, 1], "count": 4}
