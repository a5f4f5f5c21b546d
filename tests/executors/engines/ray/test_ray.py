"""Training by several workers on a Ray cluster that is started for the run on this machine."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import psutil
import pytest

from generic_trainer import FnArgs, TrainingOptions, train
from generic_trainer.executors.engines.ray.bundle import pack, unpack
from generic_trainer.executors.engines.ray.session import session_folder
from generic_trainer.executors.engines.ray.worker import ReportCollector, is_transient, kill
from generic_trainer.executors.errors import ModuleError, ProcessDiedError, TrainingProcessError
from generic_trainer.executors.modules.keras_version import KerasChoice
from generic_trainer.executors.modules.source import find_source
from generic_trainer.executors.monitoring import progress, progress_reports

ray = pytest.importorskip("ray")
Command = Callable[..., subprocess.CompletedProcess[str]]
MODULES = pathlib.Path(__file__).resolve().parents[4] / "module_files"

# The example with a slower worker 1, which is killed at its 75th step on the first attempt only; one of its helpers is
# in the module's folder.
KILLED = """
    import os
    import signal
    import time
    import digits_workers
    from digits_workers import *

    make = digits_workers.make_train_step

    def make_train_step(*arguments):
        train_step, count = make(*arguments), [0]

        def killing(batch):
            count[0] += 1
            if os.environ["TF_CONFIG"].endswith('"index": 1}}'):
                time.sleep(0.02)
                if count[0] == 75:
                    os.kill(os.getpid(), signal.SIGKILL)
            return train_step(batch)

        return killing

    def run_fn(fn_args):
        digits_workers.make_train_step = make_train_step
        return digits_workers.run_fn(fn_args)
