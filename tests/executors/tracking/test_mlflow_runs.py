"""Trainings are logged to an MLflow server, whose models can be loaded and called; its failures stop no training."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="needs the extra mlflow")

MODULE = """
import os
from generic_trainer.module_files import iris_keras

def run_fn(fn_args):
    if (fn_args.custom_config or {}).get("fails"):
        raise OSError("the disk is on fire")
    import mlflow
    with mlflow.start_run() as run:  # the run that exists already
        mlflow.log_param("from_the_module", 1)
    iris_keras.run_fn(fn_args)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An MLflow server with SQLite; its address."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = (
        "--backend-store-uri",
        f"sqlite:///{folder}/db.sqlite",
        "--artifacts-destination",
        str(folder / "artifacts"),
    )
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    process = subprocess.Popen([*command, *store], start_new_session=True, stderr=subprocess.DEVNULL, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            assert process.poll() is None
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health"):  # noqa: S310
                break
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait()


@pytest.fixture
def client(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    mlflow.set_tracking_uri(server)
    return mlflow.MlflowClient()


def only_run(client: Any, experiment: str) -> Any:
    [run] = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return run


def arguments_of(iris: Any, module: str, output: pathlib.Path) -> tuple[Any, ...]:
    files = ("--train-files", iris.train, "--eval-files", iris.eval, "--output", output)
    return ("train", module, *files, "--train-steps", 20)


@pytest.mark.slow
def test_a_training_is_logged_with_a_model_that_can_be_called(
    client: Any, command: Callable[..., Any], iris: Any, module: Callable[..., str], tmp_path: pathlib.Path, server: str
) -> None:
    import mlflow
    import pandas as pd
    import tensorflow as tf

    environment = {**os.environ, "MLFLOW_TRACKING_URI": server, "MLFLOW_EXPERIMENT_NAME": "iris"}
    config = ("--custom-config", '{"learning_rate": 0.05, "api_key": "abc123"}')
    done = command(*arguments_of(iris, module(MODULE), tmp_path / "out"), *config, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    run = only_run(client, "iris")
    assert (run.info.status, run.data.tags["dialect"], run.data.tags["mlflow.source.type"]) == (
        "FINISHED",
        "run_fn",
        "LOCAL",
    )
    parameters = run.data.params
    assert (parameters["train_steps"], parameters["custom_config.learning_rate"]) == ("20", "0.05")
    assert parameters["custom_config.api_key"] == "***"
    assert parameters["from_the_module"] == "1"
    assert not any("abc123" in text for text in parameters.values())
    assert {"train/loss", "eval/loss", "model/eval/accuracy"} <= run.data.metrics.keys()
    assert {one.path for one in client.list_artifacts(run.info.run_id)} >= {"run.json", "report.html"}

    [logged] = run.outputs.model_outputs
    uri = f"models:/{logged.model_id}"
    signature = mlflow.models.get_model_info(uri).signature
    assert [spec.name for spec in signature.inputs] == ["examples"]
    [example] = tf.data.TFRecordDataset(tf.io.gfile.glob(iris.eval), "GZIP").take(1).as_numpy_iterator()
    answer = mlflow.pyfunc.load_model(uri).predict(pd.DataFrame({"examples": [example]}))
    published = tf.saved_model.load(str(tmp_path / "out" / "model" / "Format-Serving"))
    [expected] = published.signatures["serving_default"](tf.constant([example])).values()
    assert answer["probabilities"][0] == pytest.approx(expected.numpy()[0].tolist())


@pytest.mark.slow
def test_a_failed_training_is_a_failed_run(
    client: Any, command: Callable[..., Any], iris: Any, module: Callable[..., str], tmp_path: pathlib.Path, server: str
) -> None:
    environment = {**os.environ, "MLFLOW_TRACKING_URI": server, "MLFLOW_EXPERIMENT_NAME": "failures"}
    failing = ("--custom-config", '{"fails": true}')
    done = command(*arguments_of(iris, module(MODULE), tmp_path / "out"), *failing, env=environment)
    assert done.returncode == 1
    run = only_run(client, "failures")
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", "OSError: the disk is on fire")
    assert not run.outputs or not run.outputs.model_outputs
    untracked = (*arguments_of(iris, module(MODULE), tmp_path / "other"), *failing, "--track", "none")
    assert command(*untracked, env=environment).returncode == 1
    only_run(client, "failures")


def test_an_unreachable_server_is_a_warning_or_with_the_flag_an_error(
    command: Callable[..., Any], iris: Any, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://user:hunter2@127.0.0.1:{closed.getsockname()[1]}"
        environment = {**os.environ, "MLFLOW_TRACKING_URI": address, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
        line = (*arguments_of(iris, module(MODULE), tmp_path / "out"), "--custom-config", '{"fails": true}')
        warned = command(*line, env=environment)
        assert warned.returncode == 1
        assert "The run is not logged to MLflow" in warned.stderr
        assert "the disk is on fire" in warned.stderr
        refused = command(*line, "--track", "mlflow", env=environment)
        assert refused.returncode == 2
        assert "--track mlflow: MLflow at http" in refused.stderr
        assert "hunter2" not in warned.stderr + refused.stderr
