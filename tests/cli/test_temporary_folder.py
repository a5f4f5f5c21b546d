"""If no temporary file can be written, as in a read-only container without /tmp, a one-line error names the remedy."""

from __future__ import annotations

import pathlib
import resource
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

import pytest

from generic_trainer.executors.runtime.files import temporary_folder


def no_files() -> None:
    """Makes all writes to files fail, also for root."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "{module}", "--train-files", "{iris}", "--eval-files", "{iris}", "--output", "out"],
        ["run", "--data", "{folder}", "--module-file", "{module}", "--pipeline-root", "root"],
        ["check", "{module}", "--train-files", "{iris}", "--eval-files", "{iris}"],
    ],
)
def test_a_command_ends_with_one_line_and_the_remedy(
    arguments: list[str], iris: Any, tiny_module: str, tmp_path: pathlib.Path
) -> None:
    names = {"module": tiny_module, "iris": iris.train, "folder": str(pathlib.Path(iris.schema).parent)}
    line = [sys.executable, "-m", "generic_trainer.cli.main", *(one.format_map(names) for one in arguments)]
    done = subprocess.run(line, cwd=tmp_path, preexec_fn=no_files, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    [said] = done.stderr.splitlines()
    assert said.startswith("generic-trainer: Temporary files cannot be written: no file may be larger than 0 B ")
    assert said.endswith("(ulimit -f). Raise that limit.")
    assert done.stdout == ""


def test_python_callers_get_an_input_error() -> None:
    program = """
        import generic_trainer
        try:
            generic_trainer.train("module.py", generic_trainer.FnArgs())
        except generic_trainer.InputError as error:
            print(error)
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, preexec_fn=no_files, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Temporary files cannot be written"), done.stderr


def test_a_missing_file_is_not_a_temporary_folder_error() -> None:
    assert temporary_folder.explain(FileNotFoundError("another file")) is None


NO_DESCRIPTORS = """
    import os, resource, tempfile
    from generic_trainer.executors.runtime.files import temporary_folder
    from generic_trainer.executors.errors import InputError
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    try:
        while True:
            os.dup(0)
    except OSError as error:
        print(temporary_folder.explain(error))
    try:
        temporary_folder.require_temporary_folder()
    except InputError as error:
        print(error)
"""
REPLACED = """
    import io, os
    def no_writing(*arguments, **options):
        raise PermissionError(13, "not in this test")
    os.open = no_writing
    from generic_trainer.executors.runtime.files import temporary_folder
    from generic_trainer.executors.errors import InputError
    try:
        temporary_folder.require_temporary_folder()
    except InputError as error:
        print(error)
"""


def printed_by(program: str) -> list[str]:
    line = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()


def test_exhausted_descriptors_are_the_cause_and_not_the_folder() -> None:
    limit = "Too many open files: the limit of this process is 20. Close files, or raise it: ulimit -n."
    assert printed_by(NO_DESCRIPTORS) == [limit, f"Temporary files cannot be written: {limit}"]


def test_a_replaced_function_is_the_cause_and_not_the_folder() -> None:
    [message] = printed_by(REPLACED)
    assert "because os.open was replaced by no_writing (<string>:3)" in message


def test_a_folder_that_was_deleted_during_the_run_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.mkdtemp()
    assert str(temporary_folder.explain(raised.value)).startswith(f"{tmp_path}/gone was deleted during the run")

    (tmp_path / "gone").mkdir()
    folder = tempfile.mkdtemp()
    (pathlib.Path(folder)).rmdir()
    with pytest.raises(FileNotFoundError) as raised:
        pathlib.Path(folder, "a.json").write_text("")
    assert str(temporary_folder.explain(raised.value)).startswith(f"{folder} was deleted during the run")
    with pytest.raises(FileNotFoundError) as raised:
        pathlib.Path(tempfile.gettempdir(), "a.json").read_text()
    assert temporary_folder.explain(raised.value) is None
