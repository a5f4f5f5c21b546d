"""Finds files of examples of any installed format.

Usage:

    files = find_example_files(["eval/*", "more.csv"])
    for batch in files[0].batches(512):
        batch.records     # of TFRecords: [b"…", …]
        batch.columns     # of other formats: {"age": ["31", None, …], …}, values as in the file
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.file_kinds import require_readable_kind
from .input_format import ExampleFile, format_of


def find_example_files(patterns: Sequence[str]) -> list[ExampleFile]:
    """Returns the files that match glob patterns: sorted within each pattern, without duplicates.

    Raises:
      InputError: If a pattern matches no file, or a match is a dangling link, FIFO, socket or device.
    """
    paths: dict[str, None] = {}
    for pattern in patterns:
        exact = file_io.exists(pattern) and not file_io.isdir(pattern)  # a file name may contain brackets
        found = [pattern] if exact else [path for path in file_io.glob(pattern) if not file_io.isdir(path)]
        if not found:
            hint = f" It is a folder; use '{pattern.rstrip('/')}/*'." if file_io.isdir(pattern) else ""
            raise InputError(f"--examples: no file matches {pattern!r}.{hint}")
        for path in found:
            require_readable_kind(path, "--examples")
        paths.update(dict.fromkeys(found))
    return [ExampleFile(path, format_of(path)) for path in paths]
