"""The registry of installed dialects, and dialect selection for a module."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Literal, Protocol, overload

from absl import logging

from .. import plugins
from ..errors import InputError, ModuleError, did_you_mean
from ..modules.defined_names import is_never_imported
from ..modules.source import parsed
from ..options import TrainingOptions
from ..spelling import nearest
from .base import Dialect, Evidence, ImportWatch, RunFn

GROUP = "generic_trainer.dialects"


class DialectFunctions(Protocol):
    """The interface of release 0.1 dialects, which are modules or arbitrary objects instead of `Dialect` subclasses."""

    NEEDS: str

    def matches(self, module: ModuleType, function: str | None) -> str:
        """See `Dialect.matches`."""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """See `Dialect.run_fn`."""


class FunctionsDialect(Dialect):
    """Adapter for release 0.1 dialects: a module, or any object, with NEEDS, `matches` and `run_fn`."""

    def __init__(self, functions: DialectFunctions) -> None:
        self._functions = functions
        self.needs = functions.NEEDS  # type: ignore[misc]
        words = functions.NEEDS.replace("(", " ").replace(",", " ").split()
        self.entry_points = tuple(word for word in words if word.endswith("_fn"))  # type: ignore[misc]

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Calls `matches` of the wrapped object."""
        found: str = self._functions.matches(module, function)
        return found

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Calls `run_fn` of the wrapped object."""
        run: RunFn = self._functions.run_fn(module, function, options)
        return run


class BrokenDialect(Dialect):
    """Placeholder for a dialect whose package cannot be imported. It matches no module; its `run_fn` raises."""

    def __init__(self, entry: importlib.metadata.EntryPoint, error: BaseException) -> None:
        package = f"the package {entry.dist.name}" if entry.dist else entry.value
        self._problem = f"{entry.value} of {package} cannot be imported ({type(error).__name__}: {error})"
        self.needs = f"its own package, but {self._problem}"  # type: ignore[misc]
        self.no_scaffold = self._problem  # type: ignore[misc]
        logging.warning("Skipping the dialect %s: %s.", entry.name, self._problem)

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns "", since the dialect matches no module."""
        return ""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Raises an InputError with the import failure."""
        raise InputError(f"dialect={options.dialect!r}: {self._problem}. Reinstall that package, or remove it.")


def installed() -> dict[str, Dialect]:
    """Returns the dialects of all installed packages by name; a `BrokenDialect` for one that cannot be imported."""
    return {entry.name: _load(entry) for entry in plugins.entries(GROUP)}


def functions_that_read_examples() -> list[str]:
    """Returns the entry-point functions of the dialects that parse tf.Examples with the run's schema."""
    return [name for dialect in installed().values() if dialect.reads_examples for name in dialect.entry_points]


@functools.cache  # so that the warning for a broken dialect is logged once
def _load(entry: importlib.metadata.EntryPoint) -> Dialect:
    try:
        found = entry.load()
        if isinstance(found, type) and issubclass(found, Dialect):
            return found()
        return found if isinstance(found, Dialect) else FunctionsDialect(found)
    except Exception as error:  # a broken third-party dialect must not fail every run
        return BrokenDialect(entry, error)


@overload
def call_dialect(dialect: Dialect, method: Literal["detect"], path: str, /) -> Evidence | None: ...


@overload
def call_dialect(dialect: Dialect, method: Literal["prepare"], files: Sequence[str], /) -> None: ...


@overload
def call_dialect(
    dialect: Dialect, method: Literal["importing"], /
) -> contextlib.AbstractContextManager[ImportWatch | None]: ...


@overload
def call_dialect(dialect: Dialect, method: Literal["matches"], module: ModuleType, function: str | None, /) -> str: ...


@overload
def call_dialect(
    dialect: Dialect, method: Literal["convertible"], definitions: Mapping[str, ast.stmt], function: str | None, /
) -> list[str]: ...


@overload
def call_dialect(dialect: Dialect, method: Literal["lacks"], definitions: Mapping[str, ast.stmt], /) -> list[str]: ...


