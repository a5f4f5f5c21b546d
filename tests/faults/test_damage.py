"""A damaged newest checkpoint of any dialect is moved aside, and the next run resumes from the one before.

Each row is then trained exactly as often as without damage, relative to the checkpoint that training resumes from. A
dialect's job is trained once until it fails; each case damages a copy of its folder. `AsyncCheckpoints` and marker
files are in `tests/executors/checkpoints/test_damaged_checkpoints.py`.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from damage_jobs import BACKUPS, EPOCHS, EVERY, FAULT, JOBS, ROWS, DamageJob

Command = Callable[..., subprocess.CompletedProcess[str]]
Interrupted = Callable[[str], pathlib.Path]

INDEX, DATA = ".index", ".data-00000-of-00001"


def cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
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
        folder, kept, job = root / name, root / f"{name} kept", {**JOBS, **BACKUPS}[name]
        if not kept.exists():
            job.write(folder)
            failed = command(*job.line, cwd=folder)
            assert "ZeroDivisionError: a fault" in failed.stderr, failed.stderr[-3000:]
            assert steps_in(folder)[-1] == FAULT
            (folder / "fault").unlink()
            (folder / "steps.txt").unlink()
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
    assert steps_in(folder)[0] == step_of(before) == FAULT // EVERY * EVERY - EVERY
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
    assert steps_in(folder)[0] == 0
    require_trained(folder, job)
    state = checkpoints[0].with_name("checkpoint")
    result = "training starts from the beginning"
    require_reported(command, folder, job, [(path, result) for path in (*checkpoints, state)], done)


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
    assert steps_in(folder)[0] == 0
    require_trained(folder, job)
    damages = json.loads((folder / job.record / "run.json").read_text())["damaged_checkpoints"]
    assert all(f"{entry['path']} is damaged: {entry['problem']}." in done.stderr for entry in damages)
    assert any((folder / entry["moved_to"]).exists() for entry in damages)


def newest_checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the path prefixes of a job's checkpoints, the newest first."""
    [state] = folder.rglob("checkpoint")
    paths = [path.with_suffix("") for path in state.parent.glob("*.index")]
    return sorted(paths, key=step_of, reverse=True)


def step_of(checkpoint: pathlib.Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def steps_in(folder: pathlib.Path) -> list[int]:
    """Returns the steps at which a job's steps began, in order."""
    return [int(step) for step in (folder / "steps.txt").read_text().split()]


def require_trained(folder: pathlib.Path, job: DamageJob) -> None:
    """Asserts that the published model was trained in all steps, and, by position, on each row once per epoch."""
    import tensorflow as tf

    [model] = (folder / job.record).parent.glob("model/**/variables")
    reader = tf.train.load_checkpoint(str(model / "variables"))
    names = [name for name, shape in reader.get_variable_to_shape_map().items() if shape == [ROWS, 1]]
    seen = reader.get_tensor(names[0]).ravel().tolist()  # Keras saves a variable under two names
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
