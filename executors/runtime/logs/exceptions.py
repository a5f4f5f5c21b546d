"""Transfers exceptions of the user's module from the training process to its parent process.

`describe` converts an exception to JSON values, `rebuild` converts them back to an exception of the same type. Pickle
is not used, because the class may be defined by the user: only class names, plain arguments and attributes, and the
traceback's text are transferred. `except ValueError` catches what was a ValueError in the other process; a class that
is not available in this process is replaced by a new class of the same name below its nearest available base.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, TypedDict, cast

from ... import errors

_PLAIN = (str, int, float, bool, type(None))
_SUMMARY = "one_line_summary"  # of an exception: an attribute with text, which reaches other processes
_LONGEST = 100_000  # maximum characters of a message: some quote all of the data
_PROJECT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
_OURS = tuple(os.path.join(_PROJECT, name, "") for name in ("components", "executors"))
_PACKAGE = tuple(os.path.join(_PROJECT, name, "") for name in ("cli", "pipelines"))
# Files with stack frames between this project's call and the user's module.
_MACHINERY = (contextlib.__file__, importlib.__file__, "<frozen importlib", "<frozen runpy")
_LOCATION = re.compile(r'^[ \t]*(?:\| +)*File "([^"]+)", line (\d+)', re.MULTILINE)
_COMPILED = "apache_beam/"  # frames of Beam's Cython code have relative paths

# Beginnings of lines in TensorFlow's errors that only give the location inside TensorFlow.
_NOISE = ("Graph execution error", "Detected at node", "Node:", "<stack traces", "[[", "File ", "(most recent call")
_NODE = re.compile(rb"\{\{(?:function_)?node ")
_OPERATION = re.compile(
    r"\{\{function_node \S+\}\} ?| \[Op:\w+\].*|Name: <unknown>, "
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)


class Described(TypedDict):
    """An exception as JSON values.

    Attributes:
      classes: Module and qualified name of each class in its MRO.
      arguments: Its arguments if all are plain values, otherwise only the message.
      attributes: Its attributes with plain values.
      message: Its text.
      notes: Its notes (PEP 678).
      traceback: The traceback's text, from the first frame in the user's code.
    """

    classes: list[list[str]]
    arguments: list[object]
    attributes: dict[str, object]
    message: str
    notes: list[str]
    traceback: str


class RemoteTraceback(Exception):
    """The text of another process's traceback, used as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def describe(error: BaseException) -> dict[str, Any]:
    """Returns an exception as JSON values."""
    try:
        return _described(error)
    except Exception as broken:  # attributes of user-defined classes may raise
        name, reason = type(error).__qualname__, type(broken).__name__
        return _described(errors.TrainingProcessError(f"The module raised {name}, and describing it raised {reason}."))


def _described(error: BaseException) -> dict[str, Any]:
    message = message_of(error)
    arguments = list(error.args)
    if isinstance(error, OSError) and error.filename is not None:  # not part of its args
        arguments = [error.errno, error.strerror, error.filename, None, error.filename2]
    return {
        "classes": [[cls.__module__, cls.__qualname__] for cls in type(error).__mro__],
        "arguments": arguments if all(map(_is_plain, arguments)) else [message],
        "attributes": {name: value for name, value in vars(error).items() if _is_plain(value)},
        "message": message,
        "notes": [text_of(note) for note in _notes_of(error)],
        # An exception that came from another process keeps that process's traceback.
        "traceback": error.__cause__.text if isinstance(error.__cause__, RemoteTraceback) else traceback_of(error),
    }


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception and its chain of causes and contexts, each once, including contexts hidden by `from None`."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def describe_handled(error: BaseException) -> str:
    """Returns a description of the exception that was handled when another was raised; "" without one.

    As part of a sentence: " while it handled KeyError: 'a'".
    """
    caught = next((one for one in chain(error) if one is not error), None)
    return f" while it handled {type(caught).__name__}: {message_of(caught)}" if caught is not None else ""


def is_from_module(error: BaseException) -> bool:
    """Whether an exception was raised by the user's module, so that its traceback is worth showing."""
    if isinstance(error, errors.TrainerError):
        return error.exit_code == 1 and isinstance(error.__cause__, RemoteTraceback)
    return isinstance(error, Exception)


def rebuild(description: Mapping[str, object]) -> BaseException:
    """Returns the described exception, with the other process's traceback as its cause."""
    described = cast("Described", description)
    error = _rebuilt(described)
    if error is None:
        argument_text = ", ".join(map(repr, described["arguments"]))
        name = described["classes"][0][1]
        error = errors.TrainingProcessError(f"The module ended its process with {name}({argument_text}).")
    if described["notes"]:
        error.__notes__ = described["notes"]  # type: ignore[attr-defined]
    text = described["traceback"]
    if not isinstance(error, errors.TrainerError) or 'File "' in text:  # without frames it repeats the message
        error.__cause__ = RemoteTraceback(text)
    return error


