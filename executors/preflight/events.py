"""What the processes of a check tell while they work: lines of JSON in a file, which outlives a crash of theirs."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, TypedDict

from .verdicts import FAILED, Verdict

if TYPE_CHECKING:
    from .input_watch import Reads
    from .watch import Seen


class Event(TypedDict, total=False):
    """A line of the file: one of these, as JSON values; see `EventWriter`."""

    verdict: dict[str, object]
    stage: str
    seen: Seen
    reads: Reads


class EventWriter:
    """Writes what is found for who waits outside."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.has_failed = False

    def verdict(self, verdict: Verdict) -> None:
        """Tells what was found of an item."""
        self.has_failed |= verdict.status == FAILED
        self._write({"verdict": verdict.to_json()})

    def stage(self, item: str) -> None:
        """Tells what is being done now."""
        self._write({"stage": item})

    def seen(self, seen: Seen) -> None:
        """Tells how far the training is."""
        self._write({"seen": seen})

    def reads(self, reads: Reads) -> None:
        """Tells how the module's input pipeline reads its examples; see `input_watch`."""
        self._write({"reads": reads})

    def _write(self, event: Event) -> None:
        self._file.write(json.dumps(event, default=str) + "\n")
        self._file.flush()


class EventReader:
    """What the processes write while they work.

    Attributes:
      stage: What the module's process does now.
      seen: What it saw last of the training.
      reads: How the module's input pipeline reads its examples; see `input_watch`.
      is_over_limit: Whether it was ended for taking too long.
    """

    def __init__(self, path: str, raw: str, add: Callable[[Verdict], None], limit: float) -> None:
        self.stage = "load"
        self.seen: Seen = {}
        self.reads: Reads = {}
        self.is_over_limit = False
        self._main = path
        self._read = {name: 0 for name in (raw, path) if name}
        self._add = add
        self._limit = limit
        self._since = time.monotonic()

    def is_over(self) -> bool:
        """Takes note of what is new; returns whether the process takes too long."""
        self.read()
        self.is_over_limit = time.monotonic() - self._since > self._limit
        return self.is_over_limit

    def read(self) -> None:
        """Takes note of what is new."""
        for path in self._read:
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                file.seek(self._read[path])
                text = file.read()
                whole = text[: text.rfind(b"\n") + 1]
                self._read[path] += len(whole)
                for line in whole.splitlines():
                    self._take(json.loads(line), path == self._main)

    def _take(self, event: Event, is_main: bool) -> None:
        if "verdict" in event:
            self._add(Verdict.from_json(event["verdict"]))
        elif is_main and "stage" in event:
            self.stage, self._since = event["stage"], time.monotonic()
        elif "seen" in event:
            self.seen = event["seen"]
        elif "reads" in event:
            self.reads = event["reads"]
