"""Converts a module of an older dialect to TFX's `run_fn` interface, so that TFX's own Trainer can run it.

As in TFX's RFC on the generic trainer, the added `run_fn` calls the `trainer_fn` and trains the Estimator that it
returns. A call of `prepare_for` before the module's imports restores what they need, such as `tf.estimator`. Each
dialect lists the definitions it can convert. `convert` parses the module; `converted_import` imports the result. The
existing lines stay as they are.

Usage:

    conversion = convert("taxi_estimator.py")
    print(conversion.diff().decode())
    conversion.write()
"""

from __future__ import annotations

import ast
import codecs
import dataclasses
import difflib
import io
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence

from ..errors import InputError, did_you_mean
from ..modules.archive import archive_in
from ..modules.defined_names import definitions_of
from ..modules.source import ModuleSource, find_source
from ..runtime.files import file_io
from ..runtime.files.output_file import output_file
from .base import Dialect
from .registry import adapters, call_dialect
from .selection import unmatched_hints
from .signatures import parameters_of

_PREPARE = """\
from generic_trainer import prepare_for

prepare_for("{dialect}", __name__)
"""
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
      source: The module.
      function: Name of the definition that the run_fn trains with.
      before: The original content.
      after: The original content, with a call of `prepare_for` before its code and a `run_fn` at its end.
      lines_before_code: Number of the lines that precede the code.
      lacks: What the module still lacks, or may lack, each with the lines to add.
    """

    source: ModuleSource
    function: str
    before: bytes
    after: bytes
    lines_before_code: int
    lacks: Sequence[str] = ()

    @property
    def path(self) -> str:
        """The file's path."""
        return self.source.path

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
            with output_file(self.path) as part, open(part, "wb") as file:
                file.write(self.after)
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
    definitions = definitions_of(_parse(source.path, before))
    if "run_fn" in definitions:
        raise InputError(f"{source.path}, line {definitions['run_fn'].lineno}: it already has a run_fn.")
    chosen, dialect = _entry_point(source.path, definitions, function or source.function)
    start = _start_of_code(before)
    preparation = _make_preparation(before, start, dialect)
    after = before[:start] + preparation + before[start:] + _make_run_fn(before, chosen, dialect)
    lacks = call_dialect(adapters()[dialect], Dialect.lacks, definitions)
    return Conversion(source, chosen, before, after, preparation.count(b"\n"), lacks)


def _parse(path: str, content: bytes) -> ast.Module:
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError) as error:
        number = getattr(error, "lineno", None)
        line = f", line {number}" if number else ""
        raise InputError(f"{path}{line}: this is not Python {_python_version()}: {error}.") from error


def _entry_point(path: str, definitions: Mapping[str, ast.stmt], function: str | None) -> tuple[str, str]:
    """Returns the name of the definition to train with, and its dialect.

    Raises:
      InputError: When there is no convertible definition, or more than one.
    """
    dialects = dict(sorted(adapters().items(), reverse=True))
    found = [
        (one, name)
        for name, dialect in dialects.items()
        for one in call_dialect(dialect, Dialect.convertible, definitions, function)
    ]
    # Secondary candidates of dialects that yield, such as the helper `build_estimator`, are a fallback.
    certain = [
        (one, name) for one, name in found if not dialects[name].yields(None) or one in dialects[name].entry_points
    ]
    found = certain or found
    if function is not None:  # several dialects may accept the name of an imported function
        found = [(one, name) for one, name in found if one in dialects[name].entry_points] or found
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(dict.fromkeys(one for one, _ in found))
        raise InputError(f"{path} defines {names}. Choose one with --function.")
    if function is None:
        raise InputError(_explain_no_definition(path, definitions, dialects))
    if function not in definitions:
        raise InputError(f"{path} has no function {function!r}.{did_you_mean(function, definitions)}")
    forms = " or ".join(dialect.form for dialect in dialects.values() if dialect.form)
    raise InputError(
        f"{path}, line {definitions[function].lineno}: {function} does not have the form {forms}; its parameters are "
        f"({', '.join(parameters_of(definitions[function]))})."
    )


def _explain_no_definition(path: str, definitions: Mapping[str, ast.stmt], dialects: Mapping[str, Dialect]) -> str:
    for name, dialect in dialects.items():
        evidence = call_dialect(dialect, Dialect.detect, path)
        if evidence is not None and not dialect.converts_from:
            return (
                f"{path}, line {evidence.line} ({evidence.text}): a module of the dialect {name} cannot be converted, "
                "and runs as it is: with `generic-trainer train`, or in a pipeline with the component Trainer of "
                "generic_trainer."
            )
    own = [name for name, node in definitions.items() if not isinstance(node, (ast.Import, ast.ImportFrom))]
    known = [name for dialect in dialects.values() for name in dialect.entry_points]
    near = next((hint for name in known if (hint := did_you_mean(name, own))), "")
    forms = " nor ".join(dialect.converts_from for dialect in dialects.values() if dialect.converts_from)
    hints = f"{near}{unmatched_hints(path, dialects)}"
    return (
        f"{path} has neither {forms}, so no run_fn can be generated.{hints} Set --function for a function with another "
        "name."
    )


def _make_run_fn(before: bytes, function: str, dialect: str) -> bytes:
    """Returns the bytes to append.

    They are preceded by two blank lines, use the file's line endings, and end with a newline only if the file does.
    """
    arguments = [f'"{dialect}"', "__name__", "fn_args"] + ([f'function="{function}"'] if function != dialect else [])
    text = _RUN_FN.format(function=function, arguments=", ".join(arguments)).lstrip("\n")
    ends = before[len(before.rstrip(b"\r\n")) :].count(b"\n")
    text = "\n" * max(3 - ends, 0) + (text if ends else text.rstrip("\n"))
    return _encoded(text, before)


def _start_of_code(content: bytes) -> int:
    """Returns the offset of the line after a module's docstring and `__future__` imports, or else of its first code."""
    tree = ast.parse(content)
    first = [
        one for one in tree.body if (ast.get_docstring(tree) is not None and one is tree.body[0]) or _is_future(one)
    ]
    if first:
        lines = int(first[-1].end_lineno or 0)
    else:
        lines = min((one.lineno for one in [tree.body[0], *getattr(tree.body[0], "decorator_list", ())]), default=1) - 1
    start = sum(len(line) for line in content.splitlines(keepends=True)[:lines])
    return start or len(codecs.BOM_UTF8) * content.startswith(codecs.BOM_UTF8)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _make_preparation(before: bytes, start: int, dialect: str) -> bytes:
    """Returns the bytes to insert at the start of the code, separated by blank lines from what is around them."""
    text = _PREPARE.format(dialect=dialect)
    above = before[:start].replace(b"\r", b"")
    is_below_code = bool(above.strip(codecs.BOM_UTF8)) and not above.endswith(b"\n\n")
    is_apart = before[start:].startswith((b"\n", b"\r\n"))
    return _encoded("\n" * is_below_code + text + "\n" * (not is_apart), before)


def _encoded(text: str, before: bytes) -> bytes:
    """Returns text with the line endings of a file."""
    is_crlf = before.count(b"\r\n") * 2 > before.count(b"\n")
    return text.replace("\n", "\r\n" if is_crlf else "\n").encode("ascii")


def _python_version() -> str:
    return ".".join(platform.python_version_tuple()[:2])
