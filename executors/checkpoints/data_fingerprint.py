"""What a run's data were, by names, sizes and samples, to be compared with another run's later.

data_of(["taxi/train*"])  # {"files": 4, "bytes": 1922812, "modified": "2026-11-22T18:40:13+00:00", …}
"""

from __future__ import annotations

import datetime
import hashlib
import os
import zlib
from collections.abc import Sequence

from ..runtime.files import file_io

SAMPLED = 256  # files; of those after them, names alone are compared
_SAMPLE = 4096  # bytes at a file's beginning and end


def data_of(patterns: Sequence[str]) -> dict[str, int | str]:
    """Describes the files that match glob patterns, without reading them whole.

    Returns:
      `files`, how many there are; and where all of them lie on local disks `bytes`, the time when one was `modified`
      last, and `sample`, 16 hexadecimal digits over the names without folders, the sizes, and what the first 256 files
      begin and end with.
    """
    files = [file for pattern in patterns for file in file_io.glob(pattern)]
    if not files or any(file_io.is_remote(file) or not os.path.isfile(file) for file in files):
        return {"files": len(files)}
    newest = max(os.path.getmtime(file) for file in files)
    digest = hashlib.sha256()
    for number, file in enumerate(files):
        digest.update(f"{os.path.basename(file)}\0".encode())
        digest.update(sample_of(file) if number < SAMPLED else b"")
    return {
        "files": len(files),
        "bytes": sum(os.path.getsize(file) for file in files),
        "modified": datetime.datetime.fromtimestamp(newest, datetime.timezone.utc).isoformat(timespec="seconds"),
        "sample": digest.hexdigest()[:16],
    }


def sample_of(file: str) -> bytes:
    """Returns a local file's size and checksums of its beginning and end."""
    size = os.path.getsize(file)
    with open(file, "rb") as content:
        begin = zlib.crc32(content.read(_SAMPLE))
        content.seek(max(0, size - _SAMPLE))
        return f"{size} {begin} {zlib.crc32(content.read(_SAMPLE))}\0".encode()
