"""Odd surroundings of a command end in one line with the cause: a deleted working folder, limits, shared memory."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

DELETED = "The working folder of this command was deleted. Change to an existing one (cd)"
LIMITED = "The address space is limited to 1.02 GB (ulimit -v), which is too little"
UNWRITABLE = "Shared memory in /dev/shm cannot be used: Read-only file system. Mount a writable one"

# {surrounding: (shell command that creates it, beginning of the last line)}
SURROUNDINGS = {
    "deleted folder": ("mkdir gone && cd gone && rmdir ../gone", DELETED),
    "little address space": ("ulimit -v 1000000", LIMITED),
    "read-only shared memory": ("mount -t tmpfs -o ro tmpfs /dev/shm", UNWRITABLE),
}
COMMANDS = {
    "train": ["train", "{here}/tiny.py", "--train-files", "{iris}", "--output", "{here}/out"],
    "script": ["script", "{here}/tiny.py", "--output", "{here}/out"],
    "check": ["check", "{here}/tiny.py", "--train-files", "{iris}"],
    "run": ["run", "--data", "{here}/a.csv", "--module-file", "{here}/tiny.py", "--pipeline-root", "{here}/root"],
    "init": ["init", "{here}/new", "--data", "{here}/a.csv", "--label", "b"],
    "predict": ["predict", "--model", "{here}/model", "--examples", "{iris}", "--output", "{here}/predictions.csv"],
}
_CASES = [
    ("deleted folder", "train"),
    ("deleted folder", "check"),
    *(pytest.param("deleted folder", name, marks=pytest.mark.thorough) for name in ("script", "run", "init")),
    ("little address space", "train"),
    *(pytest.param("little address space", name, marks=pytest.mark.thorough) for name in ("script", "predict")),
    pytest.param("read-only shared memory", "run", marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module")
def can_mount() -> bool:
    line = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0
    )


@pytest.mark.parametrize(("what", "name"), _CASES)
def test_the_last_line_names_what_is_odd(
    what: str, name: str, iris: Any, can_mount: bool, tiny_source: str, tmp_path: pathlib.Path
) -> None:
    shell, expected = SURROUNDINGS[what]
    if "mount" in shell and not can_mount:
        pytest.skip("mounting needs root")
    (tmp_path / "tiny.py").write_text(tiny_source)
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n3,4\n" * 20)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").touch()
    words = [word.format(here=tmp_path, iris=iris.train) for word in COMMANDS[name]]
    line = ["bash", "-c", f'{shell} && exec "$@"', "bash", sys.executable, "-m", "generic_trainer.cli.main", *words]
    if "mount" in shell:
        line = ["unshare", "--mount", *line]

    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"generic-trainer: {expected}")
    assert "Traceback" not in done.stderr
