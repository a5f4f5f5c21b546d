"""The behavior of ElasticDL's names as model files use them, one row each.

The rows are the functions in `programs/`. They run in one subprocess with Keras 2, which ElasticDL's model files
were written for.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import subprocess
import sys

import pytest

from generic_trainer.executors.modules.keras_version import choose

PROGRAMS = pathlib.Path(__file__).parent / "programs"
MODULES = ("names", "layers", "columns", "training")


def rows_of(module: str) -> list[str]:
    """Returns the functions that take one argument, a folder."""
    tree = ast.parse((PROGRAMS / f"{module}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [
        f"{module}.{one.name}" for one in functions if [arg.arg for arg in one.args.args] in (["folder"], ["unused"])
    ]


ROWS = [row for module in MODULES for row in rows_of(module)]


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The output of each row selected in this session."""
    items = (item for item in request.session.items if item.path == pathlib.Path(__file__))
    rows = [item.callspec.params["row"] for item in items if hasattr(item, "callspec")]
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        **choose("2", []).environment(),
    }
    line = [sys.executable, "run_rows.py", str(tmp_path_factory.mktemp("rows")), *rows]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=500, env=environment, cwd=PROGRAMS)
    said = [json.loads(printed) for printed in done.stdout.splitlines() if printed.startswith('{"row"')]
    died = {"error": f"the process ended with code {done.returncode}:\n{done.stderr[-3000:]}"}
    return {**dict.fromkeys(rows, died), **{one["row"]: one for one in said}}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str, results: dict[str, dict[str, str]]) -> None:
    assert "error" not in results[row], results[row]["error"]
