"""Finds what a module provides an Estimator with, from its top-level definitions; the module is not executed.

found = definitions_in(ast.parse(text).body)
candidates(found)       # {"Estimators": ["wide", "deep"], "model functions": ["linear_model_fn"]}
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from ..signatures import parameters_of

BUILDER = "build_estimator"
MODEL_FN = "model_fn"
# In TensorFlow and the libraries for Estimators, the names of Estimator classes and of functions that return one.
_ESTIMATOR = re.compile(r"(Estimator|Classifier|Regressor|Ranker|KMeans|_to_estimator)['\"]?$")


def candidates(definitions: Mapping[str, ast.stmt]) -> dict[str, list[str]]:
    """Returns the names of Estimators, functions that return one, subclasses and model functions, by kind."""
    classes = [name for name, node in definitions.items() if is_estimator_class(node)]
    functions = list(dict.fromkeys([*factories(definitions), *({BUILDER} & definitions.keys())]))
    found = {
        "Estimators": [name for name, node in definitions.items() if _is_instance(node, [*classes, *functions])],
        "functions that return an Estimator": functions,
        "subclasses of Estimator": classes,
        "model functions": [name for name, node in definitions.items() if name == MODEL_FN or is_model_fn(node)],
    }
    return {kind: names for kind, names in found.items() if names}


def is_model_fn(statement: ast.stmt) -> bool:
    """Whether a statement defines a model function: its first two parameters are `features` and `labels`."""
    return parameters_of(statement)[:2] == ["features", "labels"]


def is_estimator_class(statement: ast.stmt) -> bool:
    """Whether a statement defines a subclass of an Estimator class."""
    return isinstance(statement, ast.ClassDef) and any(_names_estimator(base) for base in statement.bases)


def preferred(found: Mapping[str, list[str]], definitions: Mapping[str, ast.stmt]) -> list[str]:
    """Returns the entry points among the candidates; several if one has to be chosen.

    A candidate that occurs in the definition of another one is a part of it, such as the model function of an
    Estimator. Of the others, `model_fn` has precedence if there is no Estimator, and then `build_estimator`.

    Args:
      found: The candidates by kind, as from `candidates`.
      definitions: The module's definitions by name.
    """
    every = [name for names in found.values() for name in names]
    used = {one: _names_in(definitions[one]) - {one} for one in every if one in definitions}
    rest = [name for name in every if not any(name in names for names in used.values())]
    if MODEL_FN in rest and "Estimators" not in found:
        return [MODEL_FN]
    return [BUILDER] if BUILDER in rest else rest


def _names_in(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def factories(definitions: Mapping[str, ast.stmt]) -> list[str]:
    """Returns the functions that return an Estimator, according to their annotation or their `return` statements."""
    functions = {name: node for name, node in definitions.items() if isinstance(node, ast.FunctionDef)}
    classes = [name for name, node in definitions.items() if is_estimator_class(node)]
    found: list[str] = []
    while more := [n for n, node in functions.items() if n not in found and _returns(node, [*classes, *found])]:
        found += more  # others may return the results of these
    return [name for name in functions if name in found]


def _returns(function: ast.FunctionDef, known: Collection[str]) -> bool:
    if function.returns is not None:
        return _names_estimator(function.returns)
    own = list(_own_statements(function.body))
    created = {
        target.id
        for node in own
        if isinstance(node, ast.Assign) and _creates(node.value, known)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    returned = [node.value for node in own if isinstance(node, ast.Return)]
    return any(_creates(value, known) or (isinstance(value, ast.Name) and value.id in created) for value in returned)


def _own_statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yields the statements of a function, without those of functions and classes in it."""
    for node in body:
        yield node
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _own_statements(ast.iter_child_nodes(node))


def _is_instance(statement: ast.stmt, known: Collection[str]) -> bool:
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and _creates(statement.value, known)


def _creates(value: ast.expr | None, known: Collection[str]) -> bool:
    """Whether an expression calls an Estimator class, or one of the known functions and classes."""
    return isinstance(value, ast.Call) and (_names_estimator(value.func) or ast.unparse(value.func) in known)


def _names_estimator(expression: ast.expr) -> bool:
    return _ESTIMATOR.search(ast.unparse(expression)) is not None
