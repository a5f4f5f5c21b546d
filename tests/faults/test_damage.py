"""A damaged newest checkpoint of any dialect is moved aside, and the next run resumes from the one before.

Each row is then trained exactly as often as without damage, relative to the checkpoint that training resumes from. A
dialect's job is trained once until it fails; each case damages a copy of its folder. `AsyncCheckpoints` and marker
files are in `tests/executors/checkpoints/test_damaged_checkpoints.py`.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from damage_jobs import ALL_JOBS, BACKUPS, BEST, CLUSTER_JOBS, EPOCHS, EVERY, FAULT, JOBS, ROWS, DamageJob
from storage_faults import Faults

Command = Callable[..., subprocess.CompletedProcess[str]]
Interrupted = Callable[[str], pathlib.Path]

INDEX, DATA = ".index", ".data-00000-of-00001"


def cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0xFF  # in an index, the second half may be its footer, which has unused bytes
    path.write_bytes(bytes(content))


DAMAGE: Mapping[str, Callable[[pathlib.Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": cut,
    "garbled": flip,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "missing": pathlib.Path.unlink,
}
CASES = [(name, damage, suffix) for name in JOBS for damage in DAMAGE for suffix in (INDEX, DATA)]


@pytest.fixture(scope="module")
def interrupted(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """Returns the folder of a job after its first run, which has failed; each call restores the same folder."""
    root = tmp_path_factory.mktemp("jobs")

    def restore(name: str) -> pathlib.Path:
        folder, kept, job = (
            root / name,
            root / f"{name} kept",
            ALL_JOBS[name],
        )
        if not kept.exists():
            job.write(folder)
            failed = command(*job.line, cwd=folder)
            assert failed.returncode == 1, failed.stderr[-3000:]
            assert max(steps[-1] for steps in steps_in(folder).values()) >= FAULT, failed.stderr[-3000:]
            (folder / "fault").unlink()
            for path in steps_in(folder):
                path.unlink()
            shutil.move(folder, kept)
        shutil.rmtree(folder, ignore_errors=True)  # the same path: an Estimator's state file has absolute ones
        shutil.copytree(kept, folder)
        return folder

    return restore


@pytest.mark.slow
@pytest.mark.thorough_but(
    "keras-garbled-.data-00000-of-00001",
    "model_fn-empty-.index",
    "run_fn estimator-cut off-.data-00000-of-00001",
    "elasticdl-missing-.data-00000-of-00001",
    "dlrover-zeros-.data-00000-of-00001",
)
@pytest.mark.parametrize(("name", "damage", "suffix"), CASES)
def test_the_next_run_resumes_from_the_checkpoint_before(
    command: Command, interrupted: Interrupted, name: str, damage: str, suffix: str
) -> None:
    folder, job = interrupted(name), JOBS[name]
    newest, before = newest_checkpoints(folder)[:2]
    DAMAGE[damage](newest.with_name(newest.name + suffix))
    done = command(*job.line, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_step(folder) == step_of(before) == FAULT // EVERY * EVERY - EVERY
    require_trained(folder, job)
    result = f"training resumes from {before.name}"
    [damaged] = require_reported(command, folder, job, [(newest, result)], done)
    aside = folder / damaged["moved_to"]
    assert {path.stem for path in aside.iterdir()} == {newest.name}


@pytest.mark.slow
@pytest.mark.thorough_but("keras", "dlrover")
@pytest.mark.parametrize("name", JOBS)
def test_training_starts_from_the_beginning_if_every_checkpoint_is_damaged(
    command: Command, interrupted: Interrupted, name: str
) -> None:
    folder, job = interrupted(name), JOBS[name]
    checkpoints = newest_checkpoints(folder)
    for path in checkpoints:
        DAMAGE["empty"](path.with_name(path.name + DATA))
    done = command(*job.line, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_step(folder) == 0
    require_trained(folder, job)
    state = checkpoints[0].with_name("checkpoint")
    result = "training starts from the beginning"
    require_reported(command, folder, job, [(path, result) for path in (*checkpoints, state)], done)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", CLUSTER_JOBS)
def test_all_tasks_of_a_cluster_resume_from_the_same_checkpoint(
    command: Command, interrupted: Interrupted, name: str
) -> None:
    folder, job = interrupted(name), CLUSTER_JOBS[name]
    newest, before = newest_checkpoints(folder)[:2]
    shards = newest.parent.glob(f"{newest.name}.data-*")  # one a parameter server
    DAMAGE["cut off"](max(shards, key=lambda path: path.stat().st_size))
    done = command(*job.line, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_step(folder) == step_of(before)
    if name == "cluster of keras":  # both workers take part in each step, and restore the weights
        assert [steps[0] for steps in steps_in(folder).values()] == [step_of(before)] * 2
    require_trained(folder, job)
    require_reported(command, folder, job, [(newest, f"training resumes from {before.name}")], done)


@pytest.mark.slow
@pytest.mark.thorough_but("keras 3-*.h5-cut off")
@pytest.mark.parametrize(
    ("name", "file", "damage"),
    [
        *(("keras 3", "*.h5", damage) for damage in ("empty", "cut off", "zeros")),
        *(("keras 3", "*.json", damage) for damage in ("empty", "cut off", "zeros")),
        *(("keras 2", f"*{INDEX}", damage) for damage in DAMAGE),
        *(("keras 2", f"*{DATA}", damage) for damage in DAMAGE),
    ],
)
def test_a_damaged_backup_of_keras_is_moved_aside_and_the_fit_starts_from_the_beginning(
    command: Command, interrupted: Interrupted, name: str, file: str, damage: str
) -> None:
    folder, job = interrupted(name), BACKUPS[name]
    [path] = (folder / job.record / "backup").rglob(file)
    DAMAGE[damage](path)
    done = command(*job.line, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_step(folder) == 0
    require_trained(folder, job)
    damages = json.loads((folder / job.record / "run.json").read_text())["damaged_checkpoints"]
    assert damages
    assert all(f"{entry['path']} is damaged: {entry['problem']}." in done.stderr for entry in damages)
    assert damages[0]["moved_to"]  # Keras 2 deletes it with the rest of its folder when `fit` ends


@pytest.mark.slow
@pytest.mark.thorough_but("keras-open-EACCES-.data-00000-of-00001")
@pytest.mark.parametrize("suffix", [INDEX, DATA])
@pytest.mark.parametrize(("call", "error"), [("open", "EACCES"), ("open", "EIO"), ("read", "EIO")])
@pytest.mark.parametrize("name", JOBS)
def test_a_checkpoint_that_cannot_be_read_is_not_damaged(
    command: Command, interrupted: Interrupted, faults: Faults, name: str, call: str, error: str, suffix: str
) -> None:
    folder, job = interrupted(name), JOBS[name]
    newest = newest_checkpoints(folder)[0]
    before = sorted(newest.parent.iterdir())
    faults.fail(call, f"*/{newest.name}{suffix}", getattr(errno, error))
    done = command(*job.line, cwd=folder, new_python=True, env=faults.environment())
    assert faults.hits()
    faults.clear()
    assert done.returncode != 0
    assert os.strerror(getattr(errno, error)) in done.stderr.replace("\n", " "), done.stderr[-3000:]
    assert newest.name in done.stderr
    assert "is damaged" not in done.stderr
    assert not [path for path in folder.rglob("damaged") if path.is_dir()]
    assert set(before) <= set(newest.parent.iterdir())
    assert not steps_in(folder)
    done = command(*job.line, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_step(folder) == step_of(newest)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["empty", "cut off", "zeros"])
def test_damaged_weights_of_the_best_epoch_are_moved_aside(
    command: Command, interrupted: Interrupted, damage: str
) -> None:
    folder, job = interrupted("best epoch"), BEST["best epoch"]
    [path] = folder.rglob("best-1.npz")
    DAMAGE[damage](path)
    done = command(*job.line, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_step(folder) == FAULT // EVERY * EVERY
    require_trained(folder, job)
    result = "only epochs from here on are candidates for the best one"
    require_reported(command, folder, job, [(path, result)], done)


def newest_checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the path prefixes of a job's checkpoints, the newest first."""
    [state] = folder.rglob("checkpoint")
    paths = [path.with_suffix("") for path in state.parent.glob("*.index")]
    return sorted(paths, key=step_of, reverse=True)


