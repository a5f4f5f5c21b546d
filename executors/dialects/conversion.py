"""Converts a module of an older dialect to TFX's `run_fn` interface by appending a `run_fn` to it.

As in TFX's RFC on the generic trainer, the `run_fn` calls the `trainer_fn` and trains the Estimator that it returns.
Each dialect lists the definitions it can convert. The module is parsed, not executed; its existing lines stay as they
are.

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
from ..runtime.files.file_io import atomic_write
from .registry import call_dialect, installed
from .signatures import parameters_of

_RUN_FN = '''
def run_fn(fn_args):
    """Trains with {function}; see generic_trainer.run_as."""
    from generic_trainer import run_as

    return run_as({arguments})
'''


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A module's file before and after the conversion.

    Attributes:
      path: The file's path.
      before: The original content.
      after: The original content followed by the `run_fn`.
    """

    path: str
    before: bytes
    after: bytes

    def diff(self) -> bytes:
        """Returns the change as a unified diff that `patch` can apply."""
        name = os.path.relpath(self.path).encode()
        old, new = (io.BytesIO(content).readlines() for content in (self.before, self.after))
        lines = difflib.diff_bytes(difflib.unified_diff, old, new, name, name)
        return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Replaces the file atomically and keeps its permissions.

        Raises:
          InputError: When the file cannot be written.
        """
        try:
            with atomic_write(self.path) as part:
                with open(part, "wb") as file:
                    file.write(self.after)
                os.chmod(part, stat.S_IMODE(os.stat(self.path).st_mode))
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror}).") from error


def convert(reference: str, function: str | None = None) -> Conversion:
    """Computes a module's content with a `run_fn` appended; writes nothing.

    Args:
      reference: A module reference as for `generic-trainer train`; must be a local file, not an archive.
      function: The function to train with; required if there are several candidates or it has a non-standard name.

    Raises:
      InputError: When the module already has a run_fn; when it has no convertible definition, or more than one; when
        it has a syntax error; or when it is remote or in an archive.
      ModuleError: When the module does not exist.
    """
    if archive_in(reference) or file_io.is_remote(reference):
        raise InputError(f"{reference}: only a file on this machine can be converted. Unpack or copy it first.")
    with tempfile.TemporaryDirectory() as scratch:
        source = find_source(reference, scratch)
    before = file_io.read_bytes(source.path)
    definitions = {name: node for node in _top_level_statements(source.path, before) for name in _defined_names(node)}
    if "run_fn" in definitions:
        raise InputError(f"{source.path}, line {definitions['run_fn'].lineno}: it already has a run_fn.")
    chosen, dialect = _entry_point(source.path, definitions, function or source.function)
    return Conversion(source.path, before, before + _make_run_fn(before, chosen, dialect))


def _top_level_statements(path: str, content: bytes) -> Iterable[ast.stmt]:
    """Returns a module's top-level statements, including those inside `if`, `try` and `with` blocks."""
    try:
        pending: list[ast.AST] = list(ast.parse(content).body)
    except (SyntaxError, ValueError) as error:
        number = getattr(error, "lineno", None)
        line = f", line {number}" if number else ""
        raise InputError(f"{path}{line}: this is not Python {_python_version()}: {error}.") from error
    found = []
    for node in pending:
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
            pending.extend(ast.iter_child_nodes(node))
        elif isinstance(node, ast.stmt):
            found.append(node)
    return found


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement defines, imports or assigns."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _entry_point(path: str, definitions: Mapping[str, ast.stmt], function: str | None) -> tuple[str, str]:
    """Returns the name of the definition to train with, and its dialect.

    Raises:
      InputError: When there is no convertible definition, or more than one.
    """
    dialects = dict(sorted(installed().items(), reverse=True))
    found = [
        (one, name)
        for name, dialect in dialects.items()
        for one in call_dialect(dialect, "convertible", definitions, function)
    ]
    # Secondary candidates of dialects that yield, such as the helper `build_estimator`, are a fallback.
    certain = [
        (one, name) for one, name in found if not dialects[name].yields(None) or one in dialects[name].entry_points
    ]
    found = certain or found
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(one for one, _ in found)
        raise InputError(f"{path} defines {names}. Choose one with --function.")
    if function is None:
        known = [name for dialect in dialects.values() for name in dialect.entry_points]
        near = next((hint for name in known if (hint := did_you_mean(name, definitions))), "")
        forms = " nor ".join(dialect.converts_from for dialect in dialects.values() if dialect.converts_from)
        raise InputError(
            f"{path} has neither {forms}, so no run_fn can be generated.{near} Set --function for a function with "
            "another name."
        )
    if function not in definitions:
        raise InputError(f"{path} has no function {function!r}.{did_you_mean(function, definitions)}")
    forms = " or ".join(dialect.form for dialect in dialects.values() if dialect.form)
    raise InputError(
        f"{path}, line {definitions[function].lineno}: {function} does not have the form {forms}; its parameters are "
        f"({', '.join(parameters_of(definitions[function]))})."
    )


def _make_run_fn(before: bytes, function: str, dialect: str) -> bytes:
    """Returns the bytes to append.

    They are preceded by two blank lines, use the file's line endings, and end with a newline only if the file does.
    """
    arguments = [f'"{dialect}"', "__name__", "fn_args"] + ([f'function="{function}"'] if function != dialect else [])
    text = _RUN_FN.format(function=function, arguments=", ".join(arguments)).lstrip("\n")
    ends = before[len(before.rstrip(b"\r\n")) :].count(b"\n")
    text = "\n" * max(3 - ends, 0) + (text if ends else text.rstrip("\n"))
    is_crlf = before.count(b"\r\n") * 2 > before.count(b"\n")
    return text.replace("\n", "\r\n" if is_crlf else "\n").encode("ascii")


def _python_version() -> str:
    return ".".join(platform.python_version_tuple()[:2])
