"""The data files of a run as they were at its beginning, to compare the data of two runs and to detect changes.

data = DataFiles.read(["taxi/train*"], digests_in("out"))
data.describe()       # {"files": 4, "bytes": 1922812, "modified": "2026-11-22T18:40:13+00:00", "digest": "5d41402a…"}
data.changes()        # ["taxi/train-2.gz (cut from 480 kB to 12 kB)"]
"""

from __future__ import annotations

import dataclasses
import datetime
import glob
import os
from collections.abc import Iterator, Mapping, Sequence

from ..fn_args import FnArgs
from ..runtime.files import file_io
from ..runtime.files.content_digests import ContentDigests, Stamp, combined, stamp_of
from ..runtime.quantities import size_text

PATTERNS = ("train_files", "eval_files")
INPUTS = (*PATTERNS, "schema_path", "transform_graph_path", "base_model")
_DIGITS = 16  # of a digest in records


@dataclasses.dataclass(frozen=True)
class DataFiles:
    """The files that glob patterns match.

    Attributes:
      stamps: The files' stamps, by path; those in folders that match included.
      digests: The digests of their contents, by path.
      source: Computes digests.
    """

    stamps: Mapping[str, Stamp | None]
    digests: Mapping[str, str]
    source: ContentDigests

    @classmethod
    def read(cls, patterns: Sequence[str], source: ContentDigests) -> DataFiles:
        """Reads the files whose digests are not known."""
        stamps = {file: stamp_of(file) for file in _files(patterns)}
        return cls(stamps, source.of(stamps), source)

    @property
    def digest(self) -> str:
        """A digest of the contents in the order of the paths."""
        return combined(self.digests.values())[:_DIGITS]

    def describe(self) -> dict[str, int | str]:
        """Describes the files for the run record.

        Returns:
          A dict with the number of `files` and the `digest`: 16 hexadecimal digits of a hash of the contents. If all
          files are on local disks, also their total size in `bytes`, and the latest modification time in UTC
          (`modified`).
        """
        described: dict[str, int | str] = {"files": len(self.stamps)}
        stamps = [stamp for stamp in self.stamps.values() if stamp]
        if stamps and not any(map(file_io.is_remote, self.stamps)):
            newest = max(int(modified) for _, _, modified, _ in stamps) / 1e9
            modified = datetime.datetime.fromtimestamp(newest, datetime.timezone.utc)
            described["bytes"] = sum(int(stamp[0]) for stamp in stamps)
            described["modified"] = modified.isoformat(timespec="seconds")
        return described | ({"digest": self.digest} if stamps else {})

    def changes(self) -> list[str]:
        """Returns the files whose content has changed since they were read, and how."""
        stamps = {path: stamp_of(path) for path in self.stamps}
        touched = [path for path, stamp in stamps.items() if stamp != self.stamps[path]]
        now = self.source.of(path for path in touched if stamps[path] is not None)
        return [
            f"{path} ({_change(self.stamps[path], stamps[path])})"
            for path in touched
            if now.get(path) != self.digests[path]
        ]


def read_inputs(fn_args: FnArgs, source: ContentDigests) -> dict[str, DataFiles]:
    """Returns the examples of a training, and its schema, transform graph and base model if there are any."""
    patterns = {name: fn_args.get(name) or () for name in PATTERNS}
    patterns |= {name: [glob.escape(path)] for name in INPUTS if name not in patterns and (path := fn_args.get(name))}
    return {name: DataFiles.read(globs, source) for name, globs in patterns.items()}


def _change(before: Stamp | None, now: Stamp | None) -> str:
    if before is None or now is None:
        return "deleted"
    old, new = int(before[0]), int(now[0])
    if old == new:
        return "replaced"
    return f"{'grown' if new > old else 'cut'} from {size_text(old)} to {size_text(new)}"


def _files(patterns: Sequence[str]) -> Iterator[str]:
    """Yields the matching files, and those in matching folders on local disks."""
    for pattern in patterns:
        for path in file_io.glob(pattern):
            if not file_io.is_remote(path) and os.path.isdir(path):
                yield from (os.path.join(path, name) for name in file_io.files_below(path))
            else:
                yield path
