"""Fingerprints of a run's data files from names, sizes and samples, to compare the data of two runs.

data_of(["taxi/train*"])  # {"files": 4, "bytes": 1922812, "modified": "2026-11-22T18:40:13+00:00", …}
"""

from __future__ import annotations

import datetime
import hashlib
import os
import zlib
from collections.abc import Sequence

from ..runtime.files import file_io

MAX_SAMPLED_FILES = 256  # number of files to sample; of further files, only the names are compared
_SAMPLE_BYTES = 4096  # bytes at the start and the end of a file


def data_of(patterns: Sequence[str]) -> dict[str, int | str]:
    """Describes the files that match glob patterns, without reading them completely.

    Returns:
      A dict with the number of `files`. If all are on local disks, also the total size in `bytes`, the latest
      modification time in UTC (`modified`), and `sample`: 16 hexadecimal digits of a hash of the base names and, for
      the first 256 files, the sizes and the first and last 4 KiB.
    """
    files = [file for pattern in patterns for file in file_io.glob(pattern)]
    if not files or any(file_io.is_remote(file) or not os.path.isfile(file) for file in files):
        return {"files": len(files)}
    newest = max(os.path.getmtime(file) for file in files)
    digest = hashlib.sha256()
    for number, file in enumerate(files):
        digest.update(f"{os.path.basename(file)}\0".encode())
        digest.update(sample_of(file) if number < MAX_SAMPLED_FILES else b"")
    return {
        "files": len(files),
        "bytes": sum(os.path.getsize(file) for file in files),
        "modified": datetime.datetime.fromtimestamp(newest, datetime.timezone.utc).isoformat(timespec="seconds"),
        "sample": digest.hexdigest()[:16],
    }


def sample_of(file: str) -> bytes:
    """Returns a local file's size and the CRC-32 of its first and last 4 KiB, as bytes."""
    size = os.path.getsize(file)
    with open(file, "rb") as content:
        begin = zlib.crc32(content.read(_SAMPLE_BYTES))
        content.seek(max(0, size - _SAMPLE_BYTES))
        return f"{size} {begin} {zlib.crc32(content.read(_SAMPLE_BYTES))}\0".encode()