def _rebuilt(description: Described) -> Exception | None:
    """Returns an exception of the nearest available class with the same message, or None.

    Like pickle, it does not call constructors, as `__init__` may require arguments that are not available. If the
    message is not reproduced that way, a subclass of the same name with a `__str__` returns it.
    """
    message, classes = description["message"], description["classes"]
    (own_module, own_name), *_ = classes
    named = {"__module__": own_module, "__qualname__": own_name}
    for module, name in classes:
        base = _class(module, name)
        if base is None:
            continue
        known = (module, name) == (own_module, own_name)
        for body in (None if known else named, {**named, "__str__": lambda _: message}):
            with contextlib.suppress(Exception):  # user-defined classes may raise
                own = cast("type[Exception]", type(own_name.rpartition(".")[2], (base,), dict(body))) if body else base
                error: Exception = own.__new__(own, *description["arguments"])
                vars(error).update(description["attributes"])
                if str(error) == message:
                    return error
    return None


def _class(module: str, name: str) -> type[Exception] | None:
    """Returns an exception class that is builtin or in a module already imported in this process; else None."""
    holder = builtins if module == "builtins" else sys.modules.get(module)
    found = getattr(holder, name, None)
    # A SystemExit or KeyboardInterrupt of the other process must not end this process.
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def message_of(error: BaseException) -> str:
    """Returns an exception's message, even if its `__str__` raises; a huge text is truncated in the middle.

    A SyntaxError's message has the column as well: "invalid syntax (taxi.py, line 3, column 7)".
    """
    text = text_of(error)
    if isinstance(error, SyntaxError) and error.offset and text.endswith(f"line {error.lineno})"):
        return f"{text[:-1]}, column {error.offset})"
    return text


def text_of(value: object) -> str:
    """Returns a value's text, even if its `__str__` raises; a huge text is truncated in the middle."""
    try:
        text = str(value)
    except Exception as broken:  # a user-defined __str__
        return f"<no message: its __str__ raised {type(broken).__name__}>"
    left_out = len(text) - _LONGEST
    half = _LONGEST // 2
    return text if left_out <= 0 else f"{text[:half]}… ({left_out:,} characters left out) …{text[-half:]}"


def _notes_of(error: BaseException) -> list[object]:
    notes = getattr(error, "__notes__", None)
    return list(notes) if isinstance(notes, (list, tuple)) else []


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) and not (isinstance(value, str) and len(value) > _LONGEST)


def has_user_frame(error: BaseException) -> bool:
    """Whether the traceback has a frame that is not in this project, Python or an installed package."""
    return any(_is_user_file(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def user_location(text: str) -> str:
    """Returns the innermost location in the user's code, such as "taxi.py:57", in a traceback's text; "" without one.

    Paths below the current folder are relative to it.
    """
    folder = os.path.join(_absolute(os.curdir), "")
    locations = reversed(_LOCATION.findall(text))
    return next((f"{file.removeprefix(folder)}:{line}" for file, line in locations if _is_user_file(file)), "")


def _is_user_file(file: str) -> bool:
    is_other = file.startswith(("<", _COMPILED)) or _absolute(file).startswith((*_OURS, *_PACKAGE, *_libraries()))
    return not is_other and "site-packages" not in file


def _absolute(path: str) -> str:
    """Returns an absolute path; the path itself if the working folder was deleted."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path


@functools.cache
def _libraries() -> tuple[str, ...]:
    return tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def traceback_of(error: BaseException) -> str:
    """Returns the traceback's text, from the first frame in the user's code.

    If only the cause of one of this project's errors has such a frame, it is the cause's traceback.
    """
    cause = error.__cause__
    tb = _user_traceback(error)
    if isinstance(error, errors.TrainerError) and tb is None and cause and _user_traceback(cause):
        return traceback_of(cause)
    # A file that does not parse has no frame; the error itself contains the line.
    shown = tb or (None if isinstance(error, SyntaxError) else error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, shown))


def _user_traceback(error: BaseException) -> TracebackType | None:
    """Returns the traceback from the frame that this project called; None if there is none."""
    tb = error.__traceback__
    while tb is not None and not _is_own_frame(tb):  # frames of this project's callers: a pipeline, the command
        tb = tb.tb_next
    while tb is not None and (_is_own_frame(tb) or _file(tb).startswith(_MACHINERY)):
        tb = tb.tb_next
    return tb


def _is_own_frame(tb: TracebackType) -> bool:
    return _absolute(_file(tb)).startswith(_OURS)


def _file(tb: TracebackType) -> str:
    return tb.tb_frame.f_code.co_filename


def add_note(error: BaseException, note: str) -> None:
    """Adds a note that is shown below the exception (PEP 678; stored but not shown before Python 3.11)."""
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        error.__notes__ = [note]  # type: ignore[attr-defined]
    elif note not in notes:
        notes.append(note)


def add_summary(error: BaseException, text: str) -> None:
    """Adds a note; the first one also stands for the message where there is only one line, see `summary_of`."""
    add_note(error, text)
    setattr(error, _SUMMARY, summary_of(error) or text)


def summary_of(error: BaseException) -> str:
    """Returns the text that stands for an exception's message in one line; "" without one."""
    return str(getattr(error, _SUMMARY, ""))


def one_line_message(error: BaseException) -> str:
    """Returns an error's message in one line, without TensorFlow's internal locations."""
    text = _OPERATION.sub("", tensorflow_message(error) or text_of(getattr(error, "message", error)))
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_NOISE)) or message_of(error)


def tensorflow_message(error: BaseException) -> str:
    """Returns the TensorFlow error message that Python failed to decode as UTF-8; "" for other errors."""
    if isinstance(error, UnicodeDecodeError) and _NODE.search(error.object):
        return error.object.decode("utf-8", "backslashreplace")
    return ""
