"""Clusters of real processes on this machine, started by --cluster or with TF_CONFIG as on a platform."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

MODULE = """
    import json
    import os
    import tensorflow as tf

    NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
    SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in NAMES}

    def _input_fn(patterns):
        def parse(records):
            parsed = tf.io.parse_example(records, {**SPEC, "variety": tf.io.FixedLenFeature([1], tf.int64)})
            return parsed, parsed.pop("variety")
        return tf.data.TFRecordDataset(tf.io.gfile.glob(patterns), "GZIP").repeat().batch(20).map(parse)

    def trainer_fn(fn_args, schema):
        columns = [tf.feature_column.numeric_column(name) for name in NAMES]
        mirrored = (fn_args.custom_config or {}).get("mirrored")
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy() if mirrored else None
        print("task", fn_args.is_chief, fn_args.worker_index, fn_args.num_workers, flush=True)
        print("seed", fn_args.seed, flush=True)
        estimator = tf.estimator.DNNClassifier(
            [8], columns, n_classes=3, optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.01),
            config=tf.estimator.RunConfig(
                tf_random_seed=1, model_dir=fn_args.serving_model_dir, train_distribute=strategy,
                save_checkpoints_steps=200, experimental_max_worker_delay_secs=0,
            ),
        )
        exporter = tf.estimator.FinalExporter(
            "final", tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)
        )
        return {
            "estimator": estimator,
            "train_spec": tf.estimator.TrainSpec(
                lambda: _input_fn(fn_args.train_files), max_steps=fn_args.train_steps
            ),
            "eval_spec": tf.estimator.EvalSpec(
                lambda: _input_fn(fn_args.eval_files), steps=2, exporters=[exporter],
                start_delay_secs=0, throttle_secs=1,
            ),
        }
"""


@pytest.fixture
def arguments(iris: Any, module: Callable[..., str], tmp_path: pathlib.Path) -> list[object]:
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path / "out"]
    return ["train", module(MODULE), *data]


def record(output: pathlib.Path, name: str = "run.json") -> dict[str, Any]:
    return json.loads((output / "model_run" / name).read_text())


@pytest.mark.legacy
@pytest.mark.slow
def test_a_cluster_trains_evaluates_and_exports_once(
    command: Command, arguments: list[object], tmp_path: pathlib.Path
) -> None:
    done = command(*arguments, "--train-steps", 600, "--cluster", "chief=1,worker=2,ps=1,evaluator=1")
    assert done.returncode == 0, done.stderr[-3000:]
    out = tmp_path / "out"
    assert record(out)["status"] == "succeeded"
    assert record(out)["metrics"]["eval"]["accuracy"] > 0.9
    tasks = ("worker-0", "worker-1", "ps-0", "evaluator-0")
    assert [record(out, f"tasks/{task}.json")["status"] for task in tasks] == ["succeeded"] * 4
    assert not any(record(out, f"tasks/{task}.json")["data"] for task in tasks)  # only the chief reads all files
    assert len(list((out / "model_run" / "Format-Serving" / "export" / "final").iterdir())) == 1
    assert [path.name for path in (out / "model").iterdir()] == ["Format-Serving"]  # no staging directory remains
    lines = done.stdout.splitlines()
    assert {"[chief 0] task True 0 3", "[worker 0] task False 1 3", "[worker 1] task False 2 3"} <= set(lines)
    assert f"Model:        {out}/model/Format-Serving" in lines
    assert "[ps 0] " in done.stderr
    checkpoints = (out / "model_run" / "Format-Serving").glob("model.ckpt-*.index")
    steps = [int(path.name.removeprefix("model.ckpt-").removesuffix(".index")) for path in checkpoints]
    assert 600 <= max(steps) < 605  # workers finish the step in progress when the last step is reached


@pytest.mark.thorough
@pytest.mark.slow
def test_mirrored_workers_without_chief_and_evaluator(
    command: Command, arguments: list[object], tmp_path: pathlib.Path
) -> None:
    """Worker 0 is the chief, and evaluates and exports at the end, which TensorFlow would not do."""
    config = ["--custom-config", '{"mirrored": true}']
    done = command(*arguments, "--train-steps", 300, "--cluster", "worker=2", *config)
    assert done.returncode == 0, done.stderr[-3000:]
    assert record(tmp_path / "out")["metrics"]["eval"]["accuracy"] > 0.9
    assert (tmp_path / "out" / "model" / "Format-Serving" / "saved_model.pb").exists()
    seeds = [line.split()[-1] for line in done.stdout.splitlines() if "seed" in line.split()]
    assert len(seeds) >= 2
    assert len(set(seeds)) == 1  # they share the batches, and no seed was set
    assert seeds[0] != "None"


@pytest.mark.thorough
@pytest.mark.slow
def test_the_same_command_does_the_task_that_tf_config_gives_it(
    arguments: list[object], tmp_path: pathlib.Path
) -> None:
    """As on Kubernetes: the evaluator is not in the cluster's list, and no task waits for another at the start."""
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in range(2)]
        for listener in listeners:
            listener.bind(("localhost", 0))
        chief, server = (f"localhost:{listener.getsockname()[1]}" for listener in listeners)
    cluster = {"chief": [chief], "ps": [server]}
    line = [sys.executable, "-m", "generic_trainer.cli.main", *map(str, arguments), "--train-steps", "300"]
    tasks = {}
    for role in ("evaluator", "ps", "chief"):
        environment = {**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})}
        tasks[role] = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        if role == "evaluator":
            wait_for(lambda: (tmp_path / "out" / "model_run" / "tasks" / "evaluator-0.json").exists())
    printed = {role: task.communicate(timeout=300) for role, task in tasks.items()}
    assert [task.returncode for task in tasks.values()] == [0, 0, 0], printed
    assert printed["evaluator"][0].splitlines()[-1] == "The evaluator 0 has finished."
    assert printed["ps"][0].splitlines()[-1] == "The ps 0 has finished."
    assert "accuracy" in printed["chief"][0]
    metrics = [record(tmp_path / "out", name)["metrics"]["eval"] for name in ("run.json", "tasks/evaluator-0.json")]
    assert metrics[0] == metrics[1]
    assert (tmp_path / "out" / "model" / "Format-Serving" / "saved_model.pb").exists()