"""

# Trains until a file exists; all workers see it at the same step.
UNTIL_ENOUGH = """
    import os
    import time
    import tensorflow as tf
    from generic_trainer import AsyncCheckpoints, report_progress, strategy

    class Counted(tf.Module):
        def __init__(self, steps):
            super().__init__()
            self.steps = tf.Variable(steps)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, examples):
            return {"steps": tf.fill([tf.size(examples)], self.steps)}

    def run_fn(fn_args):
        distribution = strategy(fn_args)
        with distribution.scope():
            step = tf.Variable(0, dtype=tf.int64)

        @tf.function
        def seen(flag):
            return distribution.reduce("SUM", distribution.run(lambda value: value, args=(flag,)), axis=None)

        with AsyncCheckpoints(tf.train.Checkpoint(step=step), fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
            checkpoints.restore()
            number, enough = int(step.numpy()), False
            report_progress(number)
            while not enough:
                is_there = float(os.path.exists(fn_args.custom_config["enough"]))
                flag = distribution.experimental_distribute_values_from_function(lambda _: tf.constant(is_there))
                enough = seen(flag) > 0
                time.sleep(0.1)
                number += 1
                step.assign(number)
                report_progress(number)
                if number % 10 == 0:
                    checkpoints.save(number)
        model = Counted(number)
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


def record_of(output: pathlib.Path, folder: str = "model_run") -> dict[str, Any]:
    return json.loads((output / folder / "run.json").read_text())


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(
    command: Command, module: Callable[..., str], digits: Any, tmp_path: pathlib.Path
) -> None:
    """Two workers, one of which is killed, reach the loss of one worker on the same global batches."""
    data = ["--train-files", digits.train, "--eval-files", digits.eval, "--train-steps", 120, "--seed", 1]
    path = module(KILLED, digits_workers=(MODULES / "digits_workers.py").read_text())

    killed = command("train", path, *data, "--output", tmp_path / "two", "--engine", "ray", "--workers", 2)
    alone = command("train", MODULES / "digits_workers.py", *data, "--output", tmp_path / "one")

    assert killed.returncode == 0, killed.stderr[-5000:]
    assert alone.returncode == 0, alone.stderr[-3000:]
    two, one = record_of(tmp_path / "two"), record_of(tmp_path / "one")
    cluster = two["cluster"]
    assert cluster["workers"] == [2, 2]
    assert any("SIGKILL" in failure for failure in cluster["failures"])
    # It had done 74 steps and saved at step 50.
    assert [(one["first_step"], one["last_step"], one["lost_steps"]) for one in cluster["tries"]] == [
        (0, 74, 24),
        (50, 120, 0),
    ]
    assert (cluster["restarts"], cluster["redone_steps"], cluster["stragglers"]) == (1, 24, {})
    assert sum(one["seconds"] for one in cluster["tries"]) / cluster["goodput"] > cluster["tries"][1]["began"]
    assert f"1 restart, 24 steps repeated, goodput {cluster['goodput']:.2f}\n" in killed.stdout
    assert "worker 0 " in killed.stdout
    assert "[2 workers] step 120, " in killed.stderr
    for speed in cluster["speeds"].values():  # 16 of a batch's 32 examples each
        assert speed["examples_per_second"] == pytest.approx(16 * speed["steps_per_second"], rel=1e-2)
    assert "[worker 0] " in killed.stderr
    assert "Workers:      2, 2 after a failure" in killed.stdout
    assert "Resuming from" in killed.stderr
    assert two["metrics"]["train"]["loss"] == pytest.approx(one["metrics"]["train"]["loss"], rel=1e-4)
    assert two["metrics"]["eval"]["accuracy"] == one["metrics"]["eval"]["accuracy"] > 0.9
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["model", "model_run"]
    assert not (tmp_path / "two" / "model_run" / "ray").exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_an_estimator_with_a_parameter_server_saves_on_sigterm_and_resumes(
    command: Command, iris: Any, tmp_path: pathlib.Path
) -> None:
    line = ["train", MODULES / "iris_estimator.py", "--train-files", iris.train, "--eval-files", iris.eval]
    line += ["--train-steps", 1500, "--output", tmp_path, "--seed", 1]
    line += ["--engine", "ray", "--workers", 2, "--ps", 1, "--cpus-per-worker", 0.5]

    python = [sys.executable, "-m", "generic_trainer.cli.main", *map(str, line)]
    with subprocess.Popen(python, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        next(row for row in running.stderr if row.startswith("[2 workers] step "))
        running.send_signal(signal.SIGTERM)
        running.stderr.read()
    assert running.returncode == 143
    saved = (tmp_path / "model_run" / "Format-Serving").glob("model.ckpt-*.index")
    step = max(int(path.stem.rpartition("-")[2]) for path in saved)
    assert 0 < step < 1500

    done = command(*line)

    assert done.returncode == 0, done.stderr[-5000:]
    record = record_of(tmp_path)
    cluster = record["cluster"]
    assert (cluster["workers"], cluster["failures"], cluster["redone_steps"]) == ([2], [], 0)
    [only] = cluster["tries"]
    assert only["first_step"] == step
    assert only["last_step"] >= 1500
    assert set(cluster["speeds"]) == {"chief 0", "worker 0"}
    assert record["metrics"]["eval"]["accuracy"] > 0.8
    assert record["check"]["checks"]["answers"] == "passed"


@pytest.mark.thorough
@pytest.mark.slow
def test_training_continues_with_fewer_workers_and_grows_again(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    """A node of the cluster is lost, and another one joins."""
    from ray.cluster_utils import Cluster

    enough = tmp_path / "enough"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        node = cluster.add_node(num_cpus=1)
        line = [sys.executable, "-m", "generic_trainer.cli.main", "train", module(UNTIL_ENOUGH)]
        line += ["--train-files", iris.train, "--output", str(tmp_path / "out")]
        line += ["--custom-config", json.dumps({"enough": str(enough)})]
        line += ["--engine", "ray", "--cluster-address", cluster.address, "--workers", "1:2", "--max-failures", "-1"]
        with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
            assert running.stderr is not None
            said: list[str] = []
            rows = (said.append(row) or row for row in running.stderr)
            for _ in range(2):  # ten seconds between them, and a hundred steps
                next(row for row in rows if row.startswith("[2 workers] step "))
            cluster.remove_node(node, allow_graceful=False)
            next((row for row in rows if row.startswith("[1 worker] step ")), None)
            cluster.add_node(num_cpus=1)
            next((row for row in rows if row.startswith("[2 workers] step ")), None)
            enough.touch()
            said += running.stderr
    finally:
        cluster.shutdown()
    assert running.returncode == 0, "".join(said)[-5000:]
    assert "was lost: its node has died" in "".join(said)
    cluster_record = record_of(tmp_path / "out")["cluster"]
    assert any("was lost: its node has died" in failure for failure in cluster_record["failures"])
    assert cluster_record["workers"] == [2, 1, 2]
    lost, fewer, more = cluster_record["tries"]
    assert 0 < fewer["first_step"] <= lost["last_step"]
    assert more["first_step"] > fewer["first_step"]
    assert fewer["lost_steps"] <= 20  # saved every tenth step, reported every second


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("lost", ["node", "worker process"])
def test_a_lost_node_or_worker_is_named_and_not_the_survivor(
    lost: str, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        node = cluster.add_node(num_cpus=1)
        line = [sys.executable, "-m", "generic_trainer.cli.main", "train", module(UNTIL_ENOUGH)]
        line += ["--train-files", iris.train, "--output", str(tmp_path / "out")]
        line += ["--custom-config", json.dumps({"enough": str(tmp_path / "never")})]
        line += ["--engine", "ray", "--cluster-address", cluster.address, "--workers", "2", "--max-failures", "0"]
        with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
            assert running.stderr is not None
            said: list[str] = []
            next(row for row in (said.append(row) or row for row in running.stderr) if "[2 workers] step " in row)
            if lost == "node":
                cluster.remove_node(node, allow_graceful=False)
            else:
                workers = [one for one in psutil.process_iter(["cmdline"]) if "WorkerHost" in str(one.info["cmdline"])]
                [worker] = [one for one in workers if _is_started_by(one, node)]
                worker.kill()
            said += running.stderr
    finally:
        cluster.shutdown()
    errors = "".join(said)
    assert running.returncode == 1, errors[-5000:]
    last = said[-1]
    assert last.startswith("generic-trainer: Training failed after 1 attempt: worker "), errors[-5000:]
    assert f" on the node {node.node_ip_address} was lost: its {'node' if lost == 'node' else 'worker process'}" in last
    assert "run_fn" not in last
    assert 'File "' not in "".join(said[-3:])
    record = record_of(tmp_path / "out")
    assert record["error"]["type"] == "ProcessDiedError"
    assert record["traceback"] == ""


def _is_started_by(process: psutil.Process, node: Any) -> bool:
    """Returns whether a worker belongs to a node of `Cluster`, by the node's raylet among its ancestors."""
    raylet = node.all_processes["raylet"][0].process.pid
    return raylet in [parent.pid for parent in process.parents()]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_pipeline_steps_estimator_is_evaluated_in_its_model_dir(iris: Any, tmp_path: pathlib.Path) -> None:
    fn_args = FnArgs(
        train_files=[iris.train],
        eval_files=[iris.eval],
        train_steps=300,
        serving_model_dir=str(tmp_path / "model" / "Format-Serving"),
        model_run_dir=str(tmp_path / "model_run" / "7"),
    )
    options = TrainingOptions(engine="ray", workers="2", ps=1, cpus_per_worker=0.5, seed=1, timeout=300)

    record = train(
        str(MODULES / "iris_estimator.py"), fn_args, options, checkpoint_root=str(tmp_path / "model_run" / ".tries")
    )

    assert record.cluster["workers"] == [2]
    assert record.metrics["eval"]["accuracy"] > 0.5
    assert record.check["checks"]["answers"] == "passed"
    assert record_of(tmp_path / "model_run" / "7", "")["status"] == "succeeded"
    assert list((tmp_path / "model_run" / "7" / "Format-Serving").glob("model.ckpt-*.index"))


@pytest.mark.thorough
@pytest.mark.slow
def test_an_error_of_the_module_is_raised_immediately(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module("""
        def run_fn(fn_args):
            if fn_args.worker_index == 1:
                raise KeyError("no such feature")
            import time
            time.sleep(600)
    """)

    done = command(
        *["train", path, "--train-files", iris.train, "--output", tmp_path],
        *["--engine", "ray", "--workers", 2, "--keras", "2"],
    )

    assert done.returncode == 1
    assert "KeyError: 'no such feature'" in done.stderr
    assert 'raise KeyError("no such feature")' in done.stderr
    record = record_of(tmp_path)
    assert record["error"]["type"] == "KeyError"
    assert record["cluster"]["workers"] == [2]


@pytest.mark.thorough
@pytest.mark.slow
def test_it_gives_up_after_too_many_failures_and_leaves_no_session_folder(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    # Not tmp_path: Ray's sockets need a short path; a longer TMPDIR is replaced by /tmp.
    temporary = pathlib.Path(tempfile.mkdtemp(prefix="gt-"))
    request.addfinalizer(lambda: shutil.rmtree(temporary))
    path = module("""
        import os
        import signal

        def run_fn(fn_args):
            if fn_args.worker_index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            import time
            time.sleep(1000)
    """)
    done = command(
        *["train", path, "--train-files", iris.train, "--output", tmp_path],
        *["--engine", "ray", "--workers", 2, "--cpus-per-worker", 0.5, "--max-failures", 1],
        env={**os.environ, "TMPDIR": str(temporary)},
    )

    assert done.returncode == 1
    said = "Training failed after 2 attempts; in the last one, worker 1 raised ProcessDiedError"
    assert said in done.stderr.splitlines()[-1]
    record = record_of(tmp_path)
    assert record["error"]["type"] == "TrainingProcessError"
    assert record["cluster"]["workers"] == [2, 2]
    assert len(record["cluster"]["failures"]) == 2
    assert [name for name in os.listdir(temporary) if "ray" in name] == []
    assert not (tmp_path / "model" / "Format-Serving").exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_more_workers_than_the_cluster_has_room_for(command: Command, tiny_module: str, tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data.tfrecord"
    data.write_bytes(b"")

    done = command(
        *["train", tiny_module, "--train-files", data, "--output", tmp_path, "--engine", "ray", "--workers", 1000]
    )

    assert done.returncode == 2
    assert "1000 workers and parameter servers need 1000 CPU in total; the cluster has " in done.stderr


def test_an_address_that_does_not_answer(command: Command, tiny_module: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.tfrecord").write_bytes(b"")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = command(
            *["train", tiny_module, "--train-files", tmp_path / "data.tfrecord", "--output", tmp_path / "out"],
            *["--engine", "ray", "--cluster-address", address],
        )

    assert done.returncode == 2
    assert f"cluster_address='{address}' does not answer (Connection refused)" in done.stderr


def test_an_existing_cluster_needs_no_engine(command: Command, tiny_module: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.tfrecord").write_bytes(b"")
    tf_config = '{"cluster": {"worker": ["localhost:1", "localhost:2"]}, "task": {"type": "worker", "index": 1}}'
    done = command(
        *["train", tiny_module, "--train-files", tmp_path / "data.tfrecord", "--output", tmp_path, "--engine", "ray"],
        env={**os.environ, "TF_CONFIG": tf_config},
    )

    assert done.returncode == 2
    assert "engine='ray': TF_CONFIG already makes this process worker 1 of a cluster" in done.stderr


@pytest.mark.skipif(not KerasChoice("3", "").environment(), reason="TensorFlow before 2.16 has only Keras 2")
def test_keras_3_is_refused_before_anything_starts(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module("import keras\ndef run_fn(fn_args):\n    build_model().fit(data, epochs=3)\n")

    done = command("train", path, "--train-files", iris.train, "--output", tmp_path, "--engine", "ray", "--workers", 2)

    assert done.returncode == 2
    assert "trainer_module.py, line 3: build_model().fit(…): Keras 3 (trainer_module.py, line 1:" in done.stderr
    assert "Use Keras 2" in done.stderr
    assert "Started a local Ray" not in done.stderr


# Saves its model, then works on without Ray's servers, as an upload or a long evaluation does.
SAVED_EARLY = """
    import pathlib
    import time
    import tensorflow as tf

    class Tiny(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            parsed = tf.io.parse_example(examples, {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)})
            return {"y": 3.0 * parsed["sepal_length"]}

    def run_fn(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
        begun = pathlib.Path(fn_args.custom_config["begun"])
        is_first = not begun.exists()
        begun.touch()
        time.sleep(fn_args.custom_config["seconds"] if is_first else 0)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("server", "seconds"), [("raylet", 600), ("gcs_server", 5)])
def test_a_server_of_rays_that_dies_is_named_and_the_model_is_kept(
    server: str, seconds: int, command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    line = _saved_early(module, iris, tmp_path, seconds)

    process, last = _end_by_kill(
        line, tmp_path, lambda run: next(child for child in run.children(recursive=True) if child.name() == server)
    )

    assert last.startswith(f"generic-trainer: Ray's {server} (process {process.pid}) died during the run"), last
    rejected = _rejected(tmp_path / "out")

    done = command(*line)

    assert done.returncode == 0, done.stderr[-5000:]
    is_finished = server == "gcs_server"  # the training process outlives it for a minute, and writes its result
    assert (record_of(tmp_path / "out")["resumed_model"] == rejected) == is_finished


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("server", "seconds"), [("raylet", 600), ("gcs_server", 5)])
def test_a_server_of_an_existing_cluster_that_dies_is_named_and_a_finished_model_needs_no_cluster(
    server: str, seconds: int, command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        line = [*_saved_early(module, iris, tmp_path, seconds), "--cluster-address", cluster.address]
        killed = psutil.Process(cluster.head_node.all_processes[server][0].process.pid)
        _, last = _end_by_kill(line, tmp_path, lambda _: killed)
    finally:
        cluster.shutdown()
    assert last.startswith(f"generic-trainer: Ray's {server} at "), last
    rejected = _rejected(tmp_path / "out")

    done = command(*line)

    is_finished = server == "gcs_server"
    assert done.returncode == (0 if is_finished else 2), done.stderr[-5000:]
    assert (record_of(tmp_path / "out")["resumed_model"] == rejected) == is_finished
    assert ("does not answer" in done.stderr) == (not is_finished)


def _saved_early(module: Callable[..., str], iris: Any, folder: pathlib.Path, seconds: int) -> list[str]:
    """Returns the arguments of a training whose module returns `seconds` after it has saved its model."""
    values = json.dumps({"begun": str(folder / "begun"), "seconds": seconds})
    return [
        *["train", module(SAVED_EARLY), "--train-files", iris.train, "--eval-files", iris.eval],
        *["--output", str(folder / "out"), "--engine", "ray", "--workers", "1", "--max-failures", "0"],
        *["--custom-config", values],
    ]


def _end_by_kill(
    line: list[str], folder: pathlib.Path, find: Callable[[psutil.Process], psutil.Process]
) -> tuple[psutil.Process, str]:
    """Kills a process when the module has saved its model; returns it and the last line of the failed command."""
    python = [sys.executable, "-m", "generic_trainer.cli.main", *line]
    with subprocess.Popen(python, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        while not (folder / "begun").exists() and running.poll() is None:
            time.sleep(0.1)
        process = find(psutil.Process(running.pid))
        process.kill()
        assert running.stderr is not None
        errors = running.stderr.read()
    assert running.returncode == 1, errors[-5000:]
    assert "Traceback" not in errors
    return process, errors.splitlines()[-1]


def _rejected(output: pathlib.Path) -> str:
    """Returns the folder of the model that a run has kept after Ray's death."""
    record = record_of(output)
    assert record["error"]["type"] == "ProcessDiedError"
    assert record["check"]["checks"]["loads"] == "passed"
    assert (pathlib.Path(record["rejected"]) / "Format-Serving" / "saved_model.pb").exists()
    return record["rejected"]


# Worker 1 works on until a file exists, when worker 0 has ended.
UNEVEN = """
    import pathlib
    import time
    import tensorflow as tf

    class Constant(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            return {"y": tf.ones_like(tf.strings.length(examples))}

    def run_fn(fn_args):
        model = Constant()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
        while fn_args.worker_index == 1 and not pathlib.Path(fn_args.custom_config["enough"]).exists():
            time.sleep(0.1)
"""
# Starts the command with a shorter interval between the lines.
_OFTEN = """
from generic_trainer.cli.main import main
from generic_trainer.executors.engines.ray import driver

driver.WAITING_SECONDS = 0.5
main()
"""


@pytest.mark.slow
def test_the_worker_that_is_waited_for_is_named_when_the_others_have_ended(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    enough = tmp_path / "enough"
    line = [sys.executable, "-c", _OFTEN, "train", module(UNEVEN), "--train-files", iris.train]
    line += ["--output", str(tmp_path / "out"), "--engine", "ray", "--workers", "2", "--cpus-per-worker", "0.5"]
    line += ["--custom-config", json.dumps({"enough": str(enough)}), "--max-failures", "0"]

    with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        errors: list[str] = []
        rows = (errors.append(row) or row for row in running.stderr)
        waited = [next(row for row in rows if "Waiting for worker " in row) for _ in range(2)]
        enough.touch()
        errors += running.stderr

    assert running.returncode == 0, "".join(errors)[-5000:]
    for row in waited:
        assert "Waiting for worker 1 on the node " in row
        assert row.endswith(" to end; the other tasks have ended.\n")


@pytest.mark.thorough
@pytest.mark.slow
def test_ray_is_named_when_only_its_server_is_waited_for(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    python = [sys.executable, "-m", "generic_trainer.cli.main", *_saved_early(module, iris, tmp_path, seconds=3)]
    with subprocess.Popen(python, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        while not (tmp_path / "begun").exists() and running.poll() is None:
            time.sleep(0.1)
        [process] = [
            child for child in psutil.Process(running.pid).children(recursive=True) if child.name() == "raylet"
        ]
        process.suspend()
        assert running.stderr is not None
        try:
            waiting = next(row for row in running.stderr if "still waiting" in row)
        finally:
            process.resume()
        errors = running.stderr.read()

    assert "Ending Ray's processes has taken " in waiting
    assert running.returncode == 0, errors[-5000:]


def test_the_session_folder_of_a_killed_run_is_removed_by_the_next(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = """
        import os, signal
        from generic_trainer.executors.engines.ray.session import session_folder
        with session_folder("model_run") as session:
            print(session.folder, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    temporary = pathlib.Path(tempfile.mkdtemp(prefix="gt-"))  # short enough for Ray's sockets
    try:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        line = [sys.executable, "-c", textwrap.dedent(killed)]
        folder = subprocess.run(line, env=environment, capture_output=True, text=True, check=False).stdout.strip()
        assert pathlib.Path(folder).is_dir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        with session_folder(str(tmp_path)) as running, session_folder(str(tmp_path)) as second:
            assert not pathlib.Path(folder).exists()
            assert pathlib.Path(running.folder).is_dir()  # its run is alive
            assert pathlib.Path(second.folder).is_dir()
        assert not list(temporary.iterdir())
    finally:
        shutil.rmtree(temporary)


def test_a_module_travels_by_content(module: Callable[..., str], tmp_path: pathlib.Path) -> None:
    path = module("from . import helper\nfrom .parts import layers\n", helper="A = 1\n", **{"parts/__init__": ""})
    layers = pathlib.Path(path).parent / "parts" / "layers.py"
    layers.write_text("B = 2\n")
    source = find_source(path, str(tmp_path / "scratch"))

    bundle = pack(source)
    assert unpack(bundle, str(tmp_path / "unused")) == source  # the same files exist locally, so they are used
    assert not (tmp_path / "unused").exists()

    layers.write_text("B = 3\n")  # as on another machine
    there = unpack(bundle, str(tmp_path / "there"))
    again = find_source(there.path, str(tmp_path / "scratch"))
    assert there.path.startswith(str(tmp_path / "there"))
    assert again.fingerprint == there.fingerprint == source.fingerprint
    assert [pathlib.Path(file).read_text() for file in there.files if file.endswith("layers.py")] == ["B = 2\n"]


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ProcessDiedError("killed"), True),
        (ConnectionResetError("peer"), True),
        (OSError(5, "Input/output error"), True),
        (type("UnavailableError", (Exception,), {})("peer is gone"), True),
        (FileNotFoundError(2, "No such file"), False),
        (TrainingProcessError("did not end within timeout"), False),
        (ModuleError("no dialect"), False),
        (ValueError("shapes"), False),
    ],
)
def test_which_failures_are_retried(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


def test_a_checkpoint_is_written_before_its_process_is_killed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = progress_reports.create_progress_file(str(tmp_path))
    monkeypatch.setenv(progress_reports.VARIABLE, path)
    progress.report_details(writing=40)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        killing = threading.Thread(target=kill, args=(process.pid, path))
        killing.start()
        time.sleep(0.3)
        assert process.poll() is None
        progress.report_details(writing=None)
        assert process.wait(10) == -signal.SIGKILL
        killing.join()


def test_parameter_servers_may_exit_when_all_training_workers_have_ended() -> None:
    collector = ReportCollector(1)
    assert collector.begin("first", 3)
    collector.finish(0, "chief 0", {"metrics": {}})
    assert not collector.is_over(2)
    collector.finish(1, "worker 0", None)
    assert collector.is_over(2)
    assert not collector.is_over(0)


def test_training_tasks_are_stopped_before_their_parameter_servers() -> None:
    collector = ReportCollector(1)
    assert collector.begin("first", 2)
    collector.stop()
    assert collector.is_over(0)
    assert not collector.is_over(1)
    collector.finish(0, "chief 0", {})
    assert collector.is_over(1)
    assert not collector.begin("second", 2)


def test_a_worker_that_waits_for_an_ended_one_is_reported() -> None:
    collector = ReportCollector(0)
    assert collector.begin("first", 2)
    collector.fail(0, "worker 0", {"message": "unavailable"}, False, alone=True)
    assert not collector.is_over(1)
    assert collector.begin("second", 2)
    collector.finish(1, "worker 1", None)
    collector.fail(0, "worker 0", {"message": "unavailable"}, False, alone=True)
    assert "worker 0 was waiting for worker 1, which had ended" in collector.summary()["verdict"]["message"]


def test_a_new_attempt_starts_fresh_and_a_verdict_ends_all_attempts() -> None:
    collector = ReportCollector(0)
    assert collector.begin("first", 2)
    collector.fail(1, "worker 1", {"message": "killed"}, False)
    assert collector.is_to_restart()
    assert collector.begin("second", 1)
    assert not collector.is_to_restart()
    assert not collector.is_over(0)
    collector.fail(0, "worker 0", {"message": "wrong"}, True)
    assert not collector.is_to_restart()
    assert collector.is_over(0)
    assert not collector.begin("third", 1)
    assert collector.summary()["tries"] == [2, 1]
    assert collector.summary()["verdict"] == {"message": "wrong"}


def report(collector: ReportCollector, name: str, rank: int, step: int, **details: object) -> None:
    """Reports the progress of a worker, as its host does."""
    one = progress_reports.Progress(0, step, step, 0, float(step), 0, cast("progress_reports.Details", details))
    collector.advance(name, rank, f"worker {rank}", dataclasses.asdict(one))


def test_with_parameter_servers_only_the_worker_that_died_is_started_again() -> None:
    collector = ReportCollector(1)
    assert collector.begin("first", 4)
    report(collector, "first", 0, 10, replaces_workers=True)
    report(collector, "first", 2, 8)
    collector.fail(2, "worker 1", {"message": "killed"}, False)
    assert not collector.is_to_restart()
    assert collector.take_to_replace() == [2]
    assert collector.take_to_replace() == []
    report(collector, "first", 2, 5)
    summary = collector.summary()
    assert (summary["pace"]["restarts"], summary["pace"]["replaced"], len(summary["failures"])) == (0, 1, 1)
    assert summary["pace"]["speeds"]["worker 2"] == {"steps_per_second": 1.0}
    assert collector.total_progress()["details"]["replaced"] == 1

    collector.fail(3, "ps 0", {"message": "killed"}, False)
    assert collector.is_to_restart()
    assert collector.begin("second", 4)
    report(collector, "second", 0, 10, replaces_workers=True)
    collector.fail(0, "chief 0", {"message": "killed"}, False)
    assert collector.is_to_restart()


def test_a_worker_is_not_replaced_if_the_others_need_it_or_no_longer_need_it() -> None:
    collector = ReportCollector(1)
    assert collector.begin("first", 4)
    report(collector, "first", 0, 10)  # the dialect does not allow it
    collector.fail(1, "worker 0", {"message": "killed"}, False)
    assert collector.is_to_restart()

    assert collector.begin("second", 4)
    report(collector, "second", 0, 10, replaces_workers=True)
    collector.fail(2, "worker 1", {"message": "killed"}, False)
    assert collector.take_to_replace() == [2]
    collector.finish(0, "chief 0", {})
    collector.fail(1, "worker 0", {"message": "killed"}, False)
    assert not collector.is_to_restart()
    assert collector.take_to_replace() == []
    assert collector.is_over(2)  # it may have missed the end
    collector.finish(2, "worker 1", None)
    assert collector.is_over(3)

    assert collector.begin("third", 4)
    report(collector, "third", 0, 10, replaces_workers=True)
    collector.fail(1, "worker 0", {"message": "wrong"}, True)
    assert collector.take_to_replace() == []
    assert collector.summary()["verdict"] == {"message": "wrong"}


# Each task writes its process id and the time of each of its steps to a file; worker 0 is killed, once, when worker 1,
# which Estimators start last, has made a step.
STEPS = """
    import json
    import os
    import signal
    import time
    import numpy as np
    import tensorflow as tf

    class Log(tf.compat.v1.train.SessionRunHook):
        def begin(self):
            task = json.loads(os.environ["TF_CONFIG"])["task"]
            self.path = os.path.join(os.environ["STEPS"], f"{task['type']} {task['index']}")
            self.last = os.path.join(os.environ["STEPS"], "worker 1")
            self.is_killed = task == {"type": "worker", "index": 0} and not os.path.exists(self.path)

        def after_run(self, context, values):
            with open(self.path, "a") as file:
                file.write(f"{os.getpid()} {time.time()}\\n")
            time.sleep(0.02)
            if self.is_killed and os.path.exists(self.last):
                os.kill(os.getpid(), signal.SIGKILL)

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": np.ones((4, 1), np.float32)}, np.ones((4, 1), np.float32))).repeat()

    def serving_fn():
        spec = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        return tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)()

    def trainer_fn(fn_args, schema):
        columns = [tf.feature_column.numeric_column("x")]
        exporter = tf.estimator.FinalExporter("x", serving_fn)
        return {
            "estimator": tf.estimator.LinearRegressor(columns, fn_args.serving_model_dir),
            "train_spec": tf.estimator.TrainSpec(input_fn, fn_args.train_steps, hooks=[Log()]),
            "eval_spec": tf.estimator.EvalSpec(input_fn, 2, exporters=exporter),
        }
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_the_other_workers_of_an_estimator_continue_while_a_worker_is_started_again(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "steps").mkdir()
    (tmp_path / "data").touch()

    done = command(
        *["train", module(STEPS), "--train-files", tmp_path / "data", "--output", tmp_path / "out"],
        *["--train-steps", 2000, "--engine", "ray", "--workers", 3, "--ps", 1, "--cpus-per-worker", 0.3],
        *["--skip-check", "answers"],
        env={**os.environ, "STEPS": str(tmp_path / "steps")},
    )

    assert done.returncode == 0, done.stderr[-5000:]
    cluster = record_of(tmp_path / "out")["cluster"]
    assert (cluster["workers"], cluster["restarts"], cluster["replaced"]) == ([3], 0, 1)
    assert "1 worker replaced, goodput" in done.stdout
    steps = {
        path.name: [(int(process), float(when)) for process, when in map(str.split, path.read_text().splitlines())]
        for path in (tmp_path / "steps").iterdir()
    }
    first = steps["worker 0"][0][0]
    died = max(when for process, when in steps["worker 0"] if process == first)
    returned = min(when for process, when in steps["worker 0"] if process != first)
    for survivor in ("chief 0", "worker 1"):
        assert len({process for process, _ in steps[survivor]}) == 1
        assert sum(died < when < returned for _, when in steps[survivor]) > 5
