"""Facts that a training stores in its checkpoint folder, a JSON line each, for a later attempt that resumes it.

log = AttemptLog(Evaluated, "checkpoints/evaluated.jsonl")
log.read()  # of earlier attempts
log.add(Evaluated(weights, metrics, origin))
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Generic, TypeVar

from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData

T = TypeVar("T", bound=JsonData)


class AttemptLog(Generic[T]):
    """A file of facts. I/O errors are ignored, as they must not end a training.

    Args:
      kind: The class of the facts.
      path: Path of the file; "" to store nothing. Remote file systems, which cannot append, store nothing either.
    """

    def __init__(self, kind: type[T], path: str = "") -> None:
        self._kind, self._path = kind, "" if file_io.is_remote(path) else path

    def read(self) -> list[T]:
        """Returns the stored facts; skips lines that are truncated or garbled."""
        facts = []
        with contextlib.suppress(OSError), open(self._path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    facts.append(self._kind.from_json(json.loads(line)))
        return facts

    def add(self, fact: T, *, replaces: bool = False) -> None:
        """Appends a fact, or replaces the file by it."""
        if self._path:
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                with open(self._path, "w" if replaces else "a", encoding="utf-8") as file:
                    file.write(json.dumps(fact.to_json()) + "\n")
