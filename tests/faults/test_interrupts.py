"""No signal in any phase loses a finished model: it is published, or kept and then published by the same command."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Callable, Iterator

import pytest
from interrupts import (
    CASES,
    Interrupt,
    InterruptedJob,
    interrupted,
    require_nothing_lost,
    require_resumed,
)

IGNORED = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


@pytest.fixture
def started(tmp_path: pathlib.Path, shim: pathlib.Path) -> Iterator[Callable[[str], InterruptedJob]]:
    jobs: list[InterruptedJob] = []

    def start(engine: str = "local") -> InterruptedJob:
        jobs.append(InterruptedJob(tmp_path / f"job{len(jobs)}", shim, engine))
        return jobs[-1]

    yield start
    for job in jobs:
        job.stop()


@pytest.mark.slow
@pytest.mark.thorough_but("local-check-SIGUSR1", "local-check-SIGKILL", "local-saved-SIGXCPU")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_signal_loses_no_model(case: Interrupt, started: Callable[[str], InterruptedJob]) -> None:
    if case.engine == "ray":
        pytest.importorskip("ray")
    job = started(case.engine)
    require_nothing_lost(job, case)
    require_resumed(job, case)


@pytest.mark.slow
def test_further_signals_do_not_keep_a_model_from_being_kept(started: Callable[[str], InterruptedJob]) -> None:
    job = started()
    ended = interrupted(job, Interrupt("check", signal.SIGINT, "local"), times=5)
    assert ended.code == 130, ended.errors
    assert len(job.kept()) == 1
    assert job.record()["unchecked"]


@pytest.mark.slow
def test_a_finished_model_of_a_killed_run_is_kept_if_the_next_one_trains_another(
    started: Callable[[str], InterruptedJob],
) -> None:
    job = started()
    interrupted(job, Interrupt("check", signal.SIGKILL, "local"))
    ended = job.run("--seed", "7")
    assert ended.code == 0, ended.errors
    [kept] = job.kept()
    assert f"A run was killed before it checked its model, which is kept in {kept.parent}." in ended.errors
    assert len(job.trained()) == 2
    assert job.leftovers_beside_model() == []


@pytest.mark.slow
def test_ignored_signals_stay_ignored(started: Callable[[str], InterruptedJob]) -> None:
    def ignore() -> None:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)

    job = started()
    job.held_in("training", preexec_fn=ignore)
    for number in IGNORED:
        job.running.send_signal(number)
    job.control.release()
    ended = job.end()
    assert ended.code == 0, ended.errors