def call_dialect(dialect: Dialect, method: str, *arguments: object) -> object:
    """Calls `detect`, `prepare`, `importing`, `matches`, `convertible` or `lacks` of a dialect and contains its errors.

    These methods are called for modules of every dialect. An exception in a dialect of another package is therefore
    logged once per dialect, method and message, and does not fail the module. An exception in a built-in dialect is
    re-raised.

    Args:
      dialect: The dialect to call.
      method: The method's name.
      *arguments: The method's positional arguments.

    Returns:
      The method's result. After an exception: the result of the default method of `Dialect`, or "" for `matches`.
    """
    try:
        return getattr(dialect, method)(*arguments)
    except Exception as error:
        is_own = type(dialect).__module__.partition(".")[0] == __name__.partition(".")[0]
        if is_own and not isinstance(dialect, FunctionsDialect):
            raise
        _warn_of_failure(dialect, method, f"{type(error).__name__}: {error}")
        return "" if method == "matches" else getattr(Dialect, method)(dialect, *arguments)


@functools.cache  # log once for each dialect, method and failure
def _warn_of_failure(dialect: Dialect, method: str, failure: str) -> None:
    name = next((name for name, one in installed().items() if one is dialect), type(dialect).__name__)
    logging.warning(
        "The dialect %s of another package failed in %s (%s); it is skipped for this module.",
        name, method, failure,
    )  # fmt: skip


def choose(
    module: ModuleType, function: str | None, options: TrainingOptions, dialects: Mapping[str, Dialect]
) -> tuple[str, str]:
    """Selects the dialect of an imported module.

    An explicit `options.dialect` is used without checking the module. With "auto", dialects whose `yields` is true are
    considered only if no other dialect matches.

    Returns:
      The dialect's name, and the reason for the choice.

    Raises:
      InputError: When `options.dialect` is not the name of an installed dialect.
      ModuleError: When no dialect matches, or more than one.
    """
    if options.dialect != "auto":
        require_installed(options.dialect, dialects)
        return options.dialect, f"dialect={options.dialect!r} was requested"
    found = {name: call_dialect(dialect, "matches", module, function) for name, dialect in dialects.items()}
    evidence = {name: reason for name, reason in found.items() if reason}
    first = {name: reason for name, reason in evidence.items() if not dialects[name].yields(function)} or evidence
    if len(first) != 1:
        raise ModuleError(_explain_no_match(module, function, first, dialects))
    [choice] = first.items()
    return choice


def require_installed(name: str, dialects: Mapping[str, Dialect]) -> None:
    """Raises an InputError if a dialect is not installed."""
    if name not in dialects:
        known = ", ".join(sorted(dialects))
        raise InputError(f"dialect={name!r} is not installed; there are auto, {known}.{did_you_mean(name, dialects)}")


def _explain_no_match(
    module: ModuleType, function: str | None, evidence: Mapping[str, str], dialects: Mapping[str, Dialect]
) -> str:
    where = f"Training module {module.__file__}"
    if evidence:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in sorted(evidence.items()))
        return f"{where} matches more than one dialect: {reasons}. Choose one with the option dialect."
    own = sorted(name for name, value in vars(module).items() if callable(value) and not name.startswith("__"))
    hint = did_you_mean(function or "run_fn", own) or _misspelled(own, dialects)
    needs = "; ".join(f"{name} needs {dialect.needs}" for name, dialect in sorted(dialects.items()))
    hint += script_hint(str(module.__file__))
    problem = f"no function {function!r}" if function else "no entry point of a known dialect"
    return f"{where} has {problem}.{hint} It defines {', '.join(own) or 'no functions or classes'}. {needs}."


def script_hint(path: str) -> str:
    """Returns which command runs a file's code for scripts; "" if it has none."""
    statements = parsed(path).body if os.path.exists(path) else []
    if not any("__name__" in ast.unparse(node.test) for node in statements if is_never_imported(node)):
        return ""
    return " Its code under if __name__ == '__main__' does not run here; `generic-trainer script` runs it."


def _misspelled(own: Sequence[str], dialects: Mapping[str, Dialect]) -> str:
    known = [name for dialect in dialects.values() for name in dialect.entry_points]
    matches = ((name, nearest(name, known)) for name in own if name not in known)
    return next((f" Did you mean {name!r} to be {match!r}?" for name, match in matches if match), "")
