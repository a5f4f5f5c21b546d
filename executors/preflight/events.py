"""Progress events of a check's subprocesses: JSON lines in a file, which survives a crash of the process."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, TypedDict

from .verdicts import FAILED, Verdict

if TYPE_CHECKING:
    from .input_watch import Reads
    from .watch import Progress


class Event(TypedDict, total=False):
    """A line of the file, with one of these keys; see `EventWriter`."""

    verdict: dict[str, object]
    stage: str
    progress: Progress
    reads: Reads


class EventWriter:
    """Writes events for the parent process.

    Attributes:
      has_failed: Whether a verdict with status FAILED was written.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.has_failed = False

    def verdict(self, verdict: Verdict) -> None:
        """Writes a verdict."""
        self.has_failed |= verdict.status == FAILED
        self._write({"verdict": verdict.to_json()})

    def stage(self, item: str) -> None:
        """Writes the start of a stage: an item, or "trial"."""
        self._write({"stage": item})

    def progress(self, progress: Progress) -> None:
        """Writes the progress of the training."""
        self._write({"progress": progress})

    def reads(self, reads: Reads) -> None:
        """Writes how the module's input pipeline reads its examples; see `input_watch`."""
        self._write({"reads": reads})

    def _write(self, event: Event) -> None:
        self._file.write(json.dumps(event, default=str) + "\n")
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
        self._main = path
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
                    self._handle(json.loads(line), path == self._main)

    def _handle(self, event: Event, is_main: bool) -> None:
        if "verdict" in event:
            self._add(Verdict.from_json(event["verdict"]))
        elif is_main and "stage" in event:
            self.stage, self._since = event["stage"], time.monotonic()
        elif "progress" in event:
            self.progress = event["progress"]
        elif "reads" in event:
            self.reads = event["reads"]
