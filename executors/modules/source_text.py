"""Checks that Python can decode a source file, in the encoding that it declares (PEP 263)."""

from __future__ import annotations

import codecs
import io
import tokenize

from ..errors import ModuleError
from ..runtime.files import file_io

_OTHER_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_REMEDY = "Save the file as UTF-8, or declare its encoding in the first line, as in `# -*- coding: latin-1 -*-`."


def require_text(path: str) -> None:
    """Checks that Python can decode a source file.

    Raises:
      ModuleError: When it cannot; the message names the line.
    """
    content = file_io.read_bytes(path)
    for mark, name in _OTHER_BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            raise ModuleError(f"{path} is {name} text, which Python cannot read as source. Save the file as UTF-8.")
    if b"\0" in content:
        raise ModuleError(
            f"{path}, line {_line(content, content.index(0))}: a NUL byte. The file is not Python source."
        )
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        content.decode(encoding)
    except UnicodeDecodeError as error:
        line, byte = _line(content, error.start), content[error.start]
        raise ModuleError(f"{path}, line {line}: the byte 0x{byte:02x} is not {error.encoding}. {_REMEDY}") from error
    except SyntaxError as error:
        line = next((number for number, one in enumerate(content.split(b"\n", 2)[:2], 1) if b"coding" in one), 1)
        raise ModuleError(f"{path}, line {line}: {error.msg}. {_REMEDY}") from error


def _line(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1
