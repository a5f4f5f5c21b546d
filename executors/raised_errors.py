"""Exceptions of the user's, on their way from the process that trains to the one that waits.

`describe` turns an exception into JSON values, `rebuild` turns them back into an exception of the same
type. No pickle is involved: an exception's class may be the user's own, so what crosses is names, plain
arguments and attributes, and the traceback's text. `except ValueError` catches what was a ValueError
over there, and a class that this process cannot name is stood in for by one of the same name below its
nearest known base.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from . import errors

_PLAIN = (str, int, float, bool, type(None))
_EXECUTORS = os.path.dirname(os.path.abspath(__file__))
_OURS = tuple(os.path.join(os.path.dirname(_EXECUTORS), name, "") for name in ("components", "executors"))
# Between our call and the user's module.
_MACHINERY = (contextlib.__file__, importlib.__file__, "<frozen importlib")

# Lines of TensorFlow's errors that tell where in TensorFlow it happened.
_NOISE = ("Graph execution error", "Detected at node", "Node:", "<stack traces", "[[{{", "File ", "(most recent call")
_NODE = re.compile(rb"\{\{(?:function_)?node ")
_OPERATION = re.compile(r"\{\{function_node \S+\}\} ?| \[Op:\w+\].*")


class RemoteTraceback(Exception):
    """Carries the text of another process's traceback as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def describe(error: BaseException) -> dict[str, Any]:
    """Returns the exception as JSON values."""
    message = _message(error)
    arguments = list(error.args)
    if isinstance(error, OSError) and error.filename is not None:  # not among its args
        arguments = [error.errno, error.strerror, error.filename, None, error.filename2]
    return {
        "classes": [[cls.__module__, cls.__qualname__] for cls in type(error).__mro__],
        "arguments": arguments if all(isinstance(argument, _PLAIN) for argument in arguments) else [message],
        "attributes": {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)},
        "message": message,
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
        # One that came from another process, on its way to a third, has left its own traceback there.
        "traceback": error.__cause__.text if isinstance(error.__cause__, RemoteTraceback) else traceback_of(error),
    }


def is_of_the_module(error: BaseException) -> bool:
    """Returns whether an exception is the user's own, so that its traceback says more than its message."""
    if isinstance(error, errors.TrainerError):
        return error.exit_code == 1 and isinstance(error.__cause__, RemoteTraceback)
    return isinstance(error, Exception)


def rebuild(description: dict[str, Any]) -> BaseException:
    """Returns the described exception, with the other process's traceback as its cause."""
    error = _rebuilt(description)
    if error is None:
        said = ", ".join(map(repr, description["arguments"]))
        name = description["classes"][0][1]
        error = errors.TrainingProcessError(f"The module ended its process with {name}({said}).")
    if description["notes"]:
        error.__notes__ = description["notes"]  # type: ignore[attr-defined]
    error.__cause__ = RemoteTraceback(description["traceback"])
    return error


def _rebuilt(description: dict[str, Any]) -> Exception | None:
    """Returns an exception of the nearest class that this process knows, and that says the same.

    As pickle does, it leaves constructors alone: `__init__` may take what is not there any more. Where
    the message does not come back that way, a class of the same name below the known one has it.
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
            with contextlib.suppress(Exception):  # classes may refuse anything
                own = type(own_name.rpartition(".")[2], (base,), dict(body)) if body else base
                error: Exception = own.__new__(own, *description["arguments"])
                vars(error).update(description["attributes"])
                if str(error) == message:
                    return error
    return None


def _class(module: str, name: str) -> type[Exception] | None:
    """Returns a class of Python's, of ours, or of a module that this process has imported anyway."""
    holder = builtins if module == "builtins" else sys.modules.get(module)
    found = getattr(holder, name, None)
    # A SystemExit or KeyboardInterrupt over there must not end this process.
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a __str__ of the user's
        return f"<no message: its __str__ raised {type(broken).__name__}>"


def traceback_of(error: BaseException) -> str:
    """Returns the traceback's text, beginning where the user's code does."""
    return "".join(traceback.format_exception(type(error), error, _where_theirs_begins(error)))


def _where_theirs_begins(error: BaseException) -> TracebackType | None:
    """Returns the traceback from the frame that our code called; the whole of it if there is none."""
    tb = error.__traceback__
    while tb is not None and not _is_ours(tb):  # who called us: a pipeline, the command
        tb = tb.tb_next
    while tb is not None and (_is_ours(tb) or _file(tb).startswith(_MACHINERY)):
        tb = tb.tb_next
    # A file that does not parse has no frame; the error itself shows its line.
    return tb or (None if isinstance(error, SyntaxError) else error.__traceback__)


def _is_ours(tb: TracebackType) -> bool:
    return os.path.abspath(_file(tb)).startswith(_OURS)


def _file(tb: TracebackType) -> str:
    return tb.tb_frame.f_code.co_filename


_remembered: list[Exception] = []


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Keeps the exception that leaves the block, for `last_remembered`.

    Beam hands an exception on as another one, with its text. Who runs a pipeline in this process finds
    the real one here.
    """
    try:
        yield
    except Exception as error:
        _remembered[:] = [error]
        raise


def last_remembered() -> Exception | None:
    """Returns the exception that last left a `remembered` block, once; None if there is none."""
    return _remembered.pop() if _remembered else None


def add_note(error: BaseException, note: str) -> None:
    """Adds a line that is shown below the exception (PEP 678; kept, though not shown, before Python 3.11)."""
    notes = getattr(error, "__notes__", None)
    if notes is None:
        error.__notes__ = [note]  # type: ignore[attr-defined]
    elif note not in notes:
        notes.append(note)


def gist_of(error: BaseException) -> str:
    """Returns what an error says in one line, without where in TensorFlow it happened."""
    text = _OPERATION.sub("", tensorflows_text(error) or str(getattr(error, "message", error)))
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_NOISE)) or str(error)


def tensorflows_text(error: BaseException) -> str:
    """Returns what TensorFlow said where it quotes bytes that are no text, at which Python raises its own; else ""."""
    if isinstance(error, UnicodeDecodeError) and _NODE.search(error.object):
        return error.object.decode("utf-8", "backslashreplace")
    return ""