def step_of(checkpoint: pathlib.Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def steps_in(folder: pathlib.Path) -> dict[pathlib.Path, list[int]]:
    """Returns the steps that each task of a job has begun, in order, by the task's file."""
    paths = [path for path in folder.glob("*.txt") if path.name != "rows.txt"]
    return {path: [int(step) for step in path.read_text().split()] for path in paths}


def first_step(folder: pathlib.Path) -> int:
    return min(steps[0] for steps in steps_in(folder).values())


def require_trained(folder: pathlib.Path, job: DamageJob) -> None:
    """Asserts that the published model was trained in all steps, and, by position, on each row once per epoch."""
    import tensorflow as tf

    [model] = (folder / job.record).parent.glob("model/**/variables")
    reader = tf.train.load_checkpoint(str(model / "variables"))
    shapes = reader.get_variable_to_shape_map().items()
    # Keras saves a variable under two names, and SGD's momentum with the same shape.
    name = next(name for name, shape in shapes if shape == [ROWS, 1] and "optimizer" not in name)
    seen = reader.get_tensor(name).ravel().tolist()
    assert sum(seen) == ROWS * EPOCHS
    if job.has_position:
        assert set(seen) == {EPOCHS}, seen


def require_reported(
    command: Command,
    folder: pathlib.Path,
    job: DamageJob,
    expected: list[tuple[pathlib.Path, str]],
    done: subprocess.CompletedProcess[str],
) -> list[dict[str, Any]]:
    """Asserts that a warning line, the record, `show` and the report name the damage; returns it."""
    record = folder / job.record
    damages: list[dict[str, Any]] = json.loads((record / "run.json").read_text())["damaged_checkpoints"]
    assert sorted((damage["path"], damage["result"]) for damage in damages) == sorted(
        (str(path if damages[0]["path"].startswith("/") else path.relative_to(folder)), result)
        for path, result in expected
    )
    lines = [line for line in done.stderr.splitlines() if "is damaged:" in line]
    report, shown = (record / "report.html").read_text(), command("show", record, cwd=folder).stdout
    assert len(lines) == len(damages), done.stderr
    for damage in damages:
        assert any(f"{damage['path']} is damaged: {damage['problem']}." in line for line in lines), lines
        assert damage["problem"] in report
        assert f"{damage['path']}: {damage['problem']}" in shown
    return damages
