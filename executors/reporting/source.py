"""The source code of a run's module, as it was at the time of the run."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ..runtime.files import file_io

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord

MAX_SOURCE_BYTES = 60_000  # longer source is not shown in a report
_FOLDER = "source"  # in the model run


def sources_of(folder: str, record: RunRecord) -> dict[str, str]:
    """Returns {file: text} with paths relative to the common folder; {} if the source is not available.

    Args:
      folder: Folder of the model run.
      record: Content of its run.json.
    """
    kept = os.path.join(folder, _FOLDER)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file_io.isdir(kept):
            return {name: file_io.read_text(os.path.join(kept, name)) for name in file_io.files_below(kept)}
    return {}
