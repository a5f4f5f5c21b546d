"""The file of a run's report, which `executors/reporting/` writes into the model run."""

from __future__ import annotations

import os

from ..runtime.files import file_io

FILE_NAME = "report.html"


def path_in(folder: str | None) -> str | None:
    """Returns the path of a model run's report; None if there is none."""
    path = os.path.join(folder, FILE_NAME) if folder else ""
    return path if path and file_io.exists(path) else None
