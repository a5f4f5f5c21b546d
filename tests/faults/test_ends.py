"""A training that is interrupted in each of its phases: by kill -9, SIGTERM and Ctrl-C.

All runs share one folder, so that each run is also the next one after a fault. `matrix.py` covers all combinations.
"""

from __future__ import annotations

import signal

import pytest
from fault_job import Job
from guarantees import Fault, require_recovered, run_with_fault

FAULTS = (
    Fault("inputs", signal.SIGTERM),
    Fault("load", signal.SIGINT),
    Fault("first_step", signal.SIGTERM),
    Fault("checkpoint", signal.SIGKILL),
    Fault("eval", signal.SIGHUP),
    Fault("export", signal.SIGKILL),
    Fault("check", signal.SIGTERM),
    Fault("publish", signal.SIGKILL),
    Fault("publish", signal.SIGTERM),
    Fault("report", signal.SIGINT),
    Fault("report", signal.SIGKILL),
)


@pytest.mark.thorough
@pytest.mark.slow
def test_interrupted_runs_leave_complete_models_and_the_next_run_resumes(job: Job) -> None:
    require_recovered(job)  # a model that exists before
    for fault in FAULTS:
        try:
            run_with_fault(job, fault)
        except AssertionError as error:
            raise AssertionError(f"{fault}: {error}") from error
    require_recovered(job)


@pytest.mark.slow
def test_a_training_saves_a_checkpoint_when_all_of_its_processes_are_signaled_at_once(job: Job) -> None:
    job.start(phase="first_step")
    job.await_held()
    for process in job.processes():
        process.terminate()
    job.control.release()
    ended = job.end()
    assert ended.code == 143
    assert "saved at" in ended.errors
    assert job.saved() == 2
    job.require_nothing_running()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_signal_ends_a_training_whose_processes_are_stopped(job: Job, number: signal.Signals) -> None:
    job.start(phase="first_step")
    job.await_held()
    for process in job.processes():
        if process.pid != job.running.pid:
            process.suspend()
    job.running.send_signal(number)
    assert job.end().code == 128 + number
    job.require_nothing_running()
