"""Base of formats whose files are lines of text."""

from __future__ import annotations

import gzip

from ..errors import InputError
from .file_signatures import signature_of
from .gzipped_files import is_gzipped, opened, unzipped_head
from .input_format import COPIED_BYTES, HEAD_BYTES, Copied, InputFormat


class TextFormat(InputFormat):
    """Lines of text, each file gzipped or not."""

    is_text = True

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """Copies the first lines, including a header; a quoted CSV field may continue in the next line."""
        check_text(path)
        count = size = quotes = 0
        with opened(path) as file, gzip.open(target, "wb") if is_gzipped(path) else open(target, "wb") as copy:
            for line in file:
                copy.write(line)
                count, size, quotes = count + 1, size + len(line), quotes + line.count(b'"')
                if limit is not None and (count >= limit or size >= COPIED_BYTES) and quotes % 2 == 0:
                    break
        return count, []


def check_text(path: str) -> None:
    """Checks by its first bytes, decompressed if gzipped, that a file is text.

    Raises:
      InputError: If the bytes are those of a binary format or of UTF-16, or a gzipped file is damaged.
    """
    if form := binary_format(path):
        begin = unzipped_head(path, 12).hex(" ")
        raise InputError(
            f"{path} is not text: it is {form}, and begins with {begin}. Convert it to UTF-8, gzipped or not."
        )


def binary_format(path: str) -> str:
    """Returns the name of a file's binary format by its first bytes; "" for text."""
    head = unzipped_head(path, HEAD_BYTES)
    if (form := signature_of(head)) or b"\0" not in head:
        return form
    return f"binary, or text in UTF-16, with a zero at byte {head.index(0)}"
