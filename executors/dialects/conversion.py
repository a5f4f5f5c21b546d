"""Turns a module of an older dialect into one with a `run_fn`, by adding a few lines at its end.

The recipe is that of TFX's RFC on the generic trainer: a `run_fn` that calls the `trainer_fn` and trains what it
returns. So it is with a `model_fn`, and with a conf of DLRover's. Nothing of the module is executed, and nothing that
stands in it is changed.

Usage:

    conversion = convert("taxi_estimator.py")
    print(conversion.diff().decode())
    conversion.write()
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import io
import os
import platform
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping

from ..errors import InputError, did_you_mean
from ..modules.archive import archive_in
from ..modules.source import find_source
from ..runtime.files import file_io
from ..runtime.files.file_io import whole_file
from .dlrover.detection import is_conf

_ENTRY_POINTS = ("trainer_fn", "model_fn")
_BUILDER = "build_estimator"  # what the dialect model_fn takes in its stead

_RUN_FN = '''
def run_fn(fn_args):
    """Trains with {function}; see generic_trainer.run_as."""
    from generic_trainer import run_as

    return run_as({arguments})
'''


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A module's file, before and after.

    Attributes:
      path: The file.
      before: Its bytes.
      after: The same with lines added.
    """

    path: str
    before: bytes
    after: bytes

    def diff(self) -> bytes:
        """Returns the change as a unified diff, for people and for `patch`."""
        name = os.path.relpath(self.path).encode()
        old, new = (io.BytesIO(content).readlines() for content in (self.before, self.after))
        lines = difflib.diff_bytes(difflib.unified_diff, old, new, name, name)
        return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Writes the file, all of it or nothing; it keeps its permissions.

        Raises:
          InputError: When it cannot be written.
        """
        try:
            with whole_file(self.path) as part:
                with open(part, "wb") as file:
                    file.write(self.after)
                os.chmod(part, stat.S_IMODE(os.stat(self.path).st_mode))
        except OSError as error:
            raise InputError(f"{self.path}: cannot write it ({error.strerror}).") from error


def convert(reference: str, function: str | None = None) -> Conversion:
    """Works out the lines that give a module a `run_fn`.

    Args:
      reference: The module, as `generic-trainer train` takes it; a file on this machine, and no archive.
      function: The function to train with, where there are several, or it has a name of its own.

    Raises:
      InputError: When the module has a run_fn already, nothing to make one from, or more than one such thing; when it
        is no Python; or when it is not a file of its own on this machine.
      ModuleError: When there is no such module.
    """
    if archive_in(reference) or file_io.is_remote(reference):
        raise InputError(f"{reference}: only a file on this machine can be converted. Unpack or copy it first.")
    with tempfile.TemporaryDirectory() as scratch:
        source = find_source(reference, scratch)
    before = file_io.read_bytes(source.path)
    there = {name: node for node in _parsed(source.path, before) for name in _names(node)}
    if "run_fn" in there:
        raise InputError(f"{source.path}, line {there['run_fn'].lineno}: it has a run_fn already.")
    chosen = function or source.function or _only_entry_point(source.path, there)
    if chosen not in there:
        raise InputError(f"{source.path} has no function {chosen!r}.{did_you_mean(chosen, there)}")
    return Conversion(source.path, before, before + _addition(before, chosen, _dialect(source.path, chosen, there)))


def _parsed(path: str, content: bytes) -> Iterable[ast.stmt]:
    """Returns the statements at a module's top level, those inside `if`, `try` and `with` too."""
    try:
        pending: list[ast.AST] = list(ast.parse(content).body)
    except (SyntaxError, ValueError) as error:
        number = getattr(error, "lineno", None)
        line = f", line {number}" if number else ""
        raise InputError(f"{path}{line}: this is not Python {_version()}: {error}.") from error
    found = []
    for node in pending:
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
            pending.extend(ast.iter_child_nodes(node))
        elif isinstance(node, ast.stmt):
            found.append(node)
    return found


def _names(statement: ast.stmt) -> Iterator[str]:
    """Yields what a statement defines, imports or assigns."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _only_entry_point(path: str, there: Mapping[str, ast.stmt]) -> str:
    confs = [name for name, node in there.items() if isinstance(node, ast.ClassDef) and is_conf(node)]
    found = [name for name in _ENTRY_POINTS if name in there] + confs
    found = found or [name for name in (_BUILDER,) if name in there]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{path} has both {' and '.join(found)}. Say which one trains it with --function.")
    near = next((hint for name in _ENTRY_POINTS if (hint := did_you_mean(name, there))), "")
    raise InputError(
        f"{path} has neither {' nor '.join(_ENTRY_POINTS)} nor a conf of DLRover's, so there is nothing to make a "
        f"run_fn from.{near} A function with a name of its own is named with --function."
    )


def _dialect(path: str, function: str, there: Mapping[str, ast.stmt]) -> str:
    """Returns the dialect that a function belongs to: by its name, or by its parameters."""
    if function in _ENTRY_POINTS:
        return function
    if function == _BUILDER:
        return "model_fn"
    node = there[function]
    if isinstance(node, ast.ClassDef):
        return "dlrover"  # which looks the conf over when it trains; it may inherit what it needs
    parameters = [argument.arg for argument in node.args.args] if isinstance(node, ast.FunctionDef) else []
    if parameters[:1] == ["features"]:  # an Estimator insists on the name
        return "model_fn"
    if len(parameters) == 2:
        return "trainer_fn"
    raise InputError(
        f"{path}, line {node.lineno}: {function} is neither like trainer_fn(fn_args, schema) nor like "
        f"model_fn(features, labels, mode, params); its parameters are ({', '.join(parameters)})."
    )


def _addition(before: bytes, function: str, dialect: str) -> bytes:
    """Returns the bytes to add: after two empty lines, with the file's line ends, and as it does without a last one."""
    arguments = [f'"{dialect}"', "__name__", "fn_args"] + ([f'function="{function}"'] if function != dialect else [])
    text = _RUN_FN.format(function=function, arguments=", ".join(arguments)).lstrip("\n")
    ends = before[len(before.rstrip(b"\r\n")) :].count(b"\n")
    text = "\n" * max(3 - ends, 0) + (text if ends else text.rstrip("\n"))
    is_crlf = before.count(b"\r\n") * 2 > before.count(b"\n")
    return text.replace("\n", "\r\n" if is_crlf else "\n").encode("ascii")


def _version() -> str:
    return ".".join(platform.python_version_tuple()[:2])
