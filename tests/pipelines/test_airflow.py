"""The example DAG in Airflow itself, in the environment with Airflow: `make test-airflow`."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("airflow")

DAG_FILE = pathlib.Path(__file__).resolve().parent.parent.parent / "pipelines" / "airflow_taxi_dag.py"
STEPS = {
    "CsvExampleGen", "Evaluator", "ExampleValidator", "Pusher", "SchemaGen", "StatisticsGen", "Trainer", "Transform",
    "latest_blessed_model_resolver",
}  # fmt: skip
Airflow = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def airflow(tmp_path: pathlib.Path, taxi_csv: pathlib.Path) -> Airflow:
    """Runs Python or Airflow's command with a separate AIRFLOW_HOME whose DAGs are the example."""
    home = tmp_path / "airflow"
    (home / "dags").mkdir(parents=True)
    shutil.copy(DAG_FILE, home / "dags")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "GENERIC_TRAINER_DATA": str(taxi_csv),
        "GENERIC_TRAINER_PIPELINE_ROOT": str(tmp_path / "root"),
    }

    def run(*line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *line], capture_output=True, text=True, check=False, timeout=600, env=environment, cwd=home
        )

    done = run("-m", "airflow", "db", "migrate")
    assert done.returncode == 0, done.stderr[-3000:]
    return run


def test_the_dag_parses(airflow: Airflow) -> None:
    done = airflow(
        "-c",
        "import json\n"
        "try:\n"
        "    from airflow.dag_processing.dagbag import DagBag\n"  # Airflow 3
        "except ImportError:\n"
        "    from airflow.models import DagBag\n"
        "bag = DagBag()\n"
        "print(json.dumps([bag.import_errors, {name: list(dag.task_ids) for name, dag in bag.dags.items()}]))",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    errors, dags = json.loads(done.stdout.splitlines()[-1])
    assert errors == {}
    assert {name: set(tasks) for name, tasks in dags.items()} == {"taxi_keras": STEPS}


@pytest.mark.slow
def test_the_dag_runs_and_pushes_a_model(airflow: Airflow, tmp_path: pathlib.Path) -> None:
    done = airflow("-m", "airflow", "dags", "test", "taxi_keras")
    assert done.returncode == 0, done.stdout[-5000:]
    [pushed] = (tmp_path / "root" / "serving").iterdir()
    assert (pushed / "saved_model.pb").exists()
