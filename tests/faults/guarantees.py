"""Guarantees after each fault, and runs with injected faults.

run_with_fault(job, Fault("publish", signal.SIGTERM))   # asserts all guarantees
"""

from __future__ import annotations

import dataclasses
import os
import resource
import signal

import psutil
from fault_job import OF_THE_MODULE, CommandResult, Job

MEMORY = "out of memory"
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
UNCHECKED = "the module had saved a model, which was not checked. It is kept in"
RERUN = "Run the same command again: it checks and publishes the model without training again."
_END_MESSAGES = {
    signal.SIGTERM: "generic-trainer: ended by SIGTERM; ",
    signal.SIGHUP: "generic-trainer: ended by SIGHUP; ",
    signal.SIGINT: "generic-trainer: interrupted; ",
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault to inject into a run.

    Attributes:
      phase: The phase of the run, of `fault_job.PHASES`.
      kind: A signal to send to the command, or MEMORY: memory allocations fail in the process of that phase.
    """

    phase: str
    kind: signal.Signals | str

    def __str__(self) -> str:
        return f"{self.phase}-{getattr(self.kind, 'name', 'MEMORY')}"


@dataclasses.dataclass(frozen=True)
class StateBefore:
    """The state before a run.

    Attributes:
      weight: The weight of the published model; None without one.
      status: The status of the run's record; "" without one.
      begins_at: The step from which the run must resume.
      temporary: Names of this package's temporary folders.
    """

    weight: float | None
    status: str
    begins_at: int
    temporary: frozenset[str]

    @classmethod
    def of(cls, job: Job) -> StateBefore:
        status = job.record().get("status", "")
        begins_at = 0 if status == "succeeded" else job.saved()
        return cls(job.weight(), status, begins_at, temporary(job))


def run_with_fault(job: Job, fault: Fault) -> str:
    """Runs a job with a fault, and asserts all guarantees but recovery; returns the last line of its output."""
    before = StateBefore.of(job)
    # Processes that a module leaves running may stay after success, but not after an interrupt.
    others = job.folder / "starts-others"
    others.unlink(missing_ok=True)
    if fault.phase in OF_THE_MODULE and fault.kind != MEMORY:
        others.touch()
    if fault.kind == MEMORY:
        ended = run_out_of_memory(job, fault.phase)
        require_death_by_memory(job, before, ended)
    else:
        assert isinstance(fault.kind, signal.Signals)
        ended = job.stopped_in(fault.phase, fault.kind)
        require_end_by_signal(job, before, ended, fault.phase, fault.kind)
    if "The loop begins" in ended.errors:
        assert job.first_step_of(ended) == before.begins_at
    if fault.kind != signal.SIGKILL:  # a killed process cannot clean up; the next run does
        assert job.leftovers_beside_model() == []
        assert temporary(job) <= before.temporary
    job.require_nothing_running()
    return ended.last_line


def temporary(job: Job) -> frozenset[str]:
    return frozenset(name for name in os.listdir(job.temporary) if name.startswith("generic-trainer-"))


def require_end_by_signal(
    job: Job, before: StateBefore, ended: CommandResult, phase: str, number: signal.Signals
) -> None:
    is_published = phase == "report" or (phase == "publish" and number != signal.SIGKILL)
    assert ended.code == CODES[number], ended.errors
    assert job.weight() == (job.steps if is_published else before.weight)
    assert all(name.startswith(".staging-") for name in job.leftovers_beside_model())
    # Before the inputs are known, a run writes nothing.
    status = before.status if phase == "inputs" else "running" if number == signal.SIGKILL else "interrupted"
    assert job.record().get("status", "") == ("succeeded" if is_published else status)
    if number == signal.SIGKILL:
        return
    outcome = ended.last_line.removeprefix(_END_MESSAGES[number])
    if is_published:
        assert outcome == f"the model had been published to {job.out}/model/Format-Serving."
    elif phase == "check":
        said = f"{_END_MESSAGES[number]}nothing was published; {UNCHECKED} {job.record()['rejected']}."
        assert said in ended.message
        assert RERUN in ended.message
    else:
        assert outcome == "nothing was published."
    if phase == "first_step":
        assert job.saved() == before.begins_at + 2
        assert f"saved at {job.out}/model_run/checkpoints/ckpt-{job.saved()}. The next run resumes" in ended.errors


def run_out_of_memory(job: Job, phase: str) -> CommandResult:
    """Runs a job whose process can allocate no more memory from a phase on."""
    job.start(phase=phase)
    process = job.await_held()
    needs = job.folder / "needs-memory"
    needs.touch()
    limit_memory(process)
    job.control.release()
    try:
        return job.end()
    finally:
        needs.unlink()


def limit_memory(process: int) -> None:
    """Limits the address space of a process to its current size."""
    size = psutil.Process(process).memory_info().vms
    resource.prlimit(process, resource.RLIMIT_AS, (size, size))


def require_death_by_memory(job: Job, before: StateBefore, ended: CommandResult) -> None:
    """Asserts that the run failed with a message on memory, or succeeded because it needed no more."""
    if ended.code == 0:
        assert job.weight() == job.steps
        assert job.record()["status"] == "succeeded"
        return
    assert ended.code in (1, 3), ended.errors
    assert job.weight() in (before.weight, job.steps)
    assert job.record()["status"] in ("failed", "running")
    assert "emory" in ended.errors, ended.errors


def require_recovered(job: Job) -> None:
    """Asserts that the next run succeeds, and resumes from the last checkpoint if the previous run failed."""
    before = StateBefore.of(job)
    (job.folder / "starts-others").unlink(missing_ok=True)
    ended = job.run()
    assert ended.code == 0, ended.errors
    assert job.first_step_of(ended) == before.begins_at
    assert job.weight() == job.steps
    assert job.record()["status"] == "succeeded"
    assert (job.out / "model_run" / "report.html").exists()
    assert job.leftovers_beside_model() == []
    job.require_nothing_running()
