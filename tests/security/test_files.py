"""Temporary folders are private to their owner, and file names are unpredictable."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from generic_trainer.executors.engines import child_process
from generic_trainer.executors.runtime.files import file_io
from generic_trainer.executors.runtime.logs import setup

PACKAGES = ("cli", "components", "executors", "pipelines")
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def open_to_all(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A world-writable folder for temporary files, and a umask of 0."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def test_a_request_to_a_process_is_its_owners_alone(open_to_all: pathlib.Path) -> None:
    modes: list[int] = []

    def look(process: int) -> None:
        modes.extend(stat.S_IMODE(folder.stat().st_mode) for folder in open_to_all.iterdir())

    with pytest.raises(ImportError):
        child_process.run("no_such_worker", {"password": "hunter2"}, on_start=look, quiet=True)
    assert modes == [0o700]
    assert list(open_to_all.iterdir()) == []


def test_a_process_has_no_secret_in_its_arguments_or_its_environment(open_to_all: pathlib.Path) -> None:
    seen: list[str] = []

    def look(process: int) -> None:
        for name in ("cmdline", "environ"):
            seen.append(pathlib.Path(f"/proc/{process}/{name}").read_bytes().decode("utf-8", "replace"))

    with pytest.raises(ImportError):
        child_process.run("no_such_worker", {"password": "hunter2"}, on_start=look, quiet=True)
    assert len(seen) == 2
    assert "hunter2" not in "".join(seen)


def test_an_existing_link_does_not_redirect_a_file(open_to_all: pathlib.Path) -> None:
    """Other users who can write to the folder know the file's name and this process's ID."""
    victim = open_to_all / "victim"
    victim.write_text("mine")
    target = str(open_to_all / "run.json")
    for name in (target, f"{target}.part", f"{target}.part-{os.getpid()}", f"{target}.part-0"):
        os.symlink(victim, name)
    file_io.write_text(target, "the record")
    assert victim.read_text() == "mine"
    assert not os.path.islink(target)
    assert pathlib.Path(target).read_text() == "the record"


def test_part_files_have_unique_names(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "predictions.csv")
    with file_io.atomic_write(path) as first, file_io.atomic_write(path) as second:
        assert first != second
        for part in (first, second):
            pathlib.Path(part).write_text("x")
    assert os.listdir(tmp_path) == ["predictions.csv"]


def test_temporary_file_names_are_unpredictable() -> None:
    """All are created with `tempfile`, which uses O_EXCL and private modes; no code uses a bare name."""
    found = subprocess.run(
        ["git", "grep", "-nE", r"mktemp\(|gettempdir\(\)|[\"']/tmp", "--", *PACKAGES],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    lines = [line for line in found.stdout.splitlines() if line.split(":")[0].endswith(".py")]
    # These mention the folder in a message, or create a private one in it.
    known = (
        "dialects/estimators/model_parts.py",
        "engines/child_process.py",
        "preflight/",
        "engines/ray/session.py",
        "executors/runtime/files/temporary_folder.py",
        "executors/features/object_stores/copies.py",
    )
    assert [line for line in lines if not any(place in line for place in known)] == []


def test_no_code_uses_pickle_or_eval() -> None:
    """As ruff's S rules and bandit check by line: no code of the package unpickles or evaluates text."""
    words = (
        r"\b(pickle|cPickle|dill|shelve|marshal|joblib|torch)\b.*\bimport|^import (pickle|dill|shelve|marshal|joblib)"
    )
    more = r"\beval\(|\bexec\(|yaml\.(unsafe_|full_)?load\(|os\.system|shell=True|allow_pickle=True"
    found = subprocess.run(
        ["git", "grep", "-nE", f"{words}|{more}", "--", "*.py", ":!tests", ":!benchmarks", ":!fuzz", ":!scripts"],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert found.stdout == ""


def test_log_lines_contain_no_terminal_control_sequences() -> None:
    program = (
        "from generic_trainer.executors.runtime.logs.setup import show_logs; show_logs(False)\n"
        "import generic_trainer.executors.monitoring.display as ours, logging\n"
        "logger = logging.getLogger('absl')\n"
        "def said(path, text):\n"
        "    logger.handle(logger.makeRecord('absl', logging.INFO, path, 1, text, (), None))\n"
        r"said(ours.__file__, 'metric \x1b]0;taken\x07\x1b[2J [red]x[/] \u202e is')"
        "\n"
        r"said('/of/the/module.py', '\x1b[32mgood')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    assert first.endswith("metric \ufffd]0;taken\ufffd\ufffd[2J [red]x[/] \ufffd is")
    assert second.endswith("\x1b[32mgood")  # colors of the module's output are kept
    assert setup.LOG_NAME == "generic-trainer.log"
