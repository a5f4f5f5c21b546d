"""Finds the line in the user's files that an error comes from.

A traceback usually ends inside TensorFlow. The relevant line is the last frame in the user's files: in the traceback,
or in the stack trace that TensorFlow includes in messages of errors within a `tf.function`, whose code runs later.

    place_of(error, source.files)   # Place("taxi.py", 80, "model.fit(train)")
"""

from __future__ import annotations

import linecache
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from ..errors import TrainerError
from ..modules.defined_names import definitions_of
from ..modules.source import parsed
from ..runtime.logs.exceptions import chain, text_of
from .verdicts import Place

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
# Both begin at the start of a word: from each of its characters, they would take quadratic time.
_IN_TEXT = re.compile(r"(?<![^\s:'\"])([^\s:'\"]+\.py), line (\d+)")
_FILE_AND_NAME = re.compile(r"(?<![^\s'\"])([^\s'\"]+\.py): (\w+)")
_SUGGESTED = re.compile(r"Did you mean '(\w+)'")


def place_of(error: BaseException, files: Sequence[str]) -> Place | None:
    """Returns the line in the user's files that an exception or its causes come from, or None.

    Args:
      error: The exception, with its traceback.
      files: Absolute paths of the user's files.
    """
    own = {os.path.realpath(file): file for file in files}
    for raised in chain(error):
        if isinstance(raised, SyntaxError) and raised.filename and os.path.realpath(raised.filename) in own:
            return place_at(raised.filename, raised.lineno or 0)
        text = text_of(raised)
        in_text = [(file, int(line)) for file, line in _FRAME.findall(text)]
        in_code = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(raised.__traceback__)]
        for frames in (in_text, in_code):
            if frame := next((frame for frame in frames[::-1] if os.path.realpath(frame[0]) in own), None):
                return place_at(*frame)
        if isinstance(raised, TrainerError) and (place := _place_in_message(text, own)):
            return place
    return None


def place_at(file: str, line: int) -> Place:
    """Returns the `Place` of a line of a file, with the line's text."""
    linecache.checkcache(file)
    return Place(display_path(file), line, linecache.getline(file, line).strip() if line else "")


def definition(file: str, name: str) -> Place | None:
    """Returns the place of a top-level function, class or variable in a file, or None."""
    node = definitions_of(parsed(file)).get(name)
    return place_at(file, node.lineno) if node else None


def string_constants(file: str) -> Iterator[tuple[str, str, int]]:
    """Yields (name, value, line) of top-level assignments of string literals: LABEL = "variety"."""
    for name, node in definitions_of(parsed(file)).items():
        value = getattr(getattr(node, "value", None), "value", None)
        if isinstance(value, str):
            yield name, value, node.lineno


def calling_place(frame: FrameType | None, files: Sequence[str]) -> Place | None:
    """Returns the innermost line of the user's files on the call stack of a frame, or None."""
    own = {os.path.realpath(file) for file in files}
    while frame is not None:
        if os.path.realpath(frame.f_code.co_filename) in own:
            return place_at(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def display_path(path: str) -> str:
    """Returns a path relative to the current directory, or unchanged if it is outside."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith(os.pardir) else relative


def _place_in_message(text: str, own: dict[str, str]) -> Place | None:
    """Returns the place named in the message of a `TrainerError`: "taxi.py, line 3", or "taxi.py: model_fn"."""
    for file, line in _IN_TEXT.findall(text):
        if os.path.realpath(file) in own:
            return place_at(file, int(line))
    named = [(file, name) for file, name in _FILE_AND_NAME.findall(text) if os.path.realpath(file) in own]
    named += [(file, name) for name in _SUGGESTED.findall(text) for file in own]
    return next((place for file, name in named if (place := definition(file, name))), None)
