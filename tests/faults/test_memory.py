"""Out of memory: by a limit of a process's address space, and by the kernel's SIGKILL."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
from fault_job import Job
from guarantees import MEMORY, Fault, require_recovered, run_with_fault

pytestmark = pytest.mark.slow


@pytest.mark.thorough
def test_a_module_out_of_memory_is_named_and_the_next_run_resumes(job: Job) -> None:
    assert "MemoryError" in run_with_fault(job, Fault("eval", MEMORY))
    for phase in ("check", "publish"):  # are not limited
        run_with_fault(job, Fault(phase, MEMORY))
    require_recovered(job)


@pytest.mark.thorough
def test_the_kernel_kills_what_trains_and_once_what_checks(job: Job) -> None:
    job.start(phase="export")
    os.kill(job.await_held(), signal.SIGKILL)
    ended = job.end()
    assert ended.code == 1
    assert (
        "process was ended by SIGKILL before it had finished. The machine may have run out of memory." in ended.errors
    )
    assert job.weight() is None
    assert job.saved() == job.steps

    job.start(phase="check")  # the trained model is not lost
    os.kill(job.await_held(), signal.SIGKILL)
    ended = job.end()
    assert ended.code == 0, ended.errors
    assert "was interrupted; retrying it once." in ended.errors
    assert job.weight() == job.steps
    job.require_nothing_running()


@pytest.fixture
def group() -> Iterator[pathlib.Path]:
    """A control group with a limit of 64 MB more than its processes use, if this user can create one."""
    folder = new_group()
    if folder is None:
        pytest.skip("this user may not make a control group")
    yield folder
    with contextlib.suppress(OSError):  # the kernel may not have finished it
        folder.rmdir()


def new_group() -> pathlib.Path | None:
    for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = pathlib.Path(top, f"generic-trainer-{os.getpid()}")
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / limit).exists():
                (folder / limit).write_text(str(64 << 20))
                return folder
            folder.rmdir()
    return None


@pytest.mark.thorough
def test_the_kernel_kills_the_training_process_at_the_memory_limit(job: Job, group: pathlib.Path) -> None:
    job.start(phase="eval")
    process = job.await_held()
    (group / "cgroup.procs").write_text(str(process))
    (job.folder / "needs-memory").touch()
    job.control.release()
    ended = job.end()
    assert ended.code == 1
    assert "was ended by SIGKILL before it had finished. The machine may have run out of memory." in ended.message
    assert job.weight() is None
    (job.folder / "needs-memory").unlink()
    require_recovered(job)
