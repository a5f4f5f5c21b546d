"""The image works as platforms run it: any user, read-only, without network, with limits, and ended by SIGTERM."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
READ_ONLY = ("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:mode=1777")  # noqa: S108
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
