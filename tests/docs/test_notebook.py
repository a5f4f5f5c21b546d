"""The stored tutorial runs, and its stored outputs contain no machine details."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import socket
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
TUTORIAL = REPOSITORY / "docs" / "tutorial.ipynb"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("run_notebook", REPOSITORY / "scripts" / "run_notebook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(notebook: Any, word: str) -> str:
    """Returns the outputs of the cell whose code contains a word."""
    [cell] = [cell for cell in notebook.cells if cell.cell_type == "code" and word in cell.source]
    return "\n".join(
        output.text if output.output_type == "stream" else output.data.get("text/html", output.data["text/plain"])
        for output in cell.outputs
    )


@pytest.mark.thorough
@pytest.mark.slow
def test_the_tutorial_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("GENERIC_TRAINER_LOGS", raising=False)  # an earlier test may have set it
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    tidy = script()
    done = tidy.tidied(tidy.executed(TUTORIAL))
    # Training without a pipeline: log lines of its processes, and the record as a table.
    trained = shown(done, "TrainingOptions(seed=1)")
    lines = [line for line in trained.splitlines() if line]
    assert re.fullmatch(r"\d\d:\d\d:\d\d Keras 3: wine_trainer.py, line 3: import keras.", lines[0])
    assert "Dialect run_fn: it defines run_fn." in lines[2]
    assert any("Prediction for the first eval example (eval.gz): probabilities=" in line for line in lines)
    assert any(line.startswith("<table><caption>Run ") for line in lines)
    assert any(line.startswith("<svg ") for line in lines)
    assert float(shown(done, 'record.metrics["eval"]').split(",")[0].strip("(")) > 0.9
    # As a component: the same lines, without those of TFX and TensorFlow, and the results.
    in_tfx = [line for line in shown(done, "InteractiveContext(").splitlines() if line]
    assert ["Dialect run_fn" in line for line in in_tfx].count(True) == 1
    results = ("Model published to ", "Eval metrics: ", "Report: ")
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) or line.startswith(results) for line in in_tfx), in_tfx
    # Only the edit is reported.
    edited = shown(done, "for _ in range(2)")
    assert edited.count("Dialect run_fn") == 1
    assert edited.endswith("['pipeline/Trainer/model/3', 'pipeline/Trainer/model/3']")
    assert "predicted" in shown(done, "argmax")


def test_the_stored_notebook_contains_no_machine_details() -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(notebook)
    assert [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    text = TUTORIAL.read_text()
    assert len(text) < 60_000
    found = re.findall(r"/(?:tmp|root|home|work|usr|var)/[^\"]*|site-packages|[IWE]0000 \d\d:", text)
    assert not found
    assert f"'{socket.gethostname()}'" not in text
