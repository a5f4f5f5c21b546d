"""Environment variables that a module sets at its top, such as KERAS_BACKEND and TF_XLA_FLAGS, read from its source.

TensorFlow and Keras read theirs when they are imported. Under plain `python` that is after the module's first lines,
but a worker has imported both before it imports the module. Its process therefore gets these variables at its start.
`late_variables.py` finds those that the source does not show.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ..runtime.process.run_environment import inherited_environment
from .source import parsed

_ENVIRONMENTS = ("os.environ", "environ")
# Programs read them when they start, so under plain `python` a module's assignment has no effect on its process.
_READ_BEFORE_PYTHON = ("LD_", "PYTHON")
# Workers get their own values, and read them only after the module's import.
_OF_WORKERS = ("GENERIC_TRAINER_", "TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "TMPDIR")


def variables_set_in(files: Sequence[str]) -> dict[str, str]:
    """Returns the environment variables that source files set to constants at their top level, outside of conditions.

    A `setdefault` does not replace a value that the environment has.
    """
    values: dict[str, str] = {}
    for file in files:
        for statement in parsed(file).body:
            values |= _constants(statement, {**inherited_environment(), **values})
    return {name: value for name, value in values.items() if is_read_early(name)}


def is_read_early(name: str) -> bool:
    """Whether a variable may have an effect when a package is imported, and so belongs to the start of a process."""
    return not name.startswith((*_READ_BEFORE_PYTHON, *_OF_WORKERS))


def _constants(statement: ast.stmt, present: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a statement sets to constants, in an environment with the variables `present`."""
    pairs = [
        (name.value, value.value, replaces)
        for name, value, replaces in _assignments(statement)
        if isinstance(name, ast.Constant) and isinstance(value, ast.Constant)
    ]
    return {
        name: value
        for name, value, replaces in pairs
        if isinstance(name, str) and isinstance(value, str) and (replaces or name not in present)
    }


def _assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr | None, ast.expr, bool]]:
    """Yields (name, value, whether it replaces another value) for each variable that a statement sets."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript) and ast.unparse(target.value) in _ENVIRONMENTS:
                yield target.slice, statement.value, True
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if owner in _ENVIRONMENTS and method == "update":
            yield from _updates(call)
        elif owner in _ENVIRONMENTS and method == "setdefault" and len(call.args) == 2:
            yield call.args[0], call.args[1], False


def _updates(call: ast.Call) -> Iterator[tuple[ast.expr | None, ast.expr, bool]]:
    for keyword in call.keywords:
        yield ast.Constant(keyword.arg), keyword.value, True
    for argument in call.args:
        if isinstance(argument, ast.Dict):
            for name, value in zip(argument.keys, argument.values, strict=True):
                yield name, value, True
