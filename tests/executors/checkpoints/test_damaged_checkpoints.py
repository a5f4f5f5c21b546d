"""A damaged newest checkpoint is moved aside, and the newest complete one is restored."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from generic_trainer import CheckpointError, Engine, FnArgs, TrainingOptions
from generic_trainer.executors.checkpoints import fingerprint
from generic_trainer.executors.checkpoints.contents import UNPUBLISHED
from generic_trainer.executors.checkpoints.damage import damage_recorded, read_damage
from generic_trainer.executors.checkpoints.directory import model_run_checkpoints
from generic_trainer.executors.checkpoints.fingerprint import Identity
from generic_trainer.executors.checkpoints.trained_marker import TrainedMarker
from generic_trainer.executors.features.checkpoint_repair.run import DamagedCheckpoints
from generic_trainer.executors.training.run_state import Run

INDEX, DATA, STATE = "ckpt-3.index", "ckpt-3.data-00000-of-00001", "checkpoint"


def flip(path: pathlib.Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(bytes(content))


def cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


# {damage: (file, what is done to it, step that is restored)}
DAMAGE: dict[str, tuple[str, Callable[[pathlib.Path], object], int]] = {
    "index empty": (INDEX, empty, 2),
    "index cut off": (INDEX, cut, 2),
    "index garbled": (INDEX, lambda path: flip(path, 30), 2),
    "index missing": (INDEX, pathlib.Path.unlink, 2),
    "data empty": (DATA, empty, 2),
    "data cut off": (DATA, cut, 2),
    "tensor garbled": (DATA, lambda path: flip(path, 3000), 2),
    "data missing": (DATA, pathlib.Path.unlink, 2),
    "state empty": (STATE, empty, 3),
    "state garbled": (STATE, lambda path: path.write_bytes(b"\xff\x00model"), 3),
    "state is other text": (STATE, lambda path: path.write_text("model"), 3),
    "state names one that is gone": (
        STATE,
        lambda path: path.write_text('model_checkpoint_path: "ckpt-9"'),
        3,
    ),
}


class Loop:
    """A training whose weights equal its step."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.step, self.weights = tf.Variable(0), tf.Variable(tf.zeros([1000]))
        self.state = tf.train.Checkpoint(step=self.step, weights=self.weights)

    def train(self, folder: pathlib.Path, steps: int) -> str | None:
        """Restores, and trains to a step with a checkpoint after each; returns the path of the restored one."""
        import tensorflow as tf

        from generic_trainer import AsyncCheckpoints

        with AsyncCheckpoints(self.state, str(folder), max_to_keep=2) as checkpoints:
            restored = checkpoints.restore()
            while int(self.step) < steps:
                self.step.assign_add(1)
                self.weights.assign_add(tf.ones([1000]))
                checkpoints.save(int(self.step))
        return restored


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("trained")
    Loop().train(folder, 3)
    return folder


