"""Shared by the harnesses: writes the data to a file, and separates expected errors from failures."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

from generic_trainer.executors.errors import InputError

_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")


def file_of(data: bytes, name: str) -> str:
    """Writes the data to a file and returns its path; the next call with the same name overwrites it."""
    path = pathlib.Path(_FOLDER.name, name)
    path.write_bytes(data)
    return str(path)


def answer(read: Callable[[], Any], path: str) -> Any:
    """Returns the reader's result, or None if it raises an InputError that names the file.

    Raises:
      AssertionError: When the InputError does not name the file.
      Exception: Any other exception of the reader.
    """
    try:
        return read()
    except InputError as error:
        assert path in str(error), f"the error does not name the file: {error}"
        return None
