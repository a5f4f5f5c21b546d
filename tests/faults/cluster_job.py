"""A training on a cluster of real commands, each with its TF_CONFIG, of which one is killed or never starts.

job = ClusterJob(folder, "estimator", LIMITS)
job.start()
job.await_phase("during")
job.kill("worker-0")
job.ends()      # {"chief-0": Ended(code=75, seconds=41.2, last_line="generic-trainer: worker 0 at … was lost: …")}
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import psutil
from cluster_modules import ELASTICDL, ESTIMATOR, KERAS, LOOP
from fault_job import LONGEST, wait_until

MANY_STEPS, FEW_STEPS = 10_000, 20  # a task is killed before the end; the training ends by itself
_BATCH = 32  # of ElasticDL's loop

# Starts the command with other seconds between the looks at other tasks.
_COMMAND = """
import os
from generic_trainer.cli.main import main
from generic_trainer.executors.engines.tf_config import task_watch

task_watch.ROUND_SECONDS = float(os.environ["ROUND_SECONDS"])
task_watch.WAITING_SECONDS = 6 * task_watch.ROUND_SECONDS
main()
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of cluster: its module, the number of tasks by role, and flags of the command."""

    module: str
    counts: Mapping[str, int]
    flags: tuple[str, ...] = ()


KINDS = {
    "loop": Kind(LOOP, {"chief": 1, "worker": 2}),
    "keras": Kind(KERAS, {"chief": 1, "worker": 1}),
    "estimator": Kind(ESTIMATOR, {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}),
    "elasticdl": Kind(ELASTICDL, {"chief": 1, "worker": 1, "ps": 1}, ("--dialect", "elasticdl")),
}


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a task's command: its exit code, the seconds since the kill, its standard error."""

    code: int
    seconds: float
    errors: str

    @property
    def last_line(self) -> str:
        return (self.errors.strip().splitlines() or [""])[-1]


class ClusterJob:
    """A training of `cluster_modules.py`.

    Args:
      folder: The folder of all files.
      kind: One of `KINDS`.
      round_seconds: `task_watch.ROUND_SECONDS`.
      steps: The length of the training, which sleeps for 0.05 s in each step.
    """

    def __init__(self, folder: pathlib.Path, kind: str, round_seconds: float, steps: int = MANY_STEPS) -> None:
        self.folder, self.kind, self._round_seconds = folder, KINDS[kind], round_seconds
        folder.mkdir(parents=True)
        (folder / "module.py").write_text(self.kind.module)
        (folder / "rows.csv").write_text("".join(f"{row % 5}.0\n" for row in range(_BATCH * steps)))
        (folder / "steps").write_text(str(steps))
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.addresses = _addresses(self.kind.counts)
        self._killed = 0.0

    @property
    def tasks(self) -> list[str]:
        return [f"{role}-{index}" for role, addresses in self.addresses.items() for index in range(len(addresses))]

    def address(self, task: str) -> str:
        role, index = task.split("-")
        return self.addresses[role][int(index)]

    def start(self, *tasks: str, flags: tuple[str, ...] = ()) -> None:
        """Starts the commands of some tasks, by default of all."""
        for task in tasks or self.tasks:
            role, index = task.split("-")
            config = {"cluster": self.addresses, "task": {"type": role, "index": int(index)}}
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(config),
                "FAULTS": str(self.folder),
                "ROUND_SECONDS": str(self._round_seconds),
                "TF_CPP_MIN_LOG_LEVEL": "2",
            }
            with (self.folder / f"{task}.log").open("w") as log:
                self.running[task] = subprocess.Popen(
                    [*self._line(), *flags], env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
                )

    def _line(self) -> list[str]:
        return [
            *[sys.executable, "-c", _COMMAND, "train", str(self.folder / "module.py"), *self.kind.flags],
            *["--train-files", str(self.folder / "rows.csv"), "--eval-files", str(self.folder / "rows.csv")],
            *["--output", str(self.folder / "out"), "--skip-check", "answers", "--analysis-seconds", "0"],
        ]

    def record(self, name: str = "run.json") -> dict:
        path = self.folder / "out" / "model_run" / name
        return json.loads(path.read_text()) if path.exists() else {}

    def await_moment(self, moment: str, task: str) -> None:
        """Waits for a moment of `MOMENTS`."""
        self.wait_until(lambda: MOMENTS[moment](self, task))

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Waits for a condition, which must come before any task ends."""

        def is_met() -> bool:
            if condition():
                return True
            ended = [task for task, process in self.running.items() if process.poll() not in (None, 0)]
            assert not ended, self.log(ended[0])
            return False

        wait_until(is_met)

    def kill(self, task: str) -> None:
        """Kills the command of a task; its training process dies with it."""
        self.running[task].send_signal(signal.SIGKILL)
        self._killed = time.monotonic()

    def kill_training(self, task: str) -> None:
        """Kills the training process of a task only, as the kernel does when memory runs out."""
        children = psutil.Process(self.running[task].pid).children(recursive=True)
        [training] = [child for child in children if child.name() == "training_worker"]
        training.kill()
        self._killed = time.monotonic()

    def ends(self) -> dict[str, Ended]:
        """Waits until all tasks have ended."""
        seconds: dict[str, float] = {}

        def all_ended() -> bool:
            for task, process in self.running.items():
                if process.poll() is not None:
                    seconds.setdefault(task, time.monotonic() - self._killed)
            return len(seconds) == len(self.running)

        wait_until(all_ended, 2 * LONGEST)
        return {
            task: Ended(process.returncode, seconds[task], self.log(task)) for task, process in self.running.items()
        }

    def log(self, task: str) -> str:
        return (self.folder / f"{task}.log").read_text()

    def stop(self) -> None:
        """Kills the remaining processes."""
        for process in self.running.values():
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()


def _heartbeat(job: ClusterJob, task: str) -> bool:
    return (job.folder / "out" / "model_run" / "tasks" / f"{task}.alive").exists()


def _all_have_come(job: ClusterJob, task: str) -> bool:
    return all(_heartbeat(job, other) for other in job.tasks)


# The moments at which a task is killed: its command has begun; the chief trains; the chief has trained.
MOMENTS: dict[str, Callable[[ClusterJob, str], bool]] = {
    "before": _all_have_come,
    "during": lambda job, task: (job.folder / "trained-chief-0").exists(),
    "end": lambda job, task: (job.folder / "saving-chief-0").exists() or "training" in job.record().get("phases", {}),
}


def _addresses(counts: Mapping[str, int]) -> dict[str, list[str]]:
    with contextlib.ExitStack() as sockets:
        listeners = {
            role: [sockets.enter_context(socket.socket()) for _ in range(count)] for role, count in counts.items()
        }
        for listener in (listener for role in listeners.values() for listener in role):
            listener.bind(("localhost", 0))
        return {
            role: [f"localhost:{listener.getsockname()[1]}" for listener in those] for role, those in listeners.items()
        }
