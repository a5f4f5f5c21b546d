"""The code that a training depends on: a module's files without what only runs after it, such as the export.

At a call of `fit`, the stack shows which of the module's functions are running, and at which line each is. The
statements behind these lines have not run. They are left out, and so is every function, class and import of the files
that nothing else names. Comments and layout don't count either. A name that is only put together at run time is not
seen.

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
    """A statement at a file's top level, or one name of an import.

    Attributes:
      place: Its file's name, and its number there.
      name: What it defines; "" for what runs when the file is imported.
      node: Its syntax tree.
    """

    place: tuple[str, int]
    name: str
    node: ast.stmt

    def words(self) -> set[str]:
        """Returns what may name another part."""
        return set(_words(self.node))


class TrainingCode:
    """What a module has run up to a call, and may run again.

    Args:
      files: The module's source files.
      root: The folder that their names are relative to.
    """

    def __init__(self, files: Sequence[str], root: str) -> None:
        self._files = {os.path.realpath(file): os.path.relpath(file, root) for file in files}
        self._trees: dict[str, ast.Module] = {}
        self._entered: set[tuple[str, int]] = set()

    def digest(self) -> str:
        """Returns 16 hexadecimal digits over the code up to the call that is under way."""
        if not self._trees:
            for path in self._files:
                with open(path, "rb") as source:
                    self._trees[path] = ast.parse(source.read())
        digest = hashlib.sha256()
        for part in _reached(list(self._parts(self._lines()))):
            digest.update(f"{part.place[0]} {ast.dump(part.node)}\n".encode())
        return digest.hexdigest()[:16]

    def _lines(self) -> dict[tuple[str, int], int]:
        """Returns the line at which each function on the stack is, by the file and line where it begins.

        A function that an earlier call of `fit` was in may have run to its end since; only the outermost, which is
        entered once, has not.
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
                    yield _Part(place, "", _until(statement, here))
                elif isinstance(statement, _DEFINITIONS):
                    yield _Part(place, "" if statement.decorator_list else statement.name, statement)
                elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                    yield from (_Part(place, bound, one) for bound, one in _imports(statement))
                elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    yield _Part(place, "", statement)


def _reached(parts: list[_Part]) -> list[_Part]:
    """Returns the parts that run by themselves, and those that they name, one after the other."""
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
    """Yields the names that an import binds, each with an import of it alone; "" for a star."""
    for one in statement.names:
        if isinstance(statement, ast.Import):
            yield one.asname or one.name.partition(".")[0], ast.Import([one])
        else:
            bound = "" if one.name == "*" else one.asname or one.name
            yield bound, ast.ImportFrom(statement.module, [one], statement.level)


def _begin(tree: ast.Module, frame: FrameType) -> int | None:
    """Returns the line at which the function of a frame begins; None for a module's own frame, or a lambda's."""
    code, line = frame.f_code, frame.f_lineno
    around = [one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) and one.name == code.co_name]
    return max((one.lineno for one in around if one.lineno <= line <= (one.end_lineno or 0)), default=None)


def _until(statement: ast.stmt, lines: Mapping[int, int]) -> ast.stmt:
    """Returns a definition in which functions that are running end where they are; `lines` are by their begin."""
    if not isinstance(statement, _DEFINITIONS):
        return statement
    body = [_until(one, lines) for one in statement.body]
    if statement.lineno in lines and isinstance(statement, _FUNCTIONS):
        body = _block_until(body, lines[statement.lineno])
    return _with_body(statement, body)


def _block_until(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    """Returns a block's statements up to a line. A loop may come by its statements again and stays whole."""
    kept = [one for one in body if one.lineno <= line]
    if kept and isinstance(last := kept[-1], (ast.With, ast.If)) and last.body[0].lineno <= line:
        is_inside = line <= (last.body[-1].end_lineno or 0)
        kept[-1] = _with_body(last, _block_until(last.body, line)) if is_inside else last
    return kept


def _with_body(statement: ast.stmt, body: list[ast.stmt]) -> ast.stmt:
    fields = {**dict(ast.iter_fields(statement)), "body": body}
    return ast.copy_location(type(statement)(**fields), statement)
