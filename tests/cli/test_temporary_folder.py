"""If no temporary file can be written, as in a read-only container without /tmp, a one-line error names the remedy."""

from __future__ import annotations

import pathlib
import resource
import subprocess
import sys
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
    assert said.startswith("generic-trainer: Temporary files cannot be written: none of ")
    assert "--tmpfs /tmp" in said
    assert "set TMPDIR to one" in said
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
