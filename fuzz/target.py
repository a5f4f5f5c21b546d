"""What the parsers in this folder have in common: a file to read, and which errors are answers."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

from generic_trainer.executors.errors import InputError

_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")


def file_of(data: bytes, name: str) -> str:
    """Returns the path of a file with these bytes; the next call writes over it."""
    path = pathlib.Path(_FOLDER.name, name)
    path.write_bytes(data)
    return str(path)


def answer(read: Callable[[], Any], path: str) -> Any:
    """Returns what a reader returns, or None when it says what is wrong, with the file's name.

    Raises:
      AssertionError: When its error does not name the file.
      Exception: Any other than an InputError, as it is.
    """
    try:
        return read()
    except InputError as error:
        assert path in str(error), f"the error does not name the file: {error}"
        return None
