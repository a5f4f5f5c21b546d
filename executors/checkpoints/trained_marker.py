"""A note that training is over, beside the checkpoints of a run that has not published its model yet.

With it, a run that failed in the export or later resumes at the export: its last checkpoint alone doesn't show that no
step was left. It is deleted when the run publishes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..runtime.files import file_io
from .directory import UNPUBLISHED


class TrainedMark:
    """The note of one dialect.

    Args:
      checkpoint_dir: `fn_args.checkpoint_dir`; without one nothing is noted.
      name: The note's own.
      made_by: JSON values that must be the same for the note to count, such as how many steps are to be trained.
    """

    def __init__(self, checkpoint_dir: str | None, name: str, made_by: Mapping[str, object]) -> None:
        self._path = os.path.join(checkpoint_dir, UNPUBLISHED, f"{name}.json") if checkpoint_dir else ""
        self._made_by = json.loads(json.dumps(made_by))

    def read(self) -> dict[str, Any]:
        """Returns what was noted; {} where nothing was, or of a training that was made by something else."""
        if not self._path or not file_io.exists(self._path):
            return {}
        try:
            noted: dict[str, Any] = json.loads(file_io.read_text(self._path))
        except ValueError:
            return {}
        return noted["facts"] if noted["made_by"] == self._made_by else {}

    def write(self, **facts: object) -> None:
        """Notes facts, as JSON values."""
        if self._path:
            file_io.write_text(self._path, json.dumps({"made_by": self._made_by, "facts": facts}))
