"""Progress events of a check's processes: JSON lines in a file, which survives a crash of the process."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import ProcessDiedError, TrainerError
from ..runtime.logs.exceptions import RemoteTraceback, describe
from .verdicts import ALWAYS, FAILED, WARNING, Report, Verdict

if TYPE_CHECKING:
    from ..runtime.process.forwarding import LastText
    from .input_watch import Reads
    from .raw_data import Prepared
    from .watch import Progress

_FILE = "events"


class EventWriter:
    """Appends events to a file: {"verdict": …}, {"stage": …}, {"progress": …}, {"reads": …} or {"prepared": …}.

    Args:
      folder: The folder of the process; created.

    Attributes:
      stage: The current stage: an item, or "trial"; "load" at first.
      has_failed: Whether a verdict with status FAILED was written.
    """

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._path = os.path.join(folder, _FILE)
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
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({kind: value}, default=str) + "\n")


class EventReader:
    """Reads events while the processes write them.

    Args:
      folders: The folders of the processes.
      add: Called with each verdict.
      limit: Timeout of a stage, in seconds.

    Attributes:
      stage: Current stage of the process that tries the module; "load" at first.
      progress: Last progress of the training.
      reads: How the module's input pipeline reads its examples; see `input_watch`.
      prepared: The prepared raw data, {} after a failure; None before they are prepared.
      has_timed_out: Whether a stage exceeded the limit.
    """

    def __init__(
        self,
        folders: Sequence[str],
        add: Callable[[Verdict], None] = lambda verdict: None,
        limit: float = float("inf"),
    ) -> None:
        self.stage = "load"
        self.progress: Progress = {}
        self.reads: Reads = {}
        self.prepared: Prepared | None = None
        self.has_timed_out = False
        self._read = {os.path.join(folder, _FILE): 0 for folder in folders}
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
                    [(kind, value)] = json.loads(line).items()
                    if kind == "verdict":
                        self._add(Verdict.from_json(value))
                    else:
                        setattr(self, kind, value)
                    if kind == "stage":
                        self._since = time.monotonic()


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


def timeout_verdict(events: EventReader, report: Report, limit: float) -> Verdict:
    """Returns the verdict on a stage that exceeded the limit, with the progress so far."""
    progress = events.progress
    item = progress.get("phase", "model") if events.stage == "trial" else events.stage
    if item == "data" and report.get("data") is not None:
        item = "transform"
    if report.get(item) is not None:  # it had ended, and the next item had not begun
        item = next((name for name in ALWAYS if report.get(name) is None), item)
    stopped = f"stopped after {limit:g} s (--limit)"
    if events.stage != "trial":
        return Verdict(item, WARNING, f"{stopped}, before it was complete")
    steps = progress.get("steps", 0)
    done = f"{steps} training step{'s' * (steps != 1)} completed" if steps else "no training step was observed"
    if losses := progress.get("losses"):
        done += f", loss {losses[-1]:.4g}"
    return Verdict(
        item,
        WARNING,
        f"{stopped}: {done}. The check cannot shorten this training; the phases after it were not tried.",
        remedy="Increase --limit; a loop of your own can end at fn_args.train_steps, which a check reduces.",
        details=progress,
    )
