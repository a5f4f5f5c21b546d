"""A training with the command that can be held in a phase, to inject a fault there.

    job = Job(folder, shim)
    job.start()
    job.arm("publish")
    process = job.await_held()       # the ID of the process that is held in that call
    os.kill(process, signal.SIGKILL)
    job.end()                        # its exit code and output

`hold_and_shift.cc` implements the holding.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import psutil

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 120.0  # timeout in seconds of all waits

# The call in which a run is held, by phase. Those of the module are files that it writes.
PHASES = {
    "load": ("write", "/phase-load"),
    "inputs": ("read", "/schema.pbtxt"),
    "first_step": ("write", "/phase-first_step"),
    "checkpoint": ("rename", ".index"),
    "eval": ("write", "/phase-eval"),
    "export": ("rename", "/saved_model.pb"),
    "check": ("read", "/variables/variables.index"),
    "publish": ("rename", "/model/Format-Serving"),
    "report": ("rename", "/report.html"),
}
OF_THE_MODULE = ("first_step", "checkpoint", "eval", "export")
_CONTROL = struct.Struct("=qIII12s224s")
_RELEASED = struct.Struct("=I")


def compiled(folder: pathlib.Path) -> pathlib.Path:
    """Returns the library to preload."""
    library = folder / "hold_and_shift.so"
    source = HERE / "hold_and_shift.cc"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-pthread"], check=True)
    return library


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    Attributes:
      code: Its exit code; the negative number of a signal if it was killed.
      output: Its standard output.
      errors: Its standard error.
    """

    code: int
    output: str
    errors: str

    @property
    def message(self) -> str:
        """The output in one line; the last line shortens long paths, the lines before it have the whole message."""
        return self.errors.replace("\n", " ")

    @property
    def last_line(self) -> str:
        lines = self.errors.strip().splitlines()
        return lines[-1] if lines else ""


class Control:
    """Controls the processes of a job through shared memory."""

    def __init__(self, folder: pathlib.Path) -> None:
        path = folder / "control"
        path.write_bytes(bytes(4096))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 4096)
        self._released = 0

    def arm(self, call: str, ending: str) -> None:
        shift = _CONTROL.unpack_from(self._memory)[0]
        _CONTROL.pack_into(self._memory, 0, shift, 0, 0, self._released, call.encode(), ending.encode())
        self._memory[8:12] = struct.pack("=I", 1)  # last: enables the rule

    @property
    def held(self) -> int:
        return int(_CONTROL.unpack_from(self._memory)[2])

    def release(self) -> None:
        self._released += 1
        _RELEASED.pack_into(self._memory, 16, self._released)

    def shift_clock(self, seconds: int) -> None:
        self._memory[:8] = struct.pack("=q", seconds)


