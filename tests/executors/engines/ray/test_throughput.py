"""Aggregated throughput of a run with several workers; a report survives the end of its process."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys

from generic_trainer.executors.engines.ray.throughput import ThroughputTracker
from generic_trainer.executors.monitoring import progress_reports
from generic_trainer.executors.monitoring.progress_reports import Progress


class Clock:
    """A clock that the test sets, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def at(first: int, step: int, seconds: float, *, steps: float = -1, examples: float = 0) -> Progress:
    """Returns a progress report for the given time."""
    return Progress(first, step, step - first if steps < 0 else steps, examples, seconds, 0.0)


def test_repeated_steps_and_goodput_over_three_attempts() -> None:
    clock = Clock()
    tracker = ThroughputTracker(0, clock)
    # Training starts at 10 s; 2 steps a second, 75 steps until 47.5 s. A checkpoint of step 50 is saved.
    tracker.begin("one", 2)
    for clock.now, step in ((11.0, 2), (30.0, 40), (35.0, 50), (47.5, 75)):
        tracker.note("one", 0, "worker 0", at(0, step, clock.now - 10, examples=8 * step))
    # Resumes from 50 at 60 s with one worker, reaches 60 at 65 s, and saves nothing.
    clock.now = 55.0
    tracker.begin("two", 1)
    clock.now = 65.0
    tracker.note("two", 0, "worker 0", at(50, 60, 5, examples=160))
    # From 50 again, at 80 s, to the end at 105 s.
    tracker.begin("three", 2)
    clock.now = 105.0
    tracker.note("three", 0, "worker 0", at(50, 100, 25, examples=400))
    tracker.note("three", 1, "worker 1", at(50, 100, 25, examples=400))

    summary = tracker.summary(120.0)
    assert (summary["restarts"], summary["redone_steps"]) == (2, 25 + 10)
    # 25 s for the first 50 steps, nothing from the second attempt, 25 s for the last 50.
    assert summary["goodput"] == round(50 / 120, 3)
    first, second, third = summary["tries"]
    assert first == {
        **{"workers": 2, "began": 15.0, "first_step": 0, "last_step": 75, "lost_steps": 25, "seconds": 25.0}
    }
    assert (second["workers"], second["began"], second["lost_steps"], second["seconds"]) == (1, 70.0, 10, 0.0)
    assert (third["first_step"], third["last_step"], third["lost_steps"], third["seconds"]) == (50, 100, 0, 25.0)
    # 75, 10 and 50 steps in 37.5, 5 and 25 s.
    assert summary["speeds"]["worker 0"] == {"steps_per_second": 2.0, "examples_per_second": round(1160 / 67.5, 1)}


def test_a_lost_checkpoint_also_loses_the_steps_of_earlier_attempts() -> None:
    tracker = ThroughputTracker(0, Clock())
    for name, first, last in (("one", 0, 75), ("two", 50, 60), ("three", 0, 100)):
        tracker.begin(name, 1)
        tracker.note(name, 0, "worker 0", at(first, last, 10))
    assert [one["lost_steps"] for one in tracker.summary(60.0)["tries"]] == [75, 10, 0]
    assert tracker.summary(60.0)["goodput"] == round(10 / 60, 3)


def test_a_module_without_progress_reports_has_no_goodput() -> None:
    tracker = ThroughputTracker(0, Clock())
    tracker.begin("one", 2)
    assert tracker.lines(last=True) == ""
    summary = tracker.summary(10.0)
    assert summary["goodput"] is None
    assert summary["tries"] == [{"workers": 2, "began": 10.0}]


def test_samples_of_a_long_training_are_thinned_out_and_its_duration_is_kept() -> None:
    clock = Clock()
    tracker = ThroughputTracker(0, clock)
    tracker.begin("one", 1)
    for second in range(1, 5001):
        clock.now = float(second)
        tracker.note("one", 0, "worker 0", at(0, 3 * second, second))
    tracker.begin("two", 1)
    tracker.note("two", 0, "worker 0", at(6000, 6001, 0))
    assert len(tracker._tries["one"].moments) <= 1001
    assert tracker.summary(5000.0)["tries"][0]["seconds"] == 2000.0


