"""Writes a run's report next to its record, at the end of the run and on request."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from absl import logging

from ..modules import snapshot
from ..monitoring import run_record
from ..monitoring.metrics import event_files_below
from ..monitoring.report_file import FILE_NAME, path_in
from ..monitoring.run_record import RunRecord
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import FAILED_DIR, is_numbered
from ..runtime.process.preemption import deferred_signals

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord
    from .build import PipelineParts

_FAILED_KEPT = 10


def write_report(
    folder: str, record: RunRecord | None = None, pipeline: PipelineParts | None = None, path: str = ""
) -> str:
    """Writes a run's report and returns its path.

    Args:
      folder: Folder of the model run, with the event files.
      record: Content of its run.json; by default read from the folder.
      pipeline: Content from the pipeline, if the run is part of one.
      path: Path of the report, as given by the user; by default `report.html` in the folder.
    """
    from .build import report_of
    from .page import html_of

    page = html_of(report_of(folder, record or run_record.read(folder), pipeline))
    if path:
        from ..runtime.files.output_file import write_output

        write_output(path, page)
        return path
    default = os.path.join(folder, FILE_NAME)
    file_io.write_text(default, page)
    return default


@contextlib.contextmanager
def report_on_exit(
    record: RunRecord, folder: str, shown_as: str = "", write: Callable[[str], object] = write_report
) -> Iterator[None]:
    """Writes the report of a run into its folder when the block ends, even if it raises.

    Errors are logged as warnings, because by then the model is published or another exception is being raised.

    Args:
      record: The run's record.
      folder: The model run.
      shown_as: The folder's name in messages, if the folder is a copy.
      write: Writes the report of a run that has succeeded.
    """
    try:
        yield
    except Exception:
        if _write(record, folder) and not is_numbered(folder):
            _log_report_path(os.path.join(shown_as or folder, FILE_NAME))
        raise
    except BaseException:
        _write(record, folder)
        raise
    with deferred_signals():
        _write(record, folder, write)


def _write(record: RunRecord, folder: str, write: Callable[[str], object] = write_report) -> bool:
    """Writes the report unless another run uses the folder; returns whether it was written."""
    try:
        if run_record.read(folder).id != record.id:  # another run has started in this folder
            return False
        write(folder)
    except Exception as error:
        logging.warning("Could not write the report: %s: %s", type(error).__name__, error)
        with contextlib.suppress(Exception):  # an existing report is from an earlier run
            if path := path_in(folder):
                file_io.file_system(path).remove(path)
        return False
    return True


def _log_report_path(path: str) -> None:
    logging.warning("Report of the failed run: %s", path)  # warnings are also shown by TFX's runners


@contextlib.contextmanager
def keep_failed_run(folder: str) -> Iterator[None]:
    """Keeps the record, the report, the event files and the source of a failed run outside of its folder.

    TFX deletes the outputs of a failed step. The files of `Trainer/model_run/7` are therefore copied to
    `Trainer/model_run/.failed/7`, where the last 10 failed runs are kept. No-op unless TFX has numbered the folder.
    """
    try:
        yield
    except Exception:
        if is_numbered(folder):
            with contextlib.suppress(OSError):  # must not hide the original exception
                _keep(folder, os.path.join(file_io.parent(folder), FAILED_DIR))
        raise


def _keep(folder: str, place: str) -> None:
    kept = os.path.join(place, os.path.basename(folder.rstrip("/")))
    for name in (run_record.FILE_NAME, FILE_NAME):
        if file_io.exists(os.path.join(folder, name)):
            file_io.write_text(os.path.join(kept, name), file_io.read_text(os.path.join(folder, name)))
    for name in event_files_below(folder):
        file_io.copy(os.path.join(folder, name), os.path.join(kept, name))
    if file_io.isdir(source := os.path.join(folder, snapshot.FOLDER)):  # for `generic-trainer diff`
        file_io.copytree(source, os.path.join(kept, snapshot.FOLDER))
    if path := path_in(kept):
        _log_report_path(path)
        for older in sorted(file_io.listdir(place), key=_as_number)[:-_FAILED_KEPT]:
            file_io.rmtree(os.path.join(place, older))


def _as_number(name: str) -> int:
    return int(name) if name.isdigit() else 0
