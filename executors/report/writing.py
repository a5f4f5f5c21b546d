"""Writes a run's report beside its record, when the run ends and whenever somebody asks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from absl import logging

from .. import file_io, run_record
from ..run_record import RunRecord

if TYPE_CHECKING:
    from .build import PipelineParts

FILE_NAME = "report.html"


def write_report(
    folder: str, record: Mapping[str, Any] | None = None, pipeline: PipelineParts | None = None, path: str = ""
) -> str:
    """Writes a run's report; returns its path.

    Args:
      folder: The model run: where event files are.
      record: What is in its run.json, by default read from the folder.
      pipeline: What the pipeline adds, if there was one.
      path: Where to write it, by default `report.html` in the folder.
    """
    from .build import report_of
    from .page import html_of

    path = path or os.path.join(folder, FILE_NAME)
    file_io.write_text(path, html_of(report_of(folder, record or run_record.read(folder), pipeline)))
    return path


@contextlib.contextmanager
def reported(record: RunRecord, folder: str) -> Iterator[None]:
    """Writes the report of a run into its folder when the block ends, however that is.

    The model is there by then, or the exception that says why not: what goes wrong with the report is a warning.
    """
    try:
        yield
    finally:
        try:
            there = run_record.read(folder)
            if there.get("id") == record.id:  # else another run has begun here
                write_report(folder, there)
        except Exception as error:
            logging.warning("The report was not written: %s: %s", type(error).__name__, error)


def path_in(folder: str | None) -> str | None:
    """Returns the path of a model run's report; None when there is none."""
    path = os.path.join(folder, FILE_NAME) if folder else ""
    return path if path and file_io.exists(path) else None
