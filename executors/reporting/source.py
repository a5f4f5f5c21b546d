"""The text of a run's module, as it was when it ran."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from ..runtime.files import file_io

MODULE_SHOWN_BYTES = 60_000  # more is no reading
_FOLDER = "source"  # in the model run


def sources_of(folder: str, record: Mapping[str, object]) -> dict[str, str]:
    """Returns {file: text}, named as below their common folder; {} when the texts are not to be had any more.

    Args:
      folder: The model run.
      record: What is in its run.json.
    """
    kept = os.path.join(folder, _FOLDER)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file_io.isdir(kept):
            return {name: file_io.read_text(os.path.join(kept, name)) for name in file_io.files_below(kept)}
    return {}
