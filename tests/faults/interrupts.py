"""Guarantees when a signal ends a run in one of its phases, on one machine, with TF_CONFIG and on Ray.

case = Interrupt("check", signal.SIGTERM, "local")
require_nothing_lost(InterruptedJob(folder, shim, case.engine), case)
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
import signal
import socket

import psutil
import pytest
from fault_job import HERE, CommandResult, Job, wait_until
from guarantees import RERUN, UNCHECKED

SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGKILL),
)
ENGINES = ("local", "TF_CONFIG", "ray")
# The call in which a run is held, and whether a signal there comes before or after its model is complete or published.
CALLS = {
    "inputs": ("read", "/schema.pbtxt"),
    "training": ("write", "/phase-training"),
    "export": ("rename", "/saved_model.pb"),
    "saved": ("write", "/phase-saved"),
    "collect": ("rename", "/outputs"),
    "check": ("read", "/variables/variables.index"),
    "publish": ("rename", "/model/Format-Serving"),
    "compare": ("read", "model/Format-Serving/saved_model.pb"),
    "analysis": ("rename", "/error_analysis.json"),
    "report": ("rename", "/report.html"),
}
OF_THE_MODULE = ("training", "export", "saved")
SAVED = ("saved", "collect", "check")
FINISHED = ("collect", "check")
PUBLISHED = ("publish", "compare", "analysis", "report")


@dataclasses.dataclass(frozen=True)
class Interrupt:
    """A signal that is sent to the command in a phase.

    Attributes:
      phase: A phase of `CALLS`.
      number: The signal.
      engine: Where the module runs, of `ENGINES`.
    """

    phase: str
    number: signal.Signals
    engine: str

    def __str__(self) -> str:
        return f"{self.engine}-{self.phase}-{self.number.name}"

    @property
    def is_kill(self) -> bool:
        return self.number == signal.SIGKILL

    @property
    def publishes(self) -> bool:
        """Whether the run publishes its model; a killed one only if the two models have been exchanged."""
        return self.phase in PUBLISHED and not (self.is_kill and self.phase == "publish")

    @property
    def code(self) -> int:
        return -self.number if self.is_kill else 128 + self.number

    @property
    def resumes(self) -> bool:
        """Whether the next run checks and publishes the model of this one instead of training."""
        return self.phase in FINISHED or (self.is_kill and self.phase == "publish")


CASES = [Interrupt(phase, number, engine) for engine in ENGINES for phase in CALLS for number in SIGNALS]


class InterruptedJob(Job):
    """A training of `plain_loop.py`.

    Args:
      folder: The folder of all files.
      shim: The library to preload.
      engine: One of `ENGINES`.
    """

    def __init__(self, folder: pathlib.Path, shim: pathlib.Path, engine: str) -> None:
        super().__init__(folder, shim)
        shutil.copy(HERE / "plain_loop.py", folder / "slow_loop.py")
        self.steps, self._engine = 1, engine
        if engine == "TF_CONFIG":
            with socket.socket() as listener:
                listener.bind(("localhost", 0))
                address = f"localhost:{listener.getsockname()[1]}"
            task = {"cluster": {"chief": [address]}, "task": {"type": "chief", "index": 0}}
            self.environment["TF_CONFIG"] = json.dumps(task)

    def line(self, *arguments: str) -> list[str]:
        self.steps = 1  # the same training each time
        ray = ("--engine", "ray", "--workers", "1") if self._engine == "ray" else ()
        return super().line(*ray, *arguments)

    def held_in(self, phase: str, **options: object) -> None:
        """Starts the command and holds it in a phase of `CALLS`."""
        self.start(**options)
        self.control.arm(*CALLS[phase])
        while True:
            wait_until(lambda: bool(self.control.held) or self.running.poll() is not None)
            assert self.control.held, self.end().errors
            # TensorFlow reads an exported model itself, to compute its fingerprint.
            if phase != "check" or "saved_models_pr" in psutil.Process(self.control.held).name():
                return
            self.control.arm(*CALLS[phase])
            self.control.release()

    def trained(self) -> list[float]:
        """Returns the weight of each training that has saved its model."""
        path = self.folder / "trained"
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def kept(self) -> list[pathlib.Path]:
        """Returns the models in `rejected/`."""
        return sorted((self.out / "model_run" / "rejected").glob("*/Format-Serving"))


def interrupted(job: InterruptedJob, case: Interrupt, times: int = 1) -> CommandResult:
    """Runs a job up to a phase and sends it a signal there."""
    job.held_in(case.phase)
    for _ in range(times):
        job.running.send_signal(case.number)
    if case.phase not in OF_THE_MODULE:  # else Ray's workers might finish within the time that they have to save
        job.control.release()
    return job.end()


def require_nothing_lost(job: InterruptedJob, case: Interrupt) -> CommandResult:
    """Runs a job with a signal, and asserts that its model is kept or published; returns its result."""
    before = job.weight()
    ended = interrupted(job, case)
    assert ended.code == case.code, ended.errors
    assert job.weight() == pytest.approx(job.trained()[-1] if case.publishes else before)
    if not case.is_kill:
        assert job.leftovers_beside_model() == []
        _require_message(job, case, ended.message)
        is_kept = case.phase in SAVED
        assert len(job.kept()) == is_kept
        if case.phase == "inputs":  # the run has written nothing yet
            assert job.record() == {}
        else:
            assert job.record()["status"] == ("succeeded" if case.publishes else "interrupted")
            assert job.record()["unchecked"] == is_kept
        assert ("To check and publish the model in" in ended.errors) == (case.phase in FINISHED)
    job.require_nothing_running()
    return ended


def _require_message(job: InterruptedJob, case: Interrupt, message: str) -> None:
    cause = "interrupted" if case.number == signal.SIGINT else f"ended by {case.number.name}"
    if case.publishes:
        outcome = f"the model had been published to {re.escape(str(job.out))}/model/Format-Serving."
    elif case.phase in SAVED:
        folder = re.escape(f"{job.out}/model_run/rejected/") + r"\w+-\w+"
        outcome = f"nothing was published; {UNCHECKED} {folder}."
        assert RERUN in message or case.phase not in FINISHED, message
    else:
        outcome = "nothing was published."
    assert re.search(f"generic-trainer: {cause}; {outcome}", message), message


def require_resumed(job: InterruptedJob, case: Interrupt) -> None:
    """Asserts that the same command publishes the finished model of the run before, or else trains."""
    trained = job.trained()
    ended = job.run()
    assert ended.code == 0, ended.errors
    assert (job.trained() == trained) == case.resumes
    assert job.weight() == pytest.approx(job.trained()[-1])
    assert job.leftovers_beside_model() == []
    assert bool(job.record()["resumed_model"]) == case.resumes
    assert len(job.kept()) == (case.phase == "saved" and not case.is_kill)
