"""Computes a digest of the code that training depends on, excluding code that only runs later, such as the export.

At a call of `fit`, the stack shows which of the module's functions are running, and the current line of each.
Statements after these lines have not run yet and are excluded, and so are the functions, classes and imports that no
included code names. Comments and formatting do not count either. Names that are only composed at run time are not
detected.

Usage:

    code = TrainingCode(source.files, source.roots[-1])
    code.digest()    # at a call of `fit`
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


@dataclasses.dataclass(frozen=True)
class _Part:
    """A top-level statement of a file, or one name of an import.

    Attributes:
      place: Its file's name, and its index in the file.
      name: The name that it defines; "" for code that runs when the file is imported.
      node: Its syntax tree.
    """

    place: tuple[str, int]
    name: str
    node: ast.stmt

    def words(self) -> set[str]:
        """Returns the names and strings in it, which may refer to other parts."""
        return set(_words(self.node))


class TrainingCode:
    """The code that a module has run up to a call, and may run again.

    Args:
      files: The module's source files.
      root: The folder that their names are relative to.
    """

    def __init__(self, files: Sequence[str], root: str) -> None:
        self._files = {os.path.realpath(file): os.path.relpath(file, root) for file in files}
        self._trees: dict[str, ast.Module] = {}
        self._entered: set[tuple[str, int]] = set()

    def digest(self) -> str:
        """Returns 16 hexadecimal digits of the SHA-256 of the code up to the current call."""
        if not self._trees:
            for path in self._files:
                with open(path, "rb") as source:
                    self._trees[path] = ast.parse(source.read())
        digest = hashlib.sha256()
        for part in _reachable(list(self._parts(self._lines()))):
            digest.update(f"{part.place[0]} {ast.dump(part.node)}\n".encode())
        return digest.hexdigest()[:16]

    def _lines(self) -> dict[tuple[str, int], int]:
        """Returns the current line of each function on the stack, keyed by file and first line of the function.

        A function that was on the stack at an earlier call of `fit` may have run to its end since, and is included
        completely, except the outermost one, which is entered only once.
        """
        running: list[tuple[tuple[str, int], int]] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            path = os.path.realpath(frame.f_code.co_filename)
            if path in self._trees and (begin := _begin(self._trees[path], frame)):
                running.append(((path, begin), frame.f_lineno))
            frame = frame.f_back
        lines: dict[tuple[str, int], int] = {}
        for function, line in running[:-1]:
            lines[function] = sys.maxsize if function in self._entered or function in lines else line
        self._entered |= lines.keys()
        for function, line in running[-1:]:
            lines[function] = sys.maxsize if function in lines else line
        return lines

    def _parts(self, lines: Mapping[tuple[str, int], int]) -> Iterator[_Part]:
        for path, name in sorted(self._files.items(), key=lambda item: item[1]):
            here = {begin: line for (file, begin), line in lines.items() if file == path}
            for number, statement in enumerate(self._trees[path].body):
                place = (name, number)
                is_running = any(isinstance(one, _FUNCTIONS) and one.lineno in here for one in ast.walk(statement))
                if is_running:
                    yield _Part(place, "", _executed_part(statement, here))
                elif isinstance(statement, _DEFINITIONS):
                    yield _Part(place, "" if statement.decorator_list else statement.name, statement)
                elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                    yield from (_Part(place, bound, one) for bound, one in _imports(statement))
                elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    yield _Part(place, "", statement)


def _reachable(parts: list[_Part]) -> list[_Part]:
    """Returns the parts that run at import, and those that they name directly or indirectly."""
    reached = [part for part in parts if not part.name]
    waiting = [part for part in parts if part.name]
    known = {word for part in reached for word in part.words()}
    while found := [part for part in waiting if part.name in known]:
        reached += found
        waiting = [part for part in waiting if part.name not in known]
        known |= {word for part in found for word in part.words()}
    return sorted(reached, key=lambda part: (part.place, part.name))


def _words(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr
        elif isinstance(one, ast.alias):
            yield from one.name.split(".")
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def _imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, ast.stmt]]:
    """Yields the names that an import binds, each with an import statement of only that name; "" for a star."""
    for one in statement.names:
        if isinstance(statement, ast.Import):
            yield one.asname or one.name.partition(".")[0], ast.Import([one])
        else:
            bound = "" if one.name == "*" else one.asname or one.name
            yield bound, ast.ImportFrom(statement.module, [one], statement.level)


def _begin(tree: ast.Module, frame: FrameType) -> int | None:
    """Returns the first line of a frame's function; None for module level code and lambdas."""
    code, line = frame.f_code, frame.f_lineno
    around = [one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) and one.name == code.co_name]
    return max((one.lineno for one in around if one.lineno <= line <= (one.end_lineno or 0)), default=None)


def _executed_part(statement: ast.stmt, lines: Mapping[int, int]) -> ast.stmt:
    """Truncates the running functions of a definition at their current lines; `lines` maps first to current line."""
    if not isinstance(statement, _DEFINITIONS):
        return statement
    body = [_executed_part(one, lines) for one in statement.body]
    if statement.lineno in lines and isinstance(statement, _FUNCTIONS):
        body = _executed_statements(body, lines[statement.lineno])
    return _with_body(statement, body)


def _executed_statements(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    """Returns a block's statements up to a line. Loops are kept whole, as they may repeat their statements."""
    kept = [one for one in body if one.lineno <= line]
    if kept and isinstance(last := kept[-1], (ast.With, ast.If)) and last.body[0].lineno <= line:
        is_inside = line <= (last.body[-1].end_lineno or 0)
        kept[-1] = _with_body(last, _executed_statements(last.body, line)) if is_inside else last
    return kept


def _with_body(statement: ast.stmt, body: list[ast.stmt]) -> ast.stmt:
    fields = {**dict(ast.iter_fields(statement)), "body": body}
    return ast.copy_location(type(statement)(**fields), statement)
