"""The API of `tf.estimator`, row by row, each trained, evaluated, exported and loaded as applicable.

The rows are the functions in `programs/`. They run in a few subprocesses, because Estimators need Keras 2 in their
process from the start. The returned values must equal `tensorflow_2_15_1.jsonl`, the numbers of TensorFlow 2.15.1's
own tf.estimator, generated in that folder by

    ../../../.venv-legacy/bin/python run_rows.py FOLDER ROW… | jq -c 'select(.returned) | {row, returned}'
"""

from __future__ import annotations

import ast
import base64
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from generic_trainer.executors.modules.keras_version import choose

pytestmark = pytest.mark.legacy

PROGRAMS = pathlib.Path(__file__).parent / "programs"
RESTORED = "before TensorFlow 2.16" not in choose("auto", []).reason

# Each list is one process; two run at a time, the longest first. `distribution` must come before anything else uses the
# CPU, which it splits in two.
PROCESSES = (["canned"], ["training", "hooks", "runtime"], ["distribution", "custom"])
ONLY_RESTORED = {"canned.boosted_trees_say_what_to_use_instead", "distribution.tpu_estimator_on_a_tpu"}

# It distributes work among threads, whose order affects the numbers.
NOT_TO_THE_DIGIT = {"canned.linear_sdca"}


def rows_of(module: str) -> list[str]:
    tree = ast.parse((PROGRAMS / f"{module}.py").read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [f"{module}.{name}" for name in names if not name.startswith("_")]


ROWS = [row for modules in PROCESSES for module in modules for row in rows_of(module)]


def run(rows: list[str], folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Runs rows in one process and returns the output of each."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    line = [sys.executable, "run_rows.py", str(folder), *rows]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=500, env=environment, cwd=PROGRAMS)
    said = [json.loads(printed) for printed in done.stdout.splitlines() if printed.startswith('{"row"')]
    died = {"error": f"the process ended with code {done.returncode}:\n{done.stderr[-3000:]}"}
    return {**dict.fromkeys(rows, died), **{one["row"]: one for one in said}}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The parent of the rows' folders."""
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest, folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The value or error of each row selected in this session."""
    items = (item for item in request.session.items if item.path == pathlib.Path(__file__))
    wanted = {item.callspec.params["row"] for item in items if hasattr(item, "callspec")}
    groups = [[row for row in ROWS if row in wanted and row.split(".")[0] in modules] for modules in PROCESSES]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(run, filter(None, groups), itertools.repeat(folder)))
    return {row: result for group in found for row, result in group.items()}


@pytest.fixture(scope="session")
def native() -> dict[str, Any]:
    lines = (PROGRAMS / "tensorflow_2_15_1.jsonl").read_text().splitlines()
    return {line["row"]: line["returned"] for line in map(json.loads, lines)}


def close_to(expected: Any) -> Any:
    """Compares numbers to six digits and texts exactly."""
    if isinstance(expected, dict):
        return {name: close_to(value) for name, value in expected.items()}
    return expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-4)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str, results: dict[str, dict[str, Any]], native: dict[str, Any]) -> None:
    if row in ONLY_RESTORED and not RESTORED:
        pytest.skip("this TensorFlow has its own tf.estimator")
    result = results[row]
    assert "error" not in result, result["error"]
    assert (result["returned"] is None) == (row not in native)
    if row in native and row not in NOT_TO_THE_DIGIT:
        assert result["returned"] == close_to(native[row])


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("row", ["training.export_loads_in_a_session"])
def test_an_export_loads_where_keras_is_3_and_shows_its_signatures(
    row: str, results: dict[str, dict[str, Any]], folder: pathlib.Path
) -> None:
    import tensorflow as tf

    assert "error" not in results[row]
    (export,) = (folder / row / "export").iterdir()
    answers = json.loads((folder / row / "answers.json").read_text())
    examples = tf.constant([base64.b64decode(example) for example in answers["examples"]])
    served = tf.saved_model.load(str(export)).signatures["predict"](examples)
    assert served["logistic"].numpy().tolist() == [pytest.approx(value, rel=1e-5) for value in answers["logistic"]]
    cli = pathlib.Path(sys.executable).parent / "saved_model_cli"
    line = [cli, "show", "--dir", export, "--all"]
    shown = subprocess.run(line, capture_output=True, text=True, check=True, timeout=100)
    for signature in ("predict", "serving_default", "classification", "regression"):
        assert f"signature_def['{signature}']" in shown.stdout
