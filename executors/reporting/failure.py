"""Where a run failed: the last line of the user's own in a traceback's text."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?\n(?P<code>.*)', re.M)


def place_of(traceback: str, files: Sequence[str]) -> str:
    """Returns "taxi.py, line 25, in run_fn: model.fit(…)"; "" where no frame is known.

    Args:
      traceback: The text.
      files: The user's files; without a frame in any of them, the last frame counts.
    """
    frames = list(_FRAME.finditer(traceback))
    own = [frame for frame in frames if frame["file"] in files]
    if not frames:
        return ""
    frame = (own or frames)[-1]
    function = f", in {frame['function']}" if frame["function"] else ""
    code = f": {frame['code'].strip()}" if frame["code"].strip() else ""
    return f"{os.path.basename(frame['file'])}, line {frame['line']}{function}{code}"
