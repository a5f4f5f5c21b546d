"""Progress events of a check's subprocesses: JSON lines in a file, which survives a crash of the process."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any

from ..errors import ProcessDiedError, TrainerError
from ..runtime.logs.exceptions import RemoteTraceback, describe
from .verdicts import FAILED, Verdict

if TYPE_CHECKING:
    from ..runtime.process.forwarding import LastText
    from .input_watch import Reads
    from .watch import Progress


class EventWriter:
    """Appends events to a file: {"verdict": …}, {"stage": …}, {"progress": …} or {"reads": …}.

    Attributes:
      stage: The current stage: an item, or "trial"; "load" at first.
      has_failed: Whether a verdict with status FAILED was written.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.stage = "load"
        self.has_failed = False

    def verdict(self, verdict: Verdict) -> None:
        """Writes a verdict."""
        self.has_failed |= verdict.status == FAILED
        self.write("verdict", verdict.to_json())

    def enter(self, stage: str) -> None:
        """Writes the start of a stage."""
        self.stage = stage
        self.write("stage", stage)

    def write(self, kind: str, value: object) -> None:
        """Writes an event."""
        self._file.write(json.dumps({kind: value}, default=str) + "\n")
        self._file.flush()


class EventReader:
    """Reads events while the processes write them.

    Args:
      path: The event file of the worker process.
      raw: The event file of the process that prepares raw data; "" without one.
      add: Called with each verdict.
      limit: Timeout of a stage of the worker process, in seconds.

    Attributes:
      stage: Current stage of the worker process; "load" at first.
      progress: Last progress of the training.
      reads: How the module's input pipeline reads its examples; see `input_watch`.
      has_timed_out: Whether the worker process exceeded the limit.
    """

    def __init__(self, path: str, raw: str, add: Callable[[Verdict], None], limit: float) -> None:
        self.stage = "load"
        self.progress: Progress = {}
        self.reads: Reads = {}
        self.has_timed_out = False
        self._read = {name: 0 for name in (raw, path) if name}
        self._add = add
        self._limit = limit
        self._since = time.monotonic()

    def check_timeout(self) -> bool:
        """Reads new events; returns whether the current stage exceeds the limit."""
        self.read()
        self.has_timed_out = time.monotonic() - self._since > self._limit
        return self.has_timed_out

    def read(self) -> None:
        """Reads new events; leaves an incomplete last line for the next call."""
        for path in self._read:
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                file.seek(self._read[path])
                text = file.read()
                whole = text[: text.rfind(b"\n") + 1]
                self._read[path] += len(whole)
                for line in whole.splitlines():
                    self._handle(json.loads(line))

    def _handle(self, event: Mapping[str, Any]) -> None:
        if "verdict" in event:
            self._add(Verdict.from_json(event["verdict"]))
        elif "stage" in event:
            self.stage, self._since = event["stage"], time.monotonic()
        elif "progress" in event:
            self.progress = event["progress"]
        elif "reads" in event:
            self.reads = event["reads"]


def crash_verdict(stage: str, error: Exception, output: LastText) -> Verdict:
    """Returns the verdict on a subprocess that failed.

    Args:
      stage: The stage that it was in: an item, or "trial".
      error: The exception from `child_process.run`.
      output: Output of the process; its last 20 lines replace a missing traceback.
    """
    last = "\n".join(output.getvalue().splitlines()[-20:])
    item = "training" if stage == "trial" else stage
    text = str(error) if isinstance(error, TrainerError) else f"{type(error).__name__}: {error}"
    remote = error.__cause__
    trace = remote.text if isinstance(remote, RemoteTraceback) else last
    code = 1 if isinstance(error, ProcessDiedError) else getattr(error, "exit_code", 1)
    return Verdict(item, FAILED, text, exit_code=code, traceback=trace, error=describe(error))
