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
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, TypedDict, cast

from ... import errors

_PLAIN = (str, int, float, bool, type(None))
_LONGEST = 100_000  # characters of a message: some quote all of the data
_PROJECT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
_OURS = tuple(os.path.join(_PROJECT, name, "") for name in ("components", "executors"))
_PACKAGE = tuple(os.path.join(_PROJECT, name, "") for name in ("cli", "pipelines"))
# Between our call and the user's module.
_MACHINERY = (contextlib.__file__, importlib.__file__, "<frozen importlib")
_COMPILED = "apache_beam/"  # frames of Beam's Cython code have relative paths

# Lines of TensorFlow's errors that tell where in TensorFlow it happened.
_NOISE = ("Graph execution error", "Detected at node", "Node:", "<stack traces", "[[{{", "File ", "(most recent call")
_NODE = re.compile(rb"\{\{(?:function_)?node ")
_OPERATION = re.compile(r"\{\{function_node \S+\}\} ?| \[Op:\w+\].*")


class Described(TypedDict):
    """An exception as JSON values.

    Attributes:
      classes: Module and qualified name of its class and those above it, the nearest first.
      arguments: Plain ones, else the message alone.
      attributes: Those with plain values.
      message: Its text.
      notes: Those that were added to it.
      traceback: The text, from where the user's code begins.
    """

    classes: list[list[str]]
    arguments: list[object]
    attributes: dict[str, object]
    message: str
    notes: list[str]
    traceback: str


class RemoteTraceback(Exception):
    """Carries the text of another process's traceback as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def describe(error: BaseException) -> dict[str, Any]:
    """Returns the exception as JSON values."""
    try:
        return _described(error)
    except Exception as broken:  # attributes of the user's class may raise anything
        name, reason = type(error).__qualname__, type(broken).__name__
        return _described(errors.TrainingProcessError(f"The module raised {name}, and describing it raised {reason}."))


def _described(error: BaseException) -> dict[str, Any]:
    message = message_of(error)
    arguments = list(error.args)
    if isinstance(error, OSError) and error.filename is not None:  # not among its args
        arguments = [error.errno, error.strerror, error.filename, None, error.filename2]
    return {
        "classes": [[cls.__module__, cls.__qualname__] for cls in type(error).__mro__],
        "arguments": arguments if all(map(_is_plain, arguments)) else [message],
        "attributes": {name: value for name, value in vars(error).items() if _is_plain(value)},
        "message": message,
        "notes": [_text_of(note) for note in _notes_of(error)],
        # One that came from another process, on its way to a third, has left its own traceback there.
        "traceback": error.__cause__.text if isinstance(error.__cause__, RemoteTraceback) else traceback_of(error),
    }


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception and those that were being handled when it was raised, each once, also with `from None`."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def handled_before(error: BaseException) -> str:
    """Returns which exception a module had caught when it raised another one: " while it handled KeyError: 'a'"."""
    caught = next((one for one in chain(error) if one is not error), None)
    return f" while it handled {type(caught).__name__}: {message_of(caught)}" if caught is not None else ""


def is_of_the_module(error: BaseException) -> bool:
    """Returns whether an exception is the user's own, so that its traceback says more than its message."""
    if isinstance(error, errors.TrainerError):
        return error.exit_code == 1 and isinstance(error.__cause__, RemoteTraceback)
    return isinstance(error, Exception)


def rebuild(description: Mapping[str, object]) -> BaseException:
    """Returns the described exception, with the other process's traceback as its cause."""
    described = cast("Described", description)
    error = _rebuilt(described)
    if error is None:
        said = ", ".join(map(repr, described["arguments"]))
        name = described["classes"][0][1]
        error = errors.TrainingProcessError(f"The module ended its process with {name}({said}).")
    if described["notes"]:
        error.__notes__ = described["notes"]  # type: ignore[attr-defined]
    text = described["traceback"]
    if not isinstance(error, errors.TrainerError) or 'File "' in text:  # without frames it repeats the message
        error.__cause__ = RemoteTraceback(text)
    return error


def _rebuilt(description: Described) -> Exception | None:
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
                own = cast("type[Exception]", type(own_name.rpartition(".")[2], (base,), dict(body))) if body else base
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


def message_of(error: BaseException) -> str:
    """Returns what an exception says, also one whose `__str__` raises; a huge text is cut in the middle."""
    return _text_of(error)


def _text_of(value: object) -> str:
    try:
        text = str(value)
    except Exception as broken:  # a __str__ of the user's
        return f"<no message: its __str__ raised {type(broken).__name__}>"
    left_out = len(text) - _LONGEST
    half = _LONGEST // 2
    return text if left_out <= 0 else f"{text[:half]}… ({left_out:,} characters left out) …{text[-half:]}"


def _notes_of(error: BaseException) -> list[object]:
    notes = getattr(error, "__notes__", None)
    return list(notes) if isinstance(notes, (list, tuple)) else []


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) and not (isinstance(value, str) and len(value) > _LONGEST)


def has_frame_of_user(error: BaseException) -> bool:
    """Returns whether any code that is neither ours, nor Python's, nor an installed package's was running."""
    libraries = tuple(
        os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )
    tb = error.__traceback__
    while tb is not None:
        file = _file(tb)
        if not (_is_ours(tb) or file.startswith(("<", _COMPILED, *_PACKAGE, *libraries)) or "site-packages" in file):
            return True
        tb = tb.tb_next
    return False


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
    if not isinstance(notes, list):
        error.__notes__ = [note]  # type: ignore[attr-defined]
    elif note not in notes:
        notes.append(note)


def gist_of(error: BaseException) -> str:
    """Returns what an error says in one line, without where in TensorFlow it happened."""
    text = _OPERATION.sub("", tensorflows_text(error) or _text_of(getattr(error, "message", error)))
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_NOISE)) or message_of(error)


def tensorflows_text(error: BaseException) -> str:
    """Returns what TensorFlow said where it quotes bytes that are no text, at which Python raises its own; else ""."""
    if isinstance(error, UnicodeDecodeError) and _NODE.search(error.object):
        return error.object.decode("utf-8", "backslashreplace")
    return ""
