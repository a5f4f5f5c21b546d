"""Guarantees when a signal ends `run` in one of its steps: it ends at once, and nothing is pushed after the signal.

job = WholePipelineJob(folder, shim)
for case in CASES:                     # in this order: a run takes the steps before that of its case from the cache
    require_ended(job, case)
require_pushed(job)
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import time

from fault_job import HERE, CommandResult, PipelineJob
from interrupts import SIGNALS

# The call in which a run is held, by step in the order in which they run.
STEPS = {
    "CsvExampleGen": ("rename", "/Split-train/data_tfrecord-00000-of-00001.gz"),
    "StatisticsGen": ("rename", "/FeatureStats.pb"),
    "SchemaGen": ("write", "/schema.pbtxt"),
    "ExampleValidator": ("write", "/SchemaDiff.pb"),
    "Transform": ("rename", "/Split-train/transformed_examples-00000-of-00001.gz"),
    "Tuner": ("write", "/phase-tuner"),
    "Trainer": ("write", "/phase-training"),
    "Evaluator": ("rename", "/metrics-00000-of-00001.tfrecord"),
    "Pusher": ("write", "/written/saved_model.pb"),
    "push": ("rename", ""),  # the copy gets its version number; the next rename after the Pusher has copied the model
    "report": ("rename", "/report.html"),
}
PUSHED = ("push", "report")


@dataclasses.dataclass(frozen=True)
class StepInterrupt:
    """A signal in a step.

    Attributes:
      step: A step of `STEPS`.
      number: The signal.
      is_dropped: Whether the signal comes when the step begins, in a weakref callback that drops the exception, instead
        of in the step's call.
    """

    step: str
    number: signal.Signals
    is_dropped: bool = False

    def __str__(self) -> str:
        return f"{self.step}-{self.number.name}{'-dropped' * self.is_dropped}"

    @property
    def pushes(self) -> bool:
        """Whether the model is pushed: before the signal, or while it arrives, as a rename cannot be undone."""
        return self.step in PUSHED and (self.step, self.number) != ("push", signal.SIGKILL)

    @property
    def code(self) -> int:
        return -self.number if self.number == signal.SIGKILL else 128 + self.number


def _cases_of(step: str) -> list[StepInterrupt]:
    cases = [StepInterrupt(step, number) for number in SIGNALS]
    if step in PUSHED:
        return cases
    # One signal, another one in each step, and the last case: a fast step may be complete before the command ends.
    number = SIGNALS[[*STEPS].index(step) % (len(SIGNALS) - 1)]
    return [*cases, StepInterrupt(step, number, is_dropped=True)]


CASES = [case for step in STEPS for case in _cases_of(step)]


class WholePipelineJob(PipelineJob):
    """A pipeline with every step: `whole_pipeline.py`."""

    def __init__(self, folder: pathlib.Path, shim: pathlib.Path) -> None:
        super().__init__(folder, shim)
        shutil.copy(HERE / "whole_pipeline.py", folder / "slow_loop.py")

    def line(self, *arguments: str) -> list[str]:
        return super().line("--label", "y", "--tune-steps", "1", "--analysis-seconds", "0", *arguments)

    def ended_in(self, case: StepInterrupt) -> CommandResult:
        """Runs the pipeline up to a step, and sends it the signal there."""
        if case.is_dropped:
            return self.dropped_in(case.step, case.number)
        self.control.arm(*STEPS["Pusher" if case.step in PUSHED else case.step])
        self.start()
        self.await_held()
        if case.step in PUSHED:
            self.control.arm(*STEPS[case.step])
            self.control.release()
            self.await_held()
        (self.folder / "sent").touch()
        self.running.send_signal(case.number)
        self.control.release()  # another thread than the one that is held may get the signal
        return self.end()

    def seconds_since_signal(self) -> float:
        return time.time() - (self.folder / "sent").stat().st_mtime

    def pushed(self) -> list[str]:
        """Returns the paths of the versions in the serving folder."""
        serving = self.out / "serving"
        return sorted(str(path) for path in serving.iterdir() if path.name.isdigit()) if serving.exists() else []


def require_ended(job: WholePipelineJob, case: StepInterrupt) -> CommandResult:
    """Runs the pipeline with a signal, and asserts what must hold; returns its result."""
    shutil.rmtree(job.out / "serving", ignore_errors=True)  # or the Pusher would not push the same model again
    shutil.rmtree(job.out / case.step, ignore_errors=True)  # Transform may have run before ExampleValidator was held
    ended = job.ended_in(case)
    assert ended.code == case.code, ended.errors
    assert len(job.pushed()) == case.pushes
    if case.number != signal.SIGKILL:
        cause = "interrupted" if case.number == signal.SIGINT else f"ended by {case.number.name}"
        [place] = job.pushed() or [""]
        outcome = f"the model had been published to {place}." if place else "nothing was published."
        assert f"generic-trainer: {cause}; {outcome}" in ended.message
        assert "Traceback" not in ended.errors
    job.require_nothing_running()
    return ended


def require_pushed(job: WholePipelineJob) -> None:
    """Asserts that the next run succeeds, and pushes a model."""
    shutil.rmtree(job.out / "serving", ignore_errors=True)
    ended = job.run()
    assert ended.code == 0, ended.errors
    [place] = job.pushed()
    assert os.path.exists(os.path.join(place, "saved_model.pb"))
