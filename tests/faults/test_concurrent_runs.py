"""Two concurrent runs with the same output: the second is rejected, and does not affect the first."""

from __future__ import annotations

import re
import subprocess

import pytest
from fault_job import Job


def second_run(job: Job) -> subprocess.CompletedProcess[str]:
    return subprocess.run(job.line(), env=job.environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_second_training_with_the_same_output_is_rejected_and_the_first_continues(job: Job) -> None:
    job.start(phase="checkpoint")
    job.await_held()
    before = (job.out / "model_run" / "run.json").read_text()
    second = second_run(job)
    assert second.returncode == 2
    assert re.search(
        rf"model_run: another run is active in this folder, process {job.running.pid} since 20.+ "
        "Wait until it has ended",
        second.stderr.splitlines()[-1],
    )
    assert (job.out / "model_run" / "run.json").read_text() == before
    job.control.release()
    assert job.end().code == 0
    assert job.weight() == job.steps

    job.start(phase="report")  # its model exists, but it is still running: its files are not moved
    job.await_held()
    assert second_run(job).returncode == 2
    job.control.release()
    assert job.end().code == 0
    assert (job.out / "model_run" / "report.html").exists()
    assert job.weight() == job.steps
