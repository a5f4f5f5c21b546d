"""Base of formats whose files are lines of text."""

from __future__ import annotations

import gzip

from .gzipped_files import is_gzipped, opened
from .input_format import COPIED_BYTES, Copied, InputFormat


class TextFormat(InputFormat):
    """Lines of text, each file gzipped or not."""

    is_text = True

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """Copies the first lines, including a header; a quoted CSV field may continue in the next line."""
        from .readers.record_files import check_text

        check_text(path)
        count = size = quotes = 0
        with opened(path) as file, gzip.open(target, "wb") if is_gzipped(path) else open(target, "wb") as copy:
            for line in file:
                copy.write(line)
                count, size, quotes = count + 1, size + len(line), quotes + line.count(b'"')
                if limit is not None and (count >= limit or size >= COPIED_BYTES) and quotes % 2 == 0:
                    break
        return count, []
