"""What a power loss leaves: on a real file system, and by the order of syncs, renames and deletions."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from disk_model import Disk
from storage_faults import Commands, Faults

from generic_trainer.executors.runtime.files import durable

from ..world.modules import with_counter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the calls are recorded, and disks mounted, on Linux")

# Six steps with a checkpoint after each, an output that is the number of steps, and a kill by the file `kill`.
LOOP = """
    import os, signal
    from generic_trainer import AsyncCheckpoints

    def run_fn(fn_args):
        model = Counter()
        state = tf.train.Checkpoint(model=model)
        checkpoints = CHECKPOINTS
        print("begins after step", int(model.step), flush=True)
        while model.step < 6:
            model.step.assign_add(1)
            save(int(model.step))
            if model.step == 4 and os.path.exists(f"{__file__}.kill"):
                os.remove(f"{__file__}.kill")
                os.kill(os.getpid(), signal.SIGKILL)
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
"""
ASYNC = with_counter(
    LOOP.replace(
        "checkpoints = CHECKPOINTS",
        """checkpoints = AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2)
        checkpoints.restore()
        save = lambda step: (checkpoints.save(step), checkpoints.wait())""",
    )
)
MANAGER = with_counter(
    LOOP.replace(
        "checkpoints = CHECKPOINTS",
        """manager = tf.train.CheckpointManager(state, fn_args.checkpoint_dir, max_to_keep=2)
        state.restore(manager.latest_checkpoint)
        save = manager.save""",
    )
)
KERAS = """
    import numpy as np
    import keras
    import tensorflow as tf
    from generic_trainer import callbacks

    def run_fn(fn_args):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        x = np.ones((8, 1), "float32")
        model.fit(x, x, batch_size=1, epochs=2, verbose=0, callbacks=callbacks(fn_args, save_steps=2))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(examples):
            return {"y": model(tf.ones([tf.size(examples), 1]))}

        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": serve})
"""
ESTIMATOR = """
    import tensorflow as tf

    def run_fn(fn_args):
        v1 = tf.compat.v1

        def model_fn(features, labels, mode):
            y = v1.layers.dense(features["x"], 1)
            loss = tf.reduce_mean(y)
            train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
            return tf.estimator.EstimatorSpec(mode, predictions={"y": y}, loss=loss, train_op=train)

        def input_fn():
            return tf.data.Dataset.from_tensors(({"x": [[1.0]]}, [[1.0]])).repeat()

        config = tf.estimator.RunConfig(fn_args.model_run_dir, save_checkpoints_steps=2, keep_checkpoint_max=2)
        estimator = tf.estimator.Estimator(model_fn, config=config)
        estimator.train(input_fn, steps=7)

        def receive():
            x = {"x": v1.placeholder(tf.float32, [None, 1])}
            return tf.estimator.export.ServingInputReceiver(x, x)

        estimator.export_saved_model(fn_args.serving_model_dir, receive)
"""
OWN_HOOK = ESTIMATOR.replace(
    "steps=7)", "steps=7, hooks=[v1.train.CheckpointSaverHook(fn_args.model_run_dir, save_steps=2)])"
)
CONF = """
    from module_files.linear_dlrover import COLUMNS, LineEstimator, LineReader

    class TrainConf:
        classifier_class = LineEstimator
        model_dir = "MODEL_DIR"
        params = {"learning_rate": 0.5}
        batch_size, max_steps, save_steps, eval_steps, keep_checkpoint_max = 16, 10, 2, 2, 2
        train_set = {"reader": LineReader("train", rows=200, seed=1), "columns": COLUMNS}
        eval_set = {"reader": LineReader("eval", rows=20, seed=2), "columns": COLUMNS}
