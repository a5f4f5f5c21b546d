"""A model of what a power loss may destroy, fed with recorded calls: the order of writes, syncs, renames and deletions.

    violations = Disk().replay(faults.recorded())

POSIX promises only what was synced: a file's data by a sync of the file, a new name by a sync of its folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

# Files that count from the rename to this name on: the list of complete checkpoints, a record, the end of a fit.
VALID = re.compile(r".*/(checkpoint|run\.json|fit\.json)")
STAGED = re.compile(r".*/\.staging-[0-9a-f]+/.+")
# Content of replaced models, which are exchanged into the staging directory, and older checkpoints.
OLDER = re.compile(r".*/\.staging-[0-9a-f]+/(outputs/|replaced-).+|.*/[\w.]+-\d+\.(index|data-\d+-of-\d+)")
TEMPORARY = re.compile(r".*(_temp/|\.tempstate|\.part).*")


class Disk:
    """Replays calls.

    Attributes:
      unsynced: Files and folders with data that is not synced.
      new: Paths whose name in their folder is not synced.
      made_valid: Targets of the renames by which something became valid.
    """

    def __init__(self) -> None:
        self.unsynced: set[str] = set()
        self.new: set[str] = set()
        self.made_valid: list[str] = []
        self._violations: list[str] = []

    def replay(self, calls: Iterable[tuple[str, str, str]]) -> list[str]:
        """Returns violations of the order: what was made valid or deleted too early."""
        for name, path, other in calls:
            getattr(self, f"_{name}")(path, other)
        return self._violations

    def lost(self) -> list[str]:
        """Returns the valid paths that a power loss now could still destroy, with everything below and above them."""
        return [
            path
            for path in sorted(self.unsynced | self.new)
            for valid in set(self.made_valid)
            if path == valid or path.startswith(f"{valid}/") or (valid.startswith(f"{path}/") and path in self.new)
        ]

    def _create(self, path: str, _: str) -> None:
        self.unsynced.add(path)
        self.new.add(path)

    def _write(self, path: str, _: str) -> None:
        self.unsynced.add(path)

    def _mkdir(self, path: str, _: str) -> None:
        self.new.add(path)

    def _sync(self, path: str, _: str) -> None:
        self.unsynced.discard(path)
        self.new -= {name for name in self.new if os.path.dirname(name) == path}

    def _rename(self, path: str, target: str) -> None:
        if VALID.fullmatch(target) or (STAGED.fullmatch(path) and not STAGED.fullmatch(target)):
            self._require_synced(path, target)
            self.made_valid.append(target)
        self._forget(target)
        self._move(path, target)
        self.new.add(target)

    def _exchange(self, path: str, target: str) -> None:
        self._require_synced(path, target)
        self.made_valid.append(target)
        self._move(target, ".exchanged")
        self._move(path, target)
        self._move(".exchanged", path)
        self.new |= {path, target}

    def _remove(self, path: str, _: str) -> None:
        pending = [valid for valid in self.made_valid if valid in self.new]
        if OLDER.fullmatch(path) and not TEMPORARY.fullmatch(path) and pending:
            self._violations.append(f"{path} was deleted before the rename to {pending} was synced")
        self._forget(path)

    def _require_synced(self, path: str, target: str) -> None:
        lost = {name for name in self.unsynced | self.new if name.startswith(f"{path}/")}
        lost |= self.unsynced & {path}
        if os.path.basename(target) == "checkpoint":
            names = [name for name in self.unsynced | self.new if os.path.dirname(name) == os.path.dirname(target)]
            lost |= {name for name in names if OLDER.fullmatch(name)}
        self._violations += [f"{name} was not synced when {target} appeared" for name in sorted(lost)]

    def _move(self, path: str, target: str) -> None:
        for paths in (self.unsynced, self.new):
            moved = {name for name in paths if name == path or name.startswith(f"{path}/")}
            paths -= moved
            paths |= {target + name[len(path) :] for name in moved}

    def _forget(self, path: str) -> None:
        for paths in (self.unsynced, self.new):
            paths -= {name for name in paths if name == path or name.startswith(f"{path}/")}
