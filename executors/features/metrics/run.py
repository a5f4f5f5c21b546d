"""Records the metrics that the worker has found; if it failed, those logged so far."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ...monitoring import progress_reports
from ...monitoring.metrics import from_return_value, sizes_of_event_files
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class Metrics(RunCallback):
    """Records metrics, and by split their origin, a `metrics_origin.Origin`; see `metrics_of_record.py`."""

    parts: ClassVar[Mapping[str, object]] = {"metrics_from": {}}

    @contextlib.contextmanager
    def attempt(self, run: Run) -> Iterator[None]:
        """Records the metrics logged or reported so far if an exception ends the training."""
        folder, reports = run.folders.model_run_dir, run.variables.get(progress_reports.VARIABLE)
        earlier = sizes_of_event_files(folder)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError, ImportError):  # must not hide the original exception
                from ...monitoring.event_files import from_event_files

                last_report = progress_reports.read(reports) if reports else None
                reported = from_return_value(last_report.details.get("metrics")) if last_report else {}
                run.record.metrics = reported | from_event_files(folder, earlier)
            raise

    def merge(self, part: Any, run: Run) -> None:
        """Records those that the training process has found."""
        run.record.metrics, run.record.parts["metrics_from"] = part
