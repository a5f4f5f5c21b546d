"""DLRover's command with DLRover's flags: the confs of the seeds, and killed jobs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.dialects.dlrover.command.dlrover import dlrover
from generic_trainer.executors.evaluation.error_analysis import read_error_analysis

Command = Callable[..., subprocess.CompletedProcess[str]]

# The estimator and the conf from DLRover's documentation, in one file.
ESTIMATOR = """
    import tensorflow.compat.v1 as tf
    from dlrover.trainer.util.log_util import default_logger as logger

    tf.disable_v2_behavior()

    class MyEstimator(tf.estimator.Estimator):
        def __init__(self, model_dir, config=None, params=None):
            logger.info("config is %s", config)
            super(MyEstimator, self).__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

        def model_fn(self, features, labels, mode, params):
            w = tf.Variable(0.1, name="x")
            b = tf.Variable(0.1, name="b")
            prediction = w * features["x"] + b
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, predictions=prediction)
            loss = tf.losses.mean_squared_error(labels, prediction)
            metrics = {"mse": tf.metrics.mean_squared_error(labels, prediction)}
            optimizer = tf.train.AdamOptimizer(params["learning_rate"])
            train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)
"""
CONF = """
    import numpy as np
    from MyEstimator import MyEstimator
    from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
    from dlrover.trainer.tensorflow.util.column_info import Column

    class FakeReader(ElasticReader):
        def __init__(self, path=None):
            self.count = 1
            super().__init__(path=path)

        def count_data(self):
            self._data_nums = 10

        def read_data_by_index_range(self, start_index, end_index):
            data = []
            for i in range(start_index, end_index):
                x = np.random.randint(1, 1000)
                y = 2 * x + np.random.randint(1, 5)
                d = "{},{}".format(x, y)
                data.append(d)
            return data

    class TrainConf(object):
        classifier_class = MyEstimator
        max_steps = 50
        save_steps = 20
        log_steps = 10
        eval_steps = 10
        model_dir = "./model"
        params = {"learning_rate": 0.1}
        train_set = {
            "reader": FakeReader("fake://test.data"),
            "epoch": 1000,
            "batch_size": 20,
            "columns": (
                Column.create(  # type: ignore
                    name="x",
                    dtype="float32",
                    is_label=False,
                ),
                Column.create(  # type: ignore
                    name="y",
                    dtype="float32",
                    is_label=True,
                ),
            ),
        }
        eval_set = {"reader": FakeReader("./eval.data"), "columns": train_set["columns"]}
"""


def write(folder: pathlib.Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


def record(folder: pathlib.Path) -> dict[str, Any]:
    return json.loads((folder / "dlrover_output" / "model_run" / "run.json").read_text())


def in_checkpoint(model_dir: pathlib.Path, name: str) -> Any:
    import tensorflow as tf

    return tf.train.load_variable(str(model_dir), f"{name}/.ATTRIBUTES/VARIABLE_VALUE")


@pytest.mark.legacy
@pytest.mark.slow
def test_the_seeds_conf_trains_evaluates_and_exports_by_dlrovers_command_line(
    command: Command, tmp_path: pathlib.Path
) -> None:
    write(tmp_path, MyEstimator=ESTIMATOR, conf=CONF)
    line = ["dlrover", "--platform=Local", "--conf=conf.TrainConf", "--enable_auto_scaling=True", "--worker_num=3"]
    done = command(*line, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "--worker_num is ignored" in done.stderr
    assert "mse" in done.stdout
    assert in_checkpoint(tmp_path / "model", "global_step") == 50
    exported = max((tmp_path / "model" / "export" / "best_exporter").iterdir())
    signatures = record(tmp_path)["check"]["signatures"]
    assert signatures["serving_default"] == {"inputs": {"x": "float32 (?)"}, "outputs": {"output": "float32 (?)"}}
    assert signatures["examples:serving_default"]["inputs"] == {"examples": "string (?)"}
    published = tmp_path / "dlrover_output" / "model" / "Format-Serving" / "saved_model.pb"
    analysis = read_error_analysis(str(tmp_path / "dlrover_output" / "model_run"))
    assert analysis is not None
    assert (analysis.problem, analysis.examples, analysis.outputs[0].task) == ("", 10, "regression")
    assert analysis.outputs[0].errors.columns == ["label", "prediction", "error", "x"]
    assert published.read_bytes() == (exported / "saved_model.pb").read_bytes()


# A model whose weights count how often each record was trained.
COUNTING = """
    import time
    import tensorflow.compat.v1 as tf
    from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
    from dlrover.trainer.tensorflow.util.column_info import Column

    ROWS = 1000

    class Numbers(ElasticReader):
        def count_data(self):
            self._data_nums = ROWS

        def read_data_by_index_range(self, start_index, end_index):
            return [f"{i},{i % 2}" for i in range(start_index, end_index)]

    class Counter(tf.estimator.Estimator):
        def __init__(self, model_dir, config=None, params=None):
            super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

        def model_fn(self, features, labels, mode, params):
            seen = tf.get_variable("seen", [ROWS], tf.int64, tf.zeros_initializer(), trainable=False)
            predictions = {"seen": tf.gather(seen, features["id"])}
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, predictions)
            loss = tf.reduce_mean(tf.cast(labels, tf.float32))
            counted = tf.scatter_add(seen, features["id"], tf.ones_like(features["id"]))
            slow = tf.py_func(lambda: time.sleep(0.01), [], [])
            step = tf.train.get_or_create_global_step()
            with tf.control_dependencies([counted, slow]):
                train_op = tf.assign_add(step, 1)
            return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

    class TrainConf:
        classifier_class = Counter
        model_dir = "model"
        save_steps = 20
        train_set = {
            "reader": Numbers("numbers"),
            "epoch": 3,
            "batch_size": 3,
            "columns": [
                Column.create(name="id", dtype="int64"),
                Column.create(name="odd", dtype="int64", is_label=True),
            ],
        }
        eval_set = {"reader": Numbers("numbers"), "columns": train_set["columns"]}
