"""Guarantees for runs with Keras fits that are interrupted between the last step and publishing."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest
from fault_job import CommandResult, FitJob
from guarantees import MEMORY, Fault, run_out_of_memory

PHASES_AFTER_FIT = ("export", "check", "publish")
STEPS = 2 * 2 * 2  # models, epochs, steps an epoch


def run_fit_with_fault(job: FitJob, fault: Fault) -> str:
    """Runs a job with a fault, and asserts that it trains at most once; returns the last line of its output."""
    with _training_once(job):
        ended = _run_with(job, fault)
    assert ended.code != 0 or fault.kind == MEMORY, ended.errors  # it may need no more
    job.require_nothing_running()
    return ended.last_line


def require_recovered_after_fit(job: FitJob) -> None:
    """Asserts that the next run publishes the trained weights."""
    with _training_once(job):
        ended = job.run()
    assert ended.code == 0, ended.errors
    published = sum(map(float, job.weights().strip("[]").split(",")))
    assert job.weight() == pytest.approx(published, abs=1e-5)
    assert job.leftovers_beside_model() == []


@contextlib.contextmanager
def _training_once(job: FitJob) -> Iterator[None]:
    """Asserts that a run trains if the previous one published its model, and else reuses its weights."""
    is_new = job.record().get("status", "succeeded") == "succeeded"
    steps, weights = job.trained_steps(), "" if is_new else job.weights()
    yield
    assert job.trained_steps() == steps + STEPS * is_new
    assert is_new or job.weights() == weights


def _run_with(job: FitJob, fault: Fault) -> CommandResult:
    if fault.kind == MEMORY:
        return run_out_of_memory(job, fault.phase)
    assert isinstance(fault.kind, signal.Signals)
    return job.stopped_in(fault.phase, fault.kind)
