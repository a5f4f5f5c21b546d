"""The data files of a run as they were at its beginning, to compare the data of two runs.

data = DataFiles.read(["taxi/train*"], digests_in("out"))
data.digest           # "5d41402abc4b2a76"
"""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Iterator, Mapping, Sequence

from ..fn_args import FnArgs
from ..runtime.files import file_io
from ..runtime.files.content_digests import ContentDigests, Stamp, combined, stamp_of

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


def read_inputs(fn_args: FnArgs, source: ContentDigests) -> dict[str, DataFiles]:
    """Returns the examples of a training, and its schema, transform graph and base model if there are any."""
    patterns = {name: fn_args.get(name) or () for name in PATTERNS}
    patterns |= {name: [glob.escape(path)] for name in INPUTS if name not in patterns and (path := fn_args.get(name))}
    return {name: DataFiles.read(globs, source) for name, globs in patterns.items()}


def _files(patterns: Sequence[str]) -> Iterator[str]:
    """Yields the matching files, and those in matching folders on local disks."""
    for pattern in patterns:
        for path in file_io.glob(pattern):
            if not file_io.is_remote(path) and os.path.isdir(path):
                yield from (os.path.join(path, name) for name in file_io.files_below(path))
            else:
                yield path