@pytest.fixture
def folder(trained: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(trained, tmp_path / "checkpoints"))


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_newest_complete_one_is_restored_and_the_damaged_one_is_kept(
    folder: pathlib.Path, tmp_path: pathlib.Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    import tensorflow as tf

    name, do, step = DAMAGE[damage]
    do(folder / name)
    loop = Loop()
    with damage_recorded(str(folder), str(tmp_path)), caplog.at_level(logging.WARNING):
        restored = loop.train(folder, step)
    assert restored == str(folder / f"ckpt-{step}") == tf.train.latest_checkpoint(str(folder))
    assert loop.step.numpy() == step
    assert set(loop.weights.numpy()) == {float(step)}
    damages = read_damage(str(tmp_path))
    assert {damage.result for damage in damages} == {f"training resumes from ckpt-{step}"}
    assert all(f"{damage.path} is damaged: {damage.problem}." in caplog.text for damage in damages)
    assert all(os.listdir(damage.moved_to) for damage in damages if damage.moved_to)
    assert loop.train(folder, 6) == restored  # trains on, and the next run finds nothing damaged
    caplog.clear()
    assert Loop().train(folder, 6) == str(folder / "ckpt-6")
    assert not caplog.text


@pytest.mark.parametrize(
    ("lost", "step"),
    [
        ([STATE], 3),  # of the first checkpoint, whose state file was not written before the kill
        ([STATE, INDEX, "ckpt-2.*"], 0),  # neither was its index
    ],
)
def test_a_checkpoint_whose_write_was_killed_is_not_damaged(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture, lost: list[str], step: int
) -> None:
    for pattern in lost:
        for path in folder.glob(pattern):
            path.unlink()
    loop = Loop()
    with caplog.at_level(logging.WARNING):
        assert loop.train(folder, step) == (str(folder / f"ckpt-{step}") if step else None)
    assert not caplog.text
    assert not (folder / "damaged").exists()
    assert loop.train(folder, 4) == (str(folder / f"ckpt-{step}") if step else None)
    assert set(loop.weights.numpy()) == {4.0}


def test_training_starts_from_the_beginning_when_every_checkpoint_is_damaged(folder: pathlib.Path) -> None:
    for path in folder.glob("*.index"):
        empty(path)
    loop = Loop()
    assert loop.train(folder, 1) is None
    assert loop.weights.numpy()[0] == 1.0
    assert sorted(os.listdir(folder / "damaged")) == ["checkpoint.1", "ckpt-2.1", "ckpt-3.1"]


def test_another_models_checkpoint_is_not_damaged(folder: pathlib.Path) -> None:
    import tensorflow as tf

    before = sorted(os.listdir(folder))
    loop = Loop()
    loop.state = tf.train.Checkpoint(step=loop.step, weights=tf.Variable(tf.zeros([3])))
    with pytest.raises(CheckpointError, match=r"weights has the shape \[1000\] in the checkpoint and \[3\]"):
        loop.train(folder, 4)
    assert sorted(os.listdir(folder)) == before


def test_a_file_that_cannot_be_opened_is_not_damaged(folder: pathlib.Path) -> None:
    if os.geteuid() == 0:  # may read every file, but no folder as a file
        (folder / INDEX).unlink()
        (folder / INDEX).mkdir()
    else:
        (folder / INDEX).chmod(0)
    before = sorted(os.listdir(folder))
    with pytest.raises(Exception, match=r"Is a directory|is a directory|Permission denied"):
        Loop().train(folder, 4)
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"made_by": 1}'])
def test_checkpoints_beside_a_damaged_fingerprint_are_used(tmp_path: pathlib.Path, content: bytes) -> None:
    identity, path = Identity({"seed": 1}), tmp_path / "checkpoints" / "checkpoint.json"
    path.parent.mkdir()
    path.write_bytes(content)
    (path.parent / STATE).touch()
    args, options = FnArgs(model_run_dir=str(tmp_path)), TrainingOptions()
    run = Run("module.py", options, args, args, None, None, (), Engine(options))
    with DamagedCheckpoints().record(run), model_run_checkpoints(identity, str(tmp_path)) as folder:
        assert (pathlib.Path(folder.path) / STATE).exists()
    assert fingerprint.read(str(path.parent)) == identity
    [damage] = read_damage(str(tmp_path))
    assert (pathlib.Path(damage.moved_to) / "checkpoint.json").read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"made_by": 1}'])
def test_a_damaged_marker_is_moved_aside(tmp_path: pathlib.Path, content: bytes) -> None:
    marker = TrainedMarker(str(tmp_path), "estimator", {"max_steps": 3})
    path = tmp_path / UNPUBLISHED / "estimator.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with damage_recorded(str(tmp_path), str(tmp_path)):
        assert marker.read() == {}
    aside = tmp_path / "damaged" / UNPUBLISHED / "estimator.json.1" / "estimator.json"
    assert aside.read_bytes() == content
    assert json.loads((tmp_path / "damaged_checkpoints.json").read_text())[0]["path"] == str(path)
    marker.write(step=3)
    assert marker.read() == {"step": 3}
