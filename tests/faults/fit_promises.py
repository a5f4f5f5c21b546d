"""What holds for a run with Keras fits that is ended between its last step and publishing."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest
from fault_job import Ended, FitJob
from promises import MEMORY, Fault, starved

PHASES_AFTER_FIT = ("export", "check", "publish")
STEPS = 2 * 2 * 2  # models, epochs, steps an epoch


def suffer_after_fit(job: FitJob, fault: Fault) -> str:
    """Runs a job into a fault, and requires that it trains at most once; returns the last line that it printed."""
    with _training_once(job):
        ended = _ended_by(job, fault)
    assert ended.code != 0 or fault.kind == MEMORY, ended.errors  # it may need no more
    job.require_nothing_running()
    return ended.last_line


def require_recovered_after_fit(job: FitJob) -> None:
    """The next run publishes the weights that were trained."""
    with _training_once(job):
        ended = job.run()
    assert ended.code == 0, ended.errors
    published = sum(map(float, job.weights().strip("[]").split(",")))
    assert job.weight() == pytest.approx(published, abs=1e-5)
    assert job.beside_the_model() == []


@contextlib.contextmanager
def _training_once(job: FitJob) -> Iterator[None]:
    """Requires that a run trains if the one before has published, and else has the weights of that one."""
    is_new = job.record().get("status", "succeeded") == "succeeded"
    steps, weights = job.trained_steps(), "" if is_new else job.weights()
    yield
    assert job.trained_steps() == steps + STEPS * is_new
    assert is_new or job.weights() == weights


def _ended_by(job: FitJob, fault: Fault) -> Ended:
    if fault.kind == MEMORY:
        return starved(job, fault.phase)
    assert isinstance(fault.kind, signal.Signals)
    return job.stopped_in(fault.phase, fault.kind)
