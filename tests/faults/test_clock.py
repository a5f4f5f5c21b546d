"""The clock is set while a training runs."""

from __future__ import annotations

import signal

import pytest
from fault_job import Job

DAY, HOUR = 86400, 3600


def run_with_jump(job: Job, phase: str, seconds: int) -> None:
    job.start(phase=phase)
    job.await_held()
    job.control.shift_clock(seconds)
    job.control.release()
    ended = job.end()
    assert ended.code == 0, ended.errors
    assert job.weight() == job.steps
    record = job.record()
    assert record["metrics"]["eval"] == {"weight": job.steps}
    assert all(0 <= took < HOUR / 2 for took in record["phases"].values())
    job.require_nothing_running()


@pytest.mark.thorough
@pytest.mark.slow
def test_the_metrics_are_this_run_s_and_durations_are_real(job: Job) -> None:
    job.stopped_in("export", signal.SIGTERM)  # has logged a metric, with a later time than after the next jump
    run_with_jump(job, "first_step", -HOUR)
    job.control.shift_clock(0)
    run_with_jump(job, "export", DAY)  # after its metric was logged
