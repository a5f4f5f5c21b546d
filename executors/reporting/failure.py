"""Shows a run's failure, with its location: the last frame of a traceback that is in the user's files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..runtime.logs.error_output import one_line
from .document import BAD, Block, Code, Facts, Note
from .values import code

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?\n(?P<code>.*)', re.M)


def failure_blocks(record: RunRecord, message: str) -> Iterator[Block]:
    """Yields the error's type and message, the location and the traceback of a failed run."""
    yield Note(one_line(message), BAD)
    traceback = str(record.traceback)
    if place := failure_location(traceback, record.code.get("files") or ()):
        yield Facts([("Location", code(place))])
    yield Code("Traceback", traceback, folded=False)


def failure_location(traceback: str, files: Sequence[str]) -> str:
    """Returns "taxi.py, line 25, in run_fn: model.fit(…)"; "" if the traceback has no frames.

    Args:
      traceback: Text of the traceback.
      files: The user's files; if no frame is in any of them, the last frame is returned.
    """
    frames = list(_FRAME.finditer(traceback))
    own = [frame for frame in frames if frame["file"] in files]
    if not frames:
        return ""
    frame = (own or frames)[-1]
    function = f", in {frame['function']}" if frame["function"] else ""
    line = f": {frame['code'].strip()}" if frame["code"].strip() else ""
    return f"{os.path.basename(frame['file'])}, line {frame['line']}{function}{line}"
