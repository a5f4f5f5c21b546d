"""Trainings in threads of one process depend on each other in nothing."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from generic_trainer import FnArgs, ModelCheckError, TrainingOptions, train
from generic_trainer.executors.monitoring import display
from generic_trainer.executors.monitoring.run_record import RunRecord

from ...world.records import example

MODULE = """
    import tensorflow as tf
    from tiny import Tiny

    def run_fn(fn_args):
        number = fn_args.custom_config["number"]
        model = Tiny(float("nan") if number in (2, 5) else float(number))
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        return {"loss": float(number)}
"""


def process_state() -> tuple[object, ...]:
    mask = os.umask(0)
    os.umask(mask)
    variables = {name: value for name, value in os.environ.items() if name.startswith("GENERIC_TRAINER_")}
    return variables, os.getcwd(), mask, [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.thorough
@pytest.mark.slow
def test_of_eight_at_once_six_are_published_each_its_own_and_two_are_rejected_and_kept(
    tiny_module: str, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    path = module(MODULE, tiny=pathlib.Path(tiny_module).read_text())
    out = tmp_path / "out"
    before = process_state()

    def run(number: int) -> RunRecord | ModelCheckError:
        args = FnArgs(
            train_files=[iris.train],
            eval_files=[iris.eval],
            custom_config={"number": number},
            serving_model_dir=str(out / f"model-{number}"),
            eval_model_dir=str(out / f"eval-{number}"),
            model_run_dir=str(tmp_path / "runs" / str(number)),
        )
        try:
            return train(path, args)
        except ModelCheckError as error:
            return error

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(run, range(8)))

    question = tf.constant([example(sepal_length=2.0)])
    for number, result in enumerate(results):
        record = json.loads((tmp_path / "runs" / str(number) / "run.json").read_text())
        assert record["arguments"]["custom_config"] == {"number": number}
        assert record["metrics"]["train"] == {"loss": number}
        if number in (2, 5):
            assert isinstance(result, ModelCheckError)
            assert f"{out}/model-{number} failed the check 'finite'" in str(result)
            assert record["status"] == "failed"
            assert str(tmp_path / "runs" / str(number) / "rejected") in str(result)
            kept = tf.saved_model.load(os.path.join(record["rejected"], f"model-{number}"))
            assert tf.math.is_nan(kept.signatures["serving_default"](question)["y"])
        else:
            assert isinstance(result, RunRecord)
            assert record == json.loads(json.dumps(result.to_json()))
            model = tf.saved_model.load(str(out / f"model-{number}"))
            assert model.signatures["serving_default"](question)["y"].numpy().tolist() == [[2.0 * number]]
    assert sorted(os.listdir(out)) == [f"model-{number}" for number in range(8) if number not in (2, 5)]
    assert process_state() == before


# Each training waits for the others, in a subprocess; in this process they run one after the other.
TRACKED = """
    import os, pathlib, time
    import mlflow
    import tensorflow as tf
    from generic_trainer import report_progress
    from tiny import Tiny

    def run_fn(fn_args):
        number, isolated = fn_args.custom_config["number"], fn_args.custom_config["isolated"]
        meeting = pathlib.Path(fn_args.custom_config["meeting"])
        (meeting / str(number)).touch()
        while isolated and len(list(meeting.iterdir())) < 3:
            time.sleep(0.01)
        with mlflow.start_run() as run:
            mlflow.log_param("from_the_module", number)
        report_progress(0)
        report_progress(number, total=number)
        print(f"output of training {number} in MLflow's run {run.info.run_id}")
        os.environ[f"SET_BY_MODULE_{number}"] = "1"
        model = Tiny(float(number))
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        if number == 3:
            raise OSError("the disk is on fire")
        return {"loss": float(number)}
"""


class Reports(display.Display):
    """Keeps the last step that a training has reported."""

    is_live = True
    step = 0.0

    def show(self, report: display.Report) -> None:
        assert isinstance(report, display.Progress)
        self.step = report.step


class SampledEnvironment(threading.Thread):
    """The names of environment variables whose values have changed at any time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.changed: set[str] = set()
        self.before = os.environ.copy()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.002):
            self.changed |= {name for name, _ in self.before.items() ^ os.environ.copy().items()}

    def end(self) -> set[str]:
        self._over.set()
        self.join()
        return self.changed


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [True, False])
def test_trainings_at_once_have_their_own_mlflow_run_variables_progress_and_record(
    isolated: bool, tiny_module: str, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    import tfx  # noqa: F401 (sets a variable for Protobuf)

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(None)  # deletes the variable if a test before has set the URI
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("threads", artifact_location=str(tmp_path / "artifacts"))
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", experiment)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    tiny = pathlib.Path(tiny_module).read_text()

    def run(number: int) -> float:
        (tmp_path / str(number)).mkdir()
        args = FnArgs(
            train_files=[iris.train],
            eval_files=[iris.eval],
            custom_config={"number": number, "isolated": isolated, "meeting": str(meeting)},
            serving_model_dir=str(tmp_path / str(number) / "model"),
            model_run_dir=str(tmp_path / str(number) / "model_run"),
        )
        with display.use_display(reports := Reports()):
            try:
                train(paths[number], args, TrainingOptions(isolate=isolated, skip_checks=("answers",)))
            except OSError:
                assert number == 3
        return reports.step

    paths = {number: module(TRACKED, f"module_{number}.py", tiny=tiny) for number in (1, 2, 3)}
    environment = SampledEnvironment()
    environment.start()
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(run, (1, 2, 3))) == [1, 2, 3]
    changed = environment.end()

    of_module = {f"SET_BY_MODULE_{number}" for number in (1, 2, 3)}
    if isolated:
        assert changed == set()
    else:  # the worker in this process has its variables only while it runs
        for name in of_module:
            del os.environ[name]
        assert changed <= of_module | {"MLFLOW_RUN_ID", "TF_USE_LEGACY_KERAS", "GENERIC_TRAINER_PROGRESS"}
    assert dict(os.environ) == environment.before
    logged = client.search_runs([experiment])
    assert len(logged) == 3, [run.to_dictionary() for run in logged]
    assert all("custom_config.number" in run.data.params for run in logged), [run.to_dictionary() for run in logged]
    runs = {run.data.params["custom_config.number"]: run for run in logged}
    assert sorted(runs) == ["1", "2", "3"]
    for number, run in runs.items():
        record = json.loads((tmp_path / number / "model_run" / "run.json").read_text())
        assert record["arguments"]["custom_config"]["number"] == int(number)
        assert record["code"]["name"] == f"module_{number}"
        assert run.data.tags["generic_trainer.run"] == record["id"]
        assert run.data.params["from_the_module"] == number
        assert run.info.status == ("FAILED" if number == "3" else "FINISHED")
        assert run.data.metrics.get("model/train/loss") == (None if number == "3" else float(number))
