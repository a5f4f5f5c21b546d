"""What holds after each fault, and a run that is made to suffer one.

suffer(job, Fault("publish", signal.SIGTERM))   # asserts all of it
"""

from __future__ import annotations

import dataclasses
import os
import resource
import signal

import psutil
from fault_job import OF_THE_MODULE, Ended, Job

MEMORY = "out of memory"
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
_SAYS = {
    signal.SIGTERM: "generic-trainer: ended by SIGTERM; ",
    signal.SIGHUP: "generic-trainer: ended by SIGHUP; ",
    signal.SIGINT: "generic-trainer: interrupted; ",
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is done to a run.

    Attributes:
      phase: When, of `fault_job.PHASES`.
      kind: The signal that its command gets; or MEMORY: the process that is in that phase gets no more memory.
    """

    phase: str
    kind: signal.Signals | str

    def __str__(self) -> str:
        return f"{self.phase}-{getattr(self.kind, 'name', 'MEMORY')}"


@dataclasses.dataclass(frozen=True)
class Before:
    """What is there when a run begins.

    Attributes:
      weight: The published model's.
      begins_at: The step from which it has to go on.
      temporary: Our folders among the temporary ones.
    """

    weight: float | None
    begins_at: int
    temporary: frozenset[str]

    @classmethod
    def of(cls, job: Job) -> Before:
        begins_at = 0 if job.record().get("status") == "succeeded" else job.saved()
        return cls(job.weight(), begins_at, temporary(job))


def suffer(job: Job, fault: Fault) -> str:
    """Runs a job into a fault, and makes sure of all promises but that of the next run; returns what it said."""
    before = Before.of(job)
    # What a module leaves running on purpose may stay when it has ended well; not when it is ended.
    others = job.folder / "starts-others"
    others.unlink(missing_ok=True)
    if fault.phase in OF_THE_MODULE and fault.kind != MEMORY:
        others.touch()
    if fault.kind == MEMORY:
        ended = starved(job, fault.phase)
        require_death_by_memory(job, before, ended)
    else:
        assert isinstance(fault.kind, signal.Signals)
        ended = job.stopped_in(fault.phase, fault.kind)
        require_end_by_signal(job, before, ended, fault.phase, fault.kind)
    if "The loop begins" in ended.errors:
        assert job.begin_of(ended) == before.begins_at
    if fault.kind != signal.SIGKILL:  # who is killed cannot clear up; the next run does
        assert job.beside_the_model() == []
        assert temporary(job) <= before.temporary
    job.require_nothing_running()
    return ended.last_line


def temporary(job: Job) -> frozenset[str]:
    return frozenset(name for name in os.listdir(job.temporary) if name.startswith("generic-trainer-"))


def require_end_by_signal(job: Job, before: Before, ended: Ended, phase: str, number: signal.Signals) -> None:
    is_published = phase == "report" or (phase == "publish" and number != signal.SIGKILL)
    assert ended.code == CODES[number], ended.errors
    assert job.weight() == (job.steps if is_published else before.weight)
    assert all(name.startswith(".staging-") for name in job.beside_the_model())
    status = job.record()["status"]
    if number == signal.SIGKILL:
        assert status == ("succeeded" if is_published else "running")
        return
    assert status == ("succeeded" if is_published else "interrupted")
    assert ended.last_line == _SAYS[number] + (
        f"the model had been published to {job.out}/model/Format-Serving." if is_published else "nothing was published."
    )
    if phase == "first_step":
        assert job.saved() == before.begins_at + 2
        assert f"saved at {job.out}/model_run/checkpoints/ckpt-{job.saved()}. Run again" in ended.errors


def starved(job: Job, phase: str) -> Ended:
    """Runs a job in which the process that comes to a phase gets no more memory there."""
    job.start(phase=phase)
    process = job.await_held()
    needs = job.folder / "needs-memory"
    needs.touch()
    starve(process)
    job.control.release()
    try:
        return job.end()
    finally:
        needs.unlink()


def starve(process: int) -> None:
    """Gives a process no more memory than it has."""
    size = psutil.Process(process).memory_info().vms
    resource.prlimit(process, resource.RLIMIT_AS, (size, size))


def require_death_by_memory(job: Job, before: Before, ended: Ended) -> None:
    """The run has failed with a word on memory; or it has not, because it needed no more."""
    if ended.code == 0:
        assert job.weight() == job.steps
        assert job.record()["status"] == "succeeded"
        return
    assert ended.code in (1, 3), ended.errors
    assert job.weight() in (before.weight, job.steps)
    assert job.record()["status"] in ("failed", "running")
    assert "emory" in ended.errors, ended.errors


def require_recovered(job: Job) -> None:
    """The next run goes through, from the last checkpoint if the last one did not."""
    before = Before.of(job)
    (job.folder / "starts-others").unlink(missing_ok=True)
    ended = job.run()
    assert ended.code == 0, ended.errors
    assert job.begin_of(ended) == before.begins_at
    assert job.weight() == job.steps
    assert job.record()["status"] == "succeeded"
    assert (job.out / "model_run" / "report.html").exists()
    assert job.beside_the_model() == []
    job.require_nothing_running()