def test_checkpoint_interval_follows_from_deaths_and_the_cost_of_a_checkpoint() -> None:
    clock = Clock()
    tracker = ThroughputTracker(0, clock)
    tracker.begin("one", 2)
    clock.now = 100.0
    assert tracker.optimal_save_steps(1) is None  # no step yet
    tracker.note("one", 0, "worker 0", at(0, 1000, 100, steps=400))  # the other steps are those of worker 1
    assert tracker.optimal_save_steps(1) == 141  # no checkpoint yet: it is assumed to take 1 s
    saved = dataclasses.replace(at(0, 1000, 100), details={"save_seconds": 0.5})
    tracker.note("one", 0, "worker 0", saved)

    assert tracker.optimal_save_steps(0) is None
    assert tracker.optimal_save_steps(1) == 100  # 10 s: the square root of 2 times 0.5 s times 100 s
    assert tracker.optimal_save_steps(4) == 50


def test_one_line_for_all_workers_every_ten_seconds_and_none_without_progress() -> None:
    clock = Clock()
    tracker = ThroughputTracker(0, clock)
    tracker.begin("one", 2)
    lines = []
    for second in range(1, 26):
        clock.now = float(second)
        step = 10 * min(second, 17)
        for rank in (0, 1):
            tracker.note("one", rank, f"worker {rank}", at(0, step, min(second, 17), examples=16 * step))
        lines.append(tracker.lines())
    # 10 steps of 2 x 16 examples a second; no steps after 17 s.
    assert [(second, line) for second, line in enumerate(lines, 1) if line] == [
        (1, "[2 workers] step 10, 10 steps/s, 320 examples/s\n"),
        (11, "[2 workers] step 110, 10 steps/s, 320 examples/s\n"),
        (21, "[2 workers] step 170, 10 steps/s, 320 examples/s\n"),
    ]
    assert tracker.lines(last=True) == ""
    tracker.begin("two", 1)
    tracker.note("two", 0, "worker 0", at(100, 150, 5))
    assert tracker.lines(last=True) == "[1 worker] step 150, 10 steps/s, 1 restart\n"


def test_a_straggler_below_half_the_speed_is_reported_once() -> None:
    clock = Clock()
    tracker = ThroughputTracker(1, clock)
    tracker.begin("one", 4)
    said = ""
    for second in range(1, 100):
        clock.now = float(second)
        # Rank 2 does 2 steps a second where the others do 5; rank 3 is a little slower, and rank 1 finishes after 40 s.
        for rank, own in enumerate((5.0, 5.0, 2.0, 4.0)):
            steps = own * (min(second, 40) if rank == 1 else second)
            tracker.note("one", rank, f"worker {rank}", at(0, 16 * second, second, steps=steps))
        if second == 40:
            tracker.end("one", 1)
        said += tracker.lines()
    warnings = [line for line in said.splitlines() if "straggler" in line]
    assert warnings == ["[worker 2] Warning: straggler: 2 steps/s over 30 s, median of the others 5."]
    assert list(tracker.summary(99.0)["stragglers"]) == ["worker 2"]


def test_the_steps_of_a_worker_that_was_started_again_are_added_up() -> None:
    tracker = ThroughputTracker(1, Clock())
    tracker.begin("one", 2)
    tracker.note("one", 0, "chief 0", at(0, 100, 10.0, steps=60, examples=600))
    tracker.note("one", 1, "worker 0", at(0, 100, 10.0, steps=40, examples=400))
    tracker.replace("one", 1)
    tracker.note("one", 1, "worker 0", at(130, 200, 5.0, steps=30, examples=300))

    assert tracker.combined() == {
        **{"step": 200, "examples": 1300, "details": {"workers": 2, "restarts": 0, "replaced": 1}}
    }
    summary = tracker.summary(100.0)
    assert (summary["restarts"], summary["replaced"], summary["redone_steps"]) == (0, 1, 0)
    assert summary["speeds"]["worker 0"] == {"steps_per_second": 4.67, "examples_per_second": 46.7}
    assert tracker.optimal_save_steps(0) is None


def test_progress_is_readable_after_the_process_was_killed(tmp_path: pathlib.Path) -> None:
    path = progress_reports.create_progress_file(str(tmp_path))
    assert progress_reports.read(path) is None
    program = """
import os, signal
from generic_trainer import report_progress
report_progress(100)
for step in range(101, 111):
    report_progress(step, examples=4)
report_progress(120, examples=4, steps=1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, env={**os.environ, progress_reports.VARIABLE: path}
    )
    assert done.returncode == -signal.SIGKILL
    found = progress_reports.read(path)
    assert found is not None
    assert (found.first, found.step, found.steps, found.examples) == (100, 120, 11, 44)
