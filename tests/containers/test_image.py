"""The image works as platforms run it: any user, read-only, without network, with limits, and ended by SIGTERM."""

from __future__ import annotations

import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
READ_ONLY = ("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:mode=1777")  # noqa: S108
GROWING = """
import os, pathlib, threading, time
from generic_trainer.module_files import digits_workers

def grow(checkpoints):
    while not (checkpoints / "checkpoint").exists():
        time.sleep(0.1)
    held = []
    while True:
        held.append(b"x" * 10_000_000)

def run_fn(fn_args):
    if "GROWS" in os.environ:
        threading.Thread(target=grow, args=[pathlib.Path(fn_args.checkpoint_dir)], daemon=True).start()
    digits_workers.run_fn(fn_args)
"""
# What OpenShift does: any user id, group 0, no capabilities.
RESTRICTED = ("--user", "123456:0", "--cap-drop", "all", "--security-opt", "no-new-privileges")


def require_model(out: pathlib.Path) -> None:
    assert (out / "run" / "model" / "Format-Serving" / "saved_model.pb").exists()


def wait_for(text: str, logs: Callable[[], str]) -> None:
    while text not in (found := logs()):
        assert "error:" not in found, found
        time.sleep(0.2)


def test_each_way_to_start_it(podman: Any) -> None:
    podman.run(
        "--volume", f"{SCRIPTS}:/scripts:ro", "--shm-size", "1g", podman.image, "python", "/scripts/try_image.py"
    )


@pytest.mark.parametrize(
    "flags",
    [(), READ_ONLY, ("--network", "none"), ("--shm-size", "512m"), RESTRICTED, (*RESTRICTED, *READ_ONLY)],
    ids=["plain", "read-only", "no network", "512 MB of shared memory", "restricted", "restricted and read-only"],
)
def test_it_trains(podman: Any, train_iris: Any, out: pathlib.Path, flags: tuple[str, ...]) -> None:
    if "123456:0" in flags:
        out.chmod(0o770)
        import os

        os.chown(out, 1000, 0)
    podman.run(*train_iris(*flags))
    require_model(out)
    owner = 123456 if "123456:0" in flags else 1000
    assert {path.stat().st_uid for path in out.rglob("*")} == {owner}


def test_a_folder_of_another_user_is_an_error_before_training(podman: Any, train_iris: Any, out: pathlib.Path) -> None:
    done = podman.run(*train_iris("--user", "123456:0"), check=False)
    assert (done.returncode, list(out.iterdir())) == (2, [])
    assert "cannot write there" in done.stdout + done.stderr


def test_sigterm_ends_a_training_within_the_grace_period(podman: Any, train_iris: Any, out: pathlib.Path) -> None:
    with podman.container(*train_iris(steps=10_000_000)) as name:
        wait_for(" steps/s", lambda: podman.logs(name))
        podman("stop", "--time", "30", name)
        assert podman.state(name)["ExitCode"] == 143  # 137 after SIGKILL
        assert "nothing was published" in podman.logs(name)
    assert not (out / "run" / "model" / "Format-Serving").exists()


def test_a_process_killed_by_the_memory_limit_is_reported_as_such(
    podman: Any, train_iris: Any, out: pathlib.Path
) -> None:
    done = podman.run(*train_iris("--memory", "300m", "--memory-swap", "300m"), check=False)
    assert done.returncode in (1, 137)
    assert done.returncode == 137 or "memory" in done.stderr
    assert not (out / "run" / "model" / "Format-Serving").exists()


def test_a_training_killed_by_the_memory_limit_publishes_nothing_and_resumes(
    podman: Any, examples: pathlib.Path, out: pathlib.Path
) -> None:
    (out / "growing.py").write_text(GROWING)
    limits = ("--memory", "1g", "--memory-swap", "1g")
    line = [
        *("--volume", f"{examples}:/data:ro", "--volume", f"{out}:/out", podman.image),
        *("generic-trainer", "train", "/out/growing.py", "--train-files", "/data/digits/Split-train/*"),
        *("--eval-files", "/data/digits/Split-eval/*", "--train-steps", 3000, "--output", "/out/run"),
    ]
    killed = podman.run(*limits, "--env", "GROWS=1", *line, check=False)
    assert killed.returncode == 1, killed.stderr
    assert "ended by SIGKILL before it had finished. The machine may have run out of memory." in killed.stderr
    assert not list(out.rglob("saved_model.pb"))
    resumed = podman.run(*limits, *line)
    assert "Resuming from" in resumed.stderr
    require_model(out)


def test_a_pipeline_on_the_taxi_trips_needs_neither_network_nor_a_writable_root(
    podman: Any, taxi_csv: pathlib.Path, out: pathlib.Path
) -> None:
    shutil.copytree(taxi_csv, out / "taxi")
    line = [
        *("generic-trainer", "run", "--data", "/out/taxi", "--label", "big_tip", "--train-steps", 100),
        *("--module-file", "generic_trainer.module_files.taxi_keras", "--pipeline-root", "/out/pipeline"),
    ]
    podman.run(*READ_ONLY, "--network", "none", "--volume", f"{out}:/out", podman.image, *line)
    [pushed] = (out / "pipeline" / "serving").iterdir()
    assert (pushed / "saved_model.pb").exists()
