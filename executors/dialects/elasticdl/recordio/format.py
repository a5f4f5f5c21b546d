"""RecordIO files, of which `check` copies whole ones."""

from __future__ import annotations

import shutil

from ....inputs.input_format import Copied, InputFormat
from ....runtime.files import file_io

_READ_BYTES = 4 << 20  # files up to this size are read in full, which verifies their chunks


class RecordIO(InputFormat):
    """RecordIO files."""

    name = "RecordIO"
    endings = (".recordio",)

    def matches(self, head: bytes) -> bool:
        """Whether the bytes begin with those of a chunk."""
        from .records import MAGIC

        return head.startswith(MAGIC)

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """Copies the whole file, and counts its records."""
        from .records import read_chunks, read_index

        del limit
        with file_io.file_system(path).open(path, mode="rb") as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy)
        if file_io.size_of(path) <= _READ_BYTES:
            return sum(map(len, read_chunks(path))), []
        return sum(chunk.records for chunk in read_index(path)), []
