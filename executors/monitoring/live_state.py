"""The state of a running training in a file of its model run, for `generic-trainer watch`.

    with written_state(model_run, progress_file, usage):  # in the process that waits for the training
        …
    read_state(model_run)  # in another process: {"line": "Step 1,240 of 5,000 …", "curves": {…}, …}

The file is rewritten every two seconds and deleted when the training ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import TypedDict

from ..runtime.files import file_io
from ..runtime.files.json_data import read_json
from . import progress_reports
from .display import RecentProgress, line, share_of
from .metrics import finite
from .progress_reports import Progress
from .resources import Usage, UsageRecord

FILE_NAME = "live.json"
_SECONDS = 2.0
_POINTS = 400  # of the curves; if there are more, every second one is dropped


class LiveState(TypedDict):
    """The content of the file.

    Attributes:
      time: When it was written, in seconds since 1970.
      line: Progress as one line of text; "" before the first report.
      share: The part of the steps that is done; None if unknown.
      steps: The steps at which `curves` have values.
      curves: {metric: values}, as reported by the training loop; None for a missing, NaN or infinite value.
      resources: The training process's use of resources so far.
    """

    time: float
    line: str
    share: float | None
    steps: list[float]
    curves: dict[str, list[float | None]]
    resources: UsageRecord


@contextlib.contextmanager
def written_state(folder: str, progress_file: str | None, usage: Usage) -> Iterator[None]:
    """Writes the state of the training that runs during the block.

    Args:
      folder: The model run. Nothing is written if it is remote.
      progress_file: The file that the training reports its progress in; None if another process displays it.
      usage: The training process's use of resources.
    """
    if progress_file is None or "://" in folder:
        yield
        return
    ended, path, history = threading.Event(), os.path.join(folder, FILE_NAME), _History()

    def write() -> None:
        while not ended.wait(_SECONDS):
            with contextlib.suppress(OSError):  # a full disk is reported by the training
                state = history.state(progress_reports.read(progress_file), usage.to_json())
                file_io.write_text(path, json.dumps(state), synced=False)

    thread = threading.Thread(target=write, name="live state", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with contextlib.suppress(OSError):
            os.remove(path)


def read_state(folder: str) -> LiveState | None:
    """Reads the state of a running training; None without one.

    Raises:
      InputError: When the file is not such a state; names the field.
      OSError: When it cannot be read.
    """
    path = os.path.join(folder, FILE_NAME)
    return read_json(path, LiveState, "The state") if file_io.exists(path) else None


class _History:
    """The values of the metrics so far."""

    def __init__(self) -> None:
        self._recent = RecentProgress()
        self._points: list[tuple[float, dict[str, float]]] = []
        self._every, self._count = 1, 0

    def state(self, report: Progress | None, resources: object) -> dict[str, object]:
        if report is not None and report.seconds >= 0:
            self._recent.add(report)
            self._add(report.step, report.details.get("metrics", {}))
        points = [finite(metrics) for _, metrics in self._points]
        names = dict.fromkeys(name for metrics in points for name in metrics)
        return {
            "time": time.time(),
            "line": line(report, self._recent) if report else "",
            "share": share_of(report) if report else None,
            "steps": [step for step, _ in self._points],
            "curves": {name: [metrics.get(name) for metrics in points] for name in names},
            "resources": resources,
        }

    def _add(self, step: float, metrics: dict[str, float]) -> None:
        if self._points and step < self._points[-1][0]:  # restarted from a checkpoint
            self._points = [point for point in self._points if point[0] < step]
        if not metrics or (self._points and step == self._points[-1][0]):
            return
        self._count += 1
        if self._count % self._every == 0:
            self._points.append((step, dict(metrics)))
        if len(self._points) > _POINTS:
            del self._points[1::2]
            self._every *= 2
