"""Marker file, next to the checkpoints of a run, which records that training is complete but nothing is published yet.

It lets a run that failed during or after the export resume at the export: the last checkpoint alone does not show that
no steps remain. It is deleted when the run publishes its model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..runtime.files import file_io
from .contents import UNPUBLISHED
from .damage import read_sidecar


class TrainedMarker:
    """The marker file of one dialect.

    Args:
      checkpoint_dir: `fn_args.checkpoint_dir`; None or "" disables the marker.
      name: File name of the marker, without extension.
      made_by: JSON values that must be unchanged for the marker to be valid, such as the number of training steps.
    """

    def __init__(self, checkpoint_dir: str | None, name: str, made_by: Mapping[str, object]) -> None:
        self._path = os.path.join(checkpoint_dir, UNPUBLISHED, f"{name}.json") if checkpoint_dir else ""
        self._made_by = json.loads(json.dumps(made_by))

    def read(self) -> dict[str, Any]:
        """Returns the recorded facts; {} if there is no intact marker, or `made_by` has changed."""
        result = "the last checkpoint alone decides whether training is complete"
        content = read_sidecar(self._path, ("made_by", "facts"), result) if self._path else None
        facts: dict[str, Any] = content["facts"] if content and content["made_by"] == self._made_by else {}
        return facts

    def write(self, **facts: object) -> None:
        """Writes the marker with some facts, which must be JSON values."""
        if self._path:
            file_io.write_text(self._path, json.dumps({"made_by": self._made_by, "facts": facts}))