"""
KILLS = int(os.environ.get("KILLS", "3"))


@contextlib.contextmanager
def started(folder: pathlib.Path) -> Any:
    line = [sys.executable, "-m", "generic_trainer.cli.main", "dlrover", "--conf=conf.TrainConf"]
    with open(folder / "log.txt", "a") as log:
        job = subprocess.Popen(line, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            yield job
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def training_process(job: subprocess.Popen[bytes]) -> int | None:
    """Waits for the training process and returns it."""
    children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    for child in children:
        if b"training.worker" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    return None


@pytest.mark.thorough
@pytest.mark.slow
def test_every_record_counts_once_per_epoch_despite_kills(command: Command, tmp_path: pathlib.Path) -> None:
    """The environment variable KILLS sets the number of kills, at random times after a checkpoint or the start."""
    write(tmp_path, conf=COUNTING)
    model_dir = tmp_path / "model"
    chance = random.Random(0)
    steps: list[int] = []
    for number in range(KILLS):
        before = newest(model_dir)
        with started(tmp_path) as job:
            end = time.monotonic() + (chance.uniform(0, 15) if number % 3 == 2 else 120)
            while newest(model_dir) == before and job.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 0.6))
            # In half of the cases the command is killed; the training process must detect that and end.
            process = training_process(job) if number % 2 and job.poll() is None else None
            with contextlib.suppress(ProcessLookupError):
                os.kill(process or job.pid, signal.SIGKILL)
            job.wait(60)
        steps.append(newest(model_dir))
    assert steps == sorted(steps), (tmp_path / "log.txt").read_text()[-3000:]
    assert len(set(steps)) > 1
    done = command("dlrover", "--conf=conf.TrainConf", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(in_checkpoint(model_dir, "seen")) == {3}
    assert newest(model_dir) == 1000  # 3,000 rows in batches of 3


def newest(model_dir: pathlib.Path) -> int:
    """Returns the step of the last complete checkpoint; -1 without one."""
    state = model_dir / "checkpoint"
    first = state.read_text().partition("\n")[0] if state.exists() else ""
    return int(first.rpartition("-")[2].strip('"')) if first else -1


@pytest.mark.thorough
@pytest.mark.slow
def test_a_conf_trains_on_a_cluster_with_one_worker(command: Command, tmp_path: pathlib.Path) -> None:
    write(tmp_path, MyEstimator=ESTIMATOR, conf=CONF)
    rows = "".join(f"{x % 37},{2 * (x % 37)}\n" for x in range(400))
    (tmp_path / "line.csv").write_text(f"x,y\n{rows}")
    files = ["--train-files", "line.csv", "--eval-files", "line.csv", "--output", "out"]
    done = command("train", "conf.py", *files, "--cluster", "chief=1,ps=1,evaluator=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    run = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert run["status"] == "succeeded"
    assert "mse" in run["metrics"]["eval"]
    work = tmp_path / "out" / "model_run" / "Format-Serving"
    assert in_checkpoint(work, "global_step") == 50
    assert len(list((work / "export" / "best_exporter").iterdir())) >= 1


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ("Kubernetes", "--platform=Kubernetes: on a cluster, create a job from this command with `generic-trainer"),
        ("Lokal", "--platform=Lokal: choose Local. Did you mean 'LOCAL'?"),
    ],
)
def test_an_unsupported_platform_is_reported(command: Command, platform: str, said: str) -> None:
    done = command("dlrover", "--conf=conf.TrainConf", f"--platform={platform}")
    assert done.returncode == 2
    assert said in done.stderr


def test_no_option_is_the_beginning_of_a_flag_that_can_be_abbreviated() -> None:
    full_name = dlrover.context_settings["token_normalize_func"]
    names = [option.lstrip("-") for parameter in dlrover.params for option in parameter.opts]
    assert [full_name(name) for name in names] == names


def test_a_missing_conf_is_reported(command: Command, tmp_path: pathlib.Path) -> None:
    write(tmp_path, train_conf=CONF)
    done = command("dlrover", "--conf=trian_conf.TrainConf", cwd=tmp_path)
    assert done.returncode == 2
    assert "Did you mean 'train_conf'?" in done.stderr