class Job:
    """A training of `slow_loop.py`.

    Args:
      folder: The folder of all files.
      shim: The library to preload.
    """

    def __init__(self, folder: pathlib.Path, shim: pathlib.Path) -> None:
        self.folder, self.out, self.temporary = folder, folder / "out", folder / "tmp"
        self.temporary.mkdir(parents=True)
        shutil.copy(HERE / "slow_loop.py", folder)
        (folder / "schema.pbtxt").write_text("")
        (folder / "rows").write_text("one\n")
        self.control = Control(folder)
        self.steps = 0
        self.environment = {
            **os.environ,
            "FAULTS": str(folder),
            "LD_PRELOAD": str(shim),
            "TMPDIR": str(self.temporary),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        self.running: subprocess.Popen[str] | None = None
        self._phase = ""

    def line(self, *arguments: str) -> list[str]:
        return [
            *[sys.executable, "-m", "generic_trainer.cli.main", "train", str(self.folder / "slow_loop.py")],
            *["--train-files", str(self.folder / "rows"), "--schema", str(self.folder / "schema.pbtxt")],
            *["--output", str(self.out), "--train-steps", str(self.steps), "--skip-check", "answers", *arguments],
        ]

    def start(self, *arguments: str, phase: str = "", **options: object) -> None:
        """Starts the command, each time with 20 additional steps; if a phase is given, the job is held there."""
        self.steps += 20
        self._phase = phase
        if phase:
            self.control.arm(*PHASES[phase])
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        self.running = subprocess.Popen(self.line(*arguments), env=self.environment, **options)  # type: ignore[call-overload]

    def await_held(self) -> int:
        """Waits until a process is held; returns its ID."""
        assert self.running is not None
        while True:
            wait_until(lambda: bool(self.control.held) or self.running.poll() is not None)
            assert self.control.held, self.end().errors
            held = self.control.held
            # TensorFlow reads the exported model itself, to compute its fingerprint.
            if self._phase != "check" or psutil.Process(held).name() != "training_worker":
                return held
            self.control.arm(*PHASES["check"])
            self.control.release()

    def end(self) -> CommandResult:
        """Waits for the command."""
        assert self.running is not None
        output, errors = self.running.communicate(timeout=LONGEST)
        return CommandResult(self.running.returncode, output or "", errors or "")

    def run(self, *arguments: str) -> CommandResult:
        self.start(*arguments)
        return self.end()

    def stopped_in(self, phase: str, number: signal.Signals) -> CommandResult:
        """Runs the command up to a phase, and sends it a signal there."""
        self.start(phase=phase)
        self.await_held()
        self.running.send_signal(number)
        self.control.release()
        return self.end()

    def record(self) -> dict:
        path = self.out / "model_run" / "run.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def first_step_of(self, ended: CommandResult) -> int:
        """Returns the step at which a run's loop began."""
        return int(re.search(r"The loop begins at step (\d+)\.", ended.errors)[1])

    def saved(self) -> int:
        """Returns the step of the last complete checkpoint according to TensorFlow's state file; 0 without one."""
        state = self.out / "model_run" / "checkpoints" / "checkpoint"
        found = re.match(r'model_checkpoint_path: "ckpt-(\d+)"', state.read_text()) if state.exists() else None
        return int(found[1]) if found else 0

    def weight(self) -> float | None:
        """Returns the published model's weight; None when there is no model."""
        import tensorflow as tf

        folder = self.out / "model" / "Format-Serving"
        if not folder.exists():
            return None
        model = tf.saved_model.load(str(folder))
        return float(model.signatures["serving_default"](examples=tf.constant(["x"]))["weight"][0])

    def leftovers_beside_model(self) -> list[str]:
        """Returns the names in the model's folder other than the model."""
        folder = self.out / "model"
        return sorted(set(os.listdir(folder)) - {"Format-Serving"}) if folder.exists() else []

    def processes(self) -> list[psutil.Process]:
        """Returns all running processes that the job has started, directly or indirectly."""
        return [process for process in psutil.process_iter() if self._is_of_the_job(process)]

    def _is_of_the_job(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            is_ours = process.environ().get("FAULTS") == str(self.folder)
            return is_ours and process.status() != psutil.STATUS_ZOMBIE
        return False

    def require_nothing_running(self) -> None:
        """Asserts that no processes remain; those of a killed command end with a delay."""
        wait_until(lambda: not self.processes(), seconds=20)

    def stop(self) -> None:
        """Kills the remaining processes at the end of a test."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self.running is not None:
            self.running.kill()
            self.running.communicate()


def wait_until(condition, seconds: float = LONGEST) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true after {seconds} s"
        time.sleep(0.02)


class FitJob(Job):
    """A training of `slow_fit.py`, with Keras's `fit`."""

    def __init__(self, folder: pathlib.Path, shim: pathlib.Path) -> None:
        super().__init__(folder, shim)
        shutil.copy(HERE / "slow_fit.py", folder / "slow_loop.py")

    def trained_steps(self) -> int:
        """Returns the total number of steps trained by all runs."""
        steps = self.folder / "steps"
        return len(steps.read_text()) if steps.exists() else 0

    def weights(self) -> str:
        """Returns the weights that the last run had behind its fits."""
        return (self.folder / "weights").read_text()


class PipelineJob(Job):
    """The same training as a step of a pipeline, by `generic-trainer run`."""

    def __init__(self, folder: pathlib.Path, shim: pathlib.Path) -> None:
        super().__init__(folder, shim)
        (folder / "data").mkdir()
        (folder / "data" / "rows.csv").write_text("x,y\n" + "".join(f"{number}.5,{number}\n" for number in range(20)))
        self._command = ["-m", "generic_trainer.cli.main"]

    def dropped_in(self, step: str, number: signal.Signals) -> CommandResult:
        """Runs a pipeline that gets a signal in a step, in a hook where Python drops the handler's exception."""
        command, self._command = self._command, [str(HERE / "dropped_signal.py"), step, str(int(number))]
        try:
            return self.run()
        finally:
            self._command = command

    def line(self, *arguments: str) -> list[str]:
        return [
            *[sys.executable, *self._command, "run", "--data", str(self.folder / "data")],
            *["--module-file", str(self.folder / "slow_loop.py"), "--pipeline-root", str(self.out), "--no-check"],
            *["--train-steps", "40", "--skip-check", "answers", *arguments],
        ]