"""
ROOT = pathlib.Path(__file__).parents[2]
IRIS_COLUMNS = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]


@pytest.fixture(scope="module")
def environment(faults: Faults) -> dict[str, str]:
    return faults.recording_environment()


def require_order(faults: Faults, *valid: str) -> None:
    """Checks the recorded calls; `valid` are endings of paths that must have become valid."""
    disk = Disk()
    violations = disk.replay(faults.recorded())
    assert not violations, "\n".join(violations)
    assert not disk.lost()
    for ending in valid:
        assert any(path.endswith(ending) for path in disk.made_valid), ending


def train(commands: Commands, module: str, out: pathlib.Path) -> str:
    done = commands.run("train", module, "--train-files", module, "--output", out, "--skip-check", "answers")
    assert done.code == 0, done.said
    return done.said


@pytest.mark.thorough_but("AsyncCheckpoints", "CheckpointManager")
@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(ASYNC, id="AsyncCheckpoints"),
        pytest.param(MANAGER, id="CheckpointManager"),
        pytest.param(KERAS, id="callbacks"),
        pytest.param(ESTIMATOR, id="Estimator"),
        pytest.param(OWN_HOOK, id="CheckpointSaverHook"),
    ],
)
def test_nothing_is_deleted_before_its_successor_is_synced(
    commands: Commands, faults: Faults, module: Callable[..., str], tmp_path: pathlib.Path, source: str
) -> None:
    path = module(source)
    for _ in range(2):  # the second model replaces the first
        train(commands, path, tmp_path / "out")
        require_order(faults, "/model/Format-Serving", "/checkpoint", "/run.json")


@pytest.mark.thorough
@pytest.mark.slow
def test_jobs_of_elasticdl_sync_in_order(commands: Commands, faults: Faults, tmp_path: pathlib.Path) -> None:
    data = tmp_path / "iris.csv"
    data.write_text("\n".join([",".join(IRIS_COLUMNS), *["5.1,3.5,1.4,0.2,0", "6.0,2.9,4.5,1.5,1"] * 80]) + "\n")
    for _ in range(2):
        done = commands.run(
            *["elasticdl", "train", f"--model_zoo={ROOT}/module_files", "--model_def=iris_elasticdl.custom_model"],
            *[f"--training_data={data}", f"--validation_data={data}", "--minibatch_size=16"],
            *[f"--checkpoint_dir={tmp_path}/checkpoints", "--checkpoint_steps=3", "--keep_checkpoint_max=2"],
            *[f"--data_reader_params=columns={IRIS_COLUMNS}; sep=','", f"--output={tmp_path}/model"],
        )
        assert done.code == 0, done.said
        require_order(faults, f"{tmp_path}/model", f"{tmp_path}/checkpoints/checkpoint")


@pytest.mark.thorough
@pytest.mark.slow
def test_jobs_of_dlrover_sync_in_order(
    commands: Commands, faults: Faults, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    conf = module(CONF.replace("MODEL_DIR", f"{tmp_path}/model_dir"), "conf.py")
    for _ in range(2):
        done = commands.run("dlrover", f"--conf={conf}", f"--output={tmp_path}/out")
        assert done.code == 0, done.said
        require_order(faults, "/model/Format-Serving", "/model_dir/checkpoint")


PUSH = """
import sys
from generic_trainer.executors.saved_models.pushed_models import push
push(*sys.argv[1:])
"""


@pytest.mark.parametrize("switch", ["", "0"])
def test_a_pushed_model_is_synced_before_it_appears(faults: Faults, tmp_path: pathlib.Path, switch: str) -> None:
    for name in ("saved_model.pb", "variables/variables.index"):
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_text(name)
    environment = {**faults.recording_environment(), durable.SWITCH: switch}
    line = [sys.executable, "-c", PUSH, tmp_path / "source", tmp_path / "new" / "serving"]
    faults.recorded()
    subprocess.run(line, env=environment, check=True)
    if switch:
        assert "sync" not in {name for name, _, _ in faults.recorded()}, "turned off"
    else:
        [version] = (tmp_path / "new" / "serving").iterdir()
        require_order(faults, str(version))


@dataclasses.dataclass
class LoopDisk:
    """An ext4 file system in an image file, which commits its journal rarely.

    Attributes:
      folder: Where it is mounted.
      image: The image file.
    """

    folder: pathlib.Path
    image: pathlib.Path

    def mount(self) -> str:
        """Mounts it; returns the error, or ""."""
        line = ["mount", "-o", "loop,commit=300", self.image, self.folder]
        return subprocess.run(line, capture_output=True, text=True, check=False).stderr.strip()

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def lose_power(self) -> None:
        """Replaces the file system by what is in the image, with the journal committed as by any other program."""
        with (self.folder / "of-another-program").open("w") as file:
            file.write("text")
            file.flush()
            os.fsync(file.fileno())
        copy = self.image.with_suffix(".copy")
        shutil.copy(self.image, copy)
        self.unmount()
        self.image = copy
        assert not self.mount()


@pytest.fixture
def loop_disk(tmp_path: pathlib.Path) -> Iterator[LoopDisk]:
    disk = LoopDisk(tmp_path / "disk", tmp_path / "image")
    disk.folder.mkdir()
    with disk.image.open("wb") as file:
        file.truncate(64 << 20)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed (package e2fsprogs)")
    subprocess.run(["mkfs.ext4", "-q", disk.image], check=True)
    if error := disk.mount():
        pytest.skip(f"no file system can be mounted here: {error}")
    yield disk
    disk.unmount()


@pytest.mark.slow
def test_after_a_power_loss_the_published_model_and_its_checkpoints_load(
    commands: Commands, module: Callable[..., str], loop_disk: LoopDisk
) -> None:
    import tensorflow as tf

    path, out = module(ASYNC), loop_disk.folder / "out"
    train(commands, path, out)
    os.sync()
    train(commands, path, out)
    before = content(out / "model")
    loop_disk.lose_power()
    assert content(out / "model") == before
    model = tf.saved_model.load(str(out / "model" / "Format-Serving"))
    assert model.signatures["serving_default"](tf.constant([b"row"]))["steps"].numpy() == [6]
    latest = tf.train.latest_checkpoint(str(out / "model_run" / "checkpoints"))
    assert tf.train.load_variable(latest, "model/step/.ATTRIBUTES/VARIABLE_VALUE") == 6
    assert json.loads((out / "model_run" / "run.json").read_text())["status"] == "succeeded"


@pytest.mark.slow
def test_after_a_power_loss_during_training_the_next_run_resumes_from_the_last_checkpoint(
    commands: Commands, module: Callable[..., str], loop_disk: LoopDisk
) -> None:
    path, out = module(ASYNC), loop_disk.folder / "out"
    pathlib.Path(f"{path}.kill").touch()
    assert commands.run("train", path, "--train-files", path, "--output", out).code == 1
    loop_disk.lose_power()
    assert "begins after step 4\n" in train(commands, path, out)


def content(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
