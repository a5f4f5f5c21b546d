"""A task of a cluster that is lost ends the others, and a task that never comes is named."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from cluster_job import FEW_STEPS, KINDS, MANY_STEPS, ClusterJob
from fault_job import LONGEST, wait_until
from lost_tasks import CASES, Case, require_named

ROUND_SECONDS = 2.0  # a lost task is noticed after 14 s instead of 35 s
QUICK = ("loop-worker-0-during-kill", "estimator-evaluator-0-during-kill")


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Callable[..., ClusterJob]]:
    jobs: list[ClusterJob] = []

    def make(kind: str, steps: int = MANY_STEPS, round_seconds: float = ROUND_SECONDS) -> ClusterJob:
        jobs.append(ClusterJob(tmp_path / "job", kind, round_seconds, steps))
        return jobs[-1]

    yield make
    for job in jobs:
        job.stop()


@pytest.mark.slow
@pytest.mark.thorough_but(*QUICK)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_lost_task_ends_the_others_and_is_named(case: Case, cluster: Callable[..., ClusterJob]) -> None:
    require_named(case, cluster(case.kind, case.steps))


@pytest.mark.slow
def test_a_task_that_never_comes_is_named_while_waiting_and_by_the_timeout(cluster: Callable[..., ClusterJob]) -> None:
    job = cluster("loop")
    job.start("chief-0", "worker-1", flags=("--timeout", "40"))
    for task, ended in job.ends().items():
        assert f"Waiting for worker 0 at {job.address('worker-0')}." in ended.errors, task
        assert ended.last_line.endswith(f"It was waiting for worker 0 at {job.address('worker-0')}.")
        assert ended.code == 1


@pytest.mark.slow
@pytest.mark.thorough
def test_a_task_that_comes_late_or_is_started_again_is_not_lost(cluster: Callable[..., ClusterJob]) -> None:
    job = cluster("estimator", 1200, round_seconds=5.0)
    job.start("chief-0", "ps-0", "evaluator-0")
    job.wait_until(lambda: "Waiting for worker 0 at" in job.log("chief-0"))
    job.start("worker-0")
    job.await_moment("before", "worker-0")
    job.kill("worker-0")
    job.start("worker-0")
    assert {task: ended.code for task, ended in job.ends().items()} == dict.fromkeys(job.tasks, 0)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_job_succeeds_if_its_platform_starts_failed_tasks_again(
    kind: str, cluster: Callable[..., ClusterJob]
) -> None:
    job, restarts = cluster(kind, 400), Counter[str]()
    job.start()
    job.await_moment("during", "worker-0")
    job.kill("worker-0")

    def all_have_succeeded() -> bool:
        codes = {task: process.poll() for task, process in job.running.items()}
        failed = [task for task, code in codes.items() if code]
        restarts.update(failed)
        if failed:
            job.start(*failed)
        assert max(restarts.values(), default=0) <= 3, {task: job.log(task) for task in restarts}
        return set(codes.values()) == {0}

    wait_until(all_have_succeeded, 2 * LONGEST)
    assert job.record()["status"] == "succeeded"


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_tasks_that_end_as_planned_are_not_lost(kind: str, cluster: Callable[..., ClusterJob]) -> None:
    job = cluster(kind, FEW_STEPS)
    job.start()
    ends = job.ends()
    assert {task: ended.code for task, ended in ends.items()} == dict.fromkeys(job.tasks, 0)
    assert not any("lost" in ended.errors for ended in ends.values())
    assert not list((job.folder / "out" / "model_run" / "tasks").glob("*.alive"))