def processes_of(role: str, mark: str) -> list[int]:
    """Returns the training processes with this role in their TF_CONFIG, and the mark in their environment."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            name, environment = (folder / "comm").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if (
            name == b"training_worker\n"
            and f'"type": "{role}"'.encode() in environment
            and mark.encode() in environment
        ):
            found.append(int(folder.name))
    return found


def wait_for(condition: Callable[[], Any], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.2)
    raise AssertionError("it did not come about in time")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("how", ["a dead parameter server", "an interrupt"])
def test_all_processes_of_a_cluster_end_together(how: str, arguments: list[object], tmp_path: pathlib.Path) -> None:
    line = [sys.executable, "-m", "generic_trainer.cli.main", *map(str, arguments)]
    line += ["--train-steps", "10000000", "--cluster", "chief=1,worker=1,ps=1"]
    mark = f"MARK_OF_A_TEST={tmp_path}"
    environment = {**os.environ, **dict([mark.split("=")])}
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        checkpoints = tmp_path / "out" / "model_run" / "Format-Serving"
        wait_for(lambda: (checkpoints / "checkpoint").exists())
        if how == "an interrupt":
            running.send_signal(signal.SIGINT)
        else:
            [server] = processes_of("ps", mark)
            os.kill(server, signal.SIGKILL)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    if how == "an interrupt":
        assert running.returncode == 130
        assert errors.splitlines()[-1] == "generic-trainer: interrupted; nothing was published."
    else:
        assert running.returncode == 75
        loss = r"generic-trainer: ps 0 at localhost:\d+ was lost: The ps 0 process was ended by SIGKILL"
        assert re.match(loss, errors.splitlines()[-1])
    assert not any(processes_of(role, mark) for role in ("chief", "worker", "ps"))
    assert not (tmp_path / "out" / "model" / "Format-Serving").exists()


@pytest.mark.slow
def test_an_interrupt_of_a_worker_says_that_the_chief_has_published(
    iris: Any, tiny_module: str, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    waiting = """
        import time, tiny

        def run_fn(fn_args):
            if fn_args.is_chief:
                tiny.run_fn(fn_args)
            else:
                time.sleep(600)
    """
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", str(tmp_path / "out")]
    line = [sys.executable, "-m", "generic_trainer.cli.main", "train", module(waiting), *data, "--cluster", "worker=2"]
    running = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    try:
        path = tmp_path / "out" / "model_run" / "run.json"
        wait_for(lambda: path.exists() and record(tmp_path / "out").get("status") == "succeeded")
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    model = tmp_path / "out" / "model" / "Format-Serving"
    assert errors.splitlines()[-1] == f"generic-trainer: interrupted; the model had been published to {model}."


def test_tf_config_is_checked_before_anything_starts(command: Command, arguments: list[object]) -> None:
    done = command(*arguments, env={**os.environ, "TF_CONFIG": '{"cluster": {"chief": ["a:0"]}}'})
    assert done.returncode == 2
    assert "has the address 'a:0' for 'chief'" in done.stderr
    done = command(*arguments, "--cluster", "chief=1,woker=2")
    assert done.returncode == 2
    assert "Did you mean 'worker'?" in done.stderr
