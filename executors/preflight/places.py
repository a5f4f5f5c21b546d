"""Where in the user's own files an error happened.

An exception's traceback ends in TensorFlow. What the user can change is the last line of their own: a frame of the
traceback, or of the ones that TensorFlow puts into its messages, since the code of a `tf.function` runs later.

    place_of(error, source.files)   # Place("taxi.py", 80, "model.fit(train)")
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from ..errors import TrainerError
from ..modules.source import parsed
from .verdicts import Place

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_IN_TEXT = re.compile(r"([^\s:'\"]+\.py), line (\d+)")
_NAMED = re.compile(r"([^\s'\"]+\.py): (\w+)")
_MEANT = re.compile(r"Did you mean '(\w+)'")


def place_of(error: BaseException, files: Sequence[str]) -> Place | None:
    """Returns the user's line that an exception comes from, or None.

    Args:
      error: The exception, with its traceback.
      files: The user's files, absolute.
    """
    own = {os.path.realpath(file): file for file in files}
    for one in _chain(error):
        if isinstance(one, SyntaxError) and one.filename and os.path.realpath(one.filename) in own:
            return place_at(one.filename, one.lineno or 0)
        text = _text(one)
        frames = [(file, int(line)) for file, line in _FRAME.findall(text)]
        frames += [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(one.__traceback__)][::-1]
        in_text = [frame for frame in frames[: len(_FRAME.findall(text))] if os.path.realpath(frame[0]) in own]
        if in_text:
            return place_at(*in_text[-1])
        if found := next((frame for frame in frames if os.path.realpath(frame[0]) in own), None):
            return place_at(*found)
        if isinstance(one, TrainerError) and (place := _told(text, own)):
            return place
    return None


def place_at(file: str, line: int) -> Place:
    """Returns a line of a file, with its text."""
    linecache.checkcache(file)
    return Place(shown(file), line, linecache.getline(file, line).strip() if line else "")


def definition(file: str, name: str) -> Place | None:
    """Returns where a file defines a function, a class or a variable at its top level, or None."""
    for node in parsed(file).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        names = {getattr(node, "name", None), *(getattr(target, "id", None) for target in targets)}
        if name in names:
            return place_at(file, node.lineno)
    return None


def calling_place(frame: FrameType | None, files: Sequence[str]) -> Place | None:
    """Returns the innermost of the user's lines that led to a frame, or None."""
    own = {os.path.realpath(file) for file in files}
    while frame is not None:
        if os.path.realpath(frame.f_code.co_filename) in own:
            return place_at(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def string_constants(file: str) -> Iterator[tuple[str, str, int]]:
    """Yields (name, value, line) of what a file assigns a string at its top level: LABEL = "variety"."""
    for node in parsed(file).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            and isinstance(node.targets[0], ast.Name)
        ):
            yield node.targets[0].id, node.value.value, node.lineno


def shown(path: str) -> str:
    """Returns a path as a person in this folder would write it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith(os.pardir) else relative


def _told(text: str, own: dict[str, str]) -> Place | None:
    """Finds the place that one of our own messages names: "taxi.py, line 3", or "taxi.py: model_fn"."""
    for file, line in _IN_TEXT.findall(text):
        if os.path.realpath(file) in own:
            return place_at(file, int(line))
    named = [(file, name) for file, name in _NAMED.findall(text) if os.path.realpath(file) in own]
    named += [(file, name) for name in _MEANT.findall(text) for file in own]
    return next((place for file, name in named if (place := definition(file, name))), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception and those that it came from, each once."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a __str__ of the user's
        return ""
