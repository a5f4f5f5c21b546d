"""Exceptions of the user's, on their way from the process that trains to the one that waits.

`describe` turns an exception into JSON values, `rebuild` turns them back into an exception of the same
type. No pickle is involved: an exception's class may be the user's own, so what crosses is names, plain
arguments and the traceback's text. `except ValueError` catches what was a ValueError over there, and a
class that this process cannot name is stood in for by one of the same name below its nearest known base.
"""

from __future__ import annotations

import builtins
import os
import sys
import traceback
from typing import Any

from . import errors

_PLAIN = (str, int, float, bool, type(None))


class RemoteTraceback(Exception):
    """Carries the text of another process's traceback as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def describe(error: BaseException) -> dict[str, Any]:
    """Returns the exception as JSON values."""
    return {
        "classes": [[cls.__module__, cls.__qualname__] for cls in type(error).__mro__],
        "arguments": list(error.args) if all(isinstance(a, _PLAIN) for a in error.args) else [str(error)],
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
        "traceback": traceback_of(error),
    }


def rebuild(description: dict[str, Any]) -> BaseException:
    """Returns the described exception, with the other process's traceback as its cause."""
    classes = description["classes"]
    arguments = description["arguments"]
    error = None
    for module, name in classes:
        base = _class(module, name)
        if base is None:
            continue
        wanted_module, wanted_name = classes[0]
        own = base if [module, name] == classes[0] else type(wanted_name, (base,), {"__module__": wanted_module})
        try:
            error = own(*arguments)
        except TypeError:  # a constructor with a signature of its own
            continue
        break
    if error is None:
        said = ", ".join(map(repr, arguments))
        error = errors.TrainingProcessError(f"The module ended its process with {classes[0][1]}({said}).")
    if description["notes"]:
        error.__notes__ = description["notes"]  # type: ignore[attr-defined]
    error.__cause__ = RemoteTraceback(description["traceback"])
    return error


def _class(module: str, name: str) -> type[BaseException] | None:
    """Returns a class of Python's, of ours, or of a module that this process has imported anyway."""
    holder = builtins if module == "builtins" else sys.modules.get(module)
    found = getattr(holder, name, None)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        return None
    # A SystemExit or KeyboardInterrupt over there must not end this process.
    return found if issubclass(found, Exception) else None


def traceback_of(error: BaseException) -> str:
    """Returns the traceback's text, beginning where the user's code does."""
    here = os.path.dirname(os.path.abspath(__file__))
    tb = error.__traceback__
    first = tb
    while first is not None and _is_ours(first.tb_frame.f_code.co_filename, here):
        first = first.tb_next
    shown = error.with_traceback(first or tb)
    text = "".join(traceback.format_exception(type(shown), shown, shown.__traceback__))
    error.with_traceback(tb)
    return text


def _is_ours(file: str, here: str) -> bool:
    return os.path.abspath(file).startswith(here + os.sep) or file.startswith("<frozen importlib")


def add_note(error: BaseException, note: str) -> None:
    """Adds a line that is shown below the exception (PEP 678; kept, though not shown, before Python 3.11)."""
    notes = getattr(error, "__notes__", None)
    if notes is None:
        error.__notes__ = [note]  # type: ignore[attr-defined]
    elif note not in notes:
        notes.append(note)
