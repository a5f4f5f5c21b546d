"""Standard input, output and error that are closed, have no reader, or are full."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fault_job import Job

COMMAND = [sys.executable, "-m", "generic_trainer.cli.main"]
ALL_CLOSED = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]


def with_output(line: list[str], output: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *line], stdout=output, stderr=subprocess.PIPE, text=True, check=False, **options)


@pytest.fixture
def nobody_reads() -> Any:
    """The write end of a pipe whose reader has closed it, as `head` does."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.fixture
def full() -> Any:
    with pathlib.Path("/dev/full").open("w") as file:
        yield file


def test_a_closed_pipe_is_not_an_error(nobody_reads: int) -> None:
    done = with_output(["train", "--help"], nobody_reads)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_could_not_be_written_is_a_failure(full: Any) -> None:
    done = with_output(["train", "--help"], full)
    assert done.returncode == 1
    assert done.stderr == "generic-trainer: the output is incomplete: standard output: No space left on device.\n"


@pytest.mark.parametrize("error", [("nobody_reads"), ("full")])
def test_the_exit_code_is_kept_if_standard_error_is_closed(error: str, request: pytest.FixtureRequest) -> None:
    line = [*COMMAND, "train", "nowhere.py", "--train-files", "none", "--output", "/dev/null/none"]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=request.getfixturevalue(error), text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_closed_output_is_not_reused_by_another_file(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([*ALL_CLOSED, *COMMAND, "train", "--help"], check=False)
    assert done.returncode == 0


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("streams", ["closed", "full"])
def test_a_training_publishes_its_model_if_its_output_cannot_be_written(
    streams: str, job: Job, nobody_reads: int, full: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streams == "closed":
        line: Callable[..., list[str]] = job.line
        monkeypatch.setattr(job, "line", lambda *arguments: [*ALL_CLOSED, *line(*arguments)])
        job.start(stdout=None, stderr=None)
    else:
        job.start(stdin=None, stdout=nobody_reads, stderr=full)
    assert job.end().code == 0
    assert job.weight() == job.steps
    assert job.record()["status"] == "succeeded"
    job.require_nothing_running()
