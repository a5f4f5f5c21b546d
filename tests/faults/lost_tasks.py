"""What holds when a task of a cluster is killed: the others end and name it, unless the model needs it no more.

job = ClusterJob(folder, case.kind, round_seconds, case.steps)
require_named(case, job)
"""

from __future__ import annotations

import dataclasses
import re

from cluster_job import FEW_STEPS, KINDS, MANY_STEPS, ClusterJob, Ended

EX_TEMPFAIL = 75
HOWS = ("kill", "kill training")


@dataclasses.dataclass(frozen=True)
class Case:
    """A task that is killed.

    Attributes:
      kind: One of `KINDS`.
      task: The task, such as "worker-0".
      moment: One of `MOMENTS`.
      how: One of `HOWS`: the command with all of its processes, or its training process only.
    """

    kind: str
    task: str
    moment: str
    how: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.task}-{self.moment}-{self.how.replace(' ', '_')}"

    @property
    def steps(self) -> int:
        return FEW_STEPS if self.moment == "end" else MANY_STEPS


def _tasks(kind: str) -> list[str]:
    return [f"{role}-0" for role in KINDS[kind].counts]


CASES = [
    *(
        Case(kind, task, moment, "kill")
        for kind in KINDS
        for moment in ("before", "during", "end")
        for task in _tasks(kind)
    ),
    *(Case(kind, task, "during", "kill training") for kind in KINDS for task in _tasks(kind)),
]


def run(case: Case, job: ClusterJob) -> dict[str, Ended]:
    """Trains, kills the task, and returns how the tasks ended."""
    job.start()
    job.await_moment(case.moment, case.task)
    (job.kill if case.how == "kill" else job.kill_training)(case.task)
    return job.ends()


def require_named(case: Case, job: ClusterJob) -> dict[str, Ended]:
    """Asserts that the other tasks name the killed one and its address, or have finished; returns how they ended."""
    ends = run(case, job)
    role, index = case.task.split("-")
    expected = re.compile(rf"generic-trainer: (The )?{role}( {index})? at {job.address(case.task)} ")
    for task, ended in ends.items():
        if task == case.task or (ended.code == 0 and case.moment == "end"):
            continue
        assert ended.code == EX_TEMPFAIL, f"{task}: {ended.errors[-3000:]}"
        assert expected.match(ended.last_line), f"{task}: {ended.last_line}"
    return ends
