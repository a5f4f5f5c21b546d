"""The registry of installed dialects, and calls of methods that must not fail for a dialect of another package."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from absl import logging

from .. import plugins
from ..errors import InputError, did_you_mean
from ..options import TrainingOptions
from .base import Dialect, RunFn

P = ParamSpec("P")
T = TypeVar("T")
GROUP = "generic_trainer.dialects"
ADAPTERS = "generic_trainer.dialect_adapters"  # subclasses of dialects, under the same names


class FunctionsDialect(Dialect):
    """Adapter for release 0.1 dialects: a module, or any object, with NEEDS, `matches` and `run_fn`."""

    def __init__(self, functions: Any) -> None:
        self.needs = functions.NEEDS  # type: ignore[misc]
        words = self.needs.replace("(", " ").replace(",", " ").split()
        self.entry_points = tuple(word for word in words if word.endswith("_fn"))  # type: ignore[misc]
        self.matches, self.run_fn = functions.matches, functions.run_fn  # type: ignore[method-assign]


class BrokenDialect(Dialect):
    """Placeholder for a dialect whose package cannot be imported. It matches no module; its `run_fn` raises."""

    def __init__(self, entry: importlib.metadata.EntryPoint, error: BaseException) -> None:
        self._problem = (
            f"{entry.value} of {plugins.package_of(entry)} cannot be imported ({type(error).__name__}: {error})"
        )
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
    """Returns the dialects of all installed packages by name; a `BrokenDialect` for one that cannot be imported.

    Of those with an adapter, only what `Dialect` names for the process that calls `train` is defined.
    """
    return {entry.name: _load(entry) for entry in plugins.entries(GROUP)}


def adapters() -> dict[str, Dialect]:
    """Returns the dialects with all of their methods."""
    return installed() | {entry.name: _load(entry) for entry in plugins.entries(ADAPTERS)}


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


def call_dialect(
    dialect: Dialect, method: Callable[Concatenate[Dialect, P], T], *arguments: P.args, **keywords: P.kwargs
) -> T:
    """Calls `detect`, `prepare`, `matches`, `convertible` or `lacks` of a dialect and contains its errors.

    These methods are called for modules of every dialect, as `importing` is. An exception in a dialect of another
    package is therefore logged once per dialect, method and message, and does not fail the module. An exception in a
    built-in dialect is re-raised.

    Args:
      dialect: The dialect to call.
      method: The method, as `Dialect` defines it.
      *arguments: Its arguments.
      **keywords: Its keywords.

    Returns:
      The method's result. After an exception: the result of the default method of `Dialect`, or "" for `matches`.
    """
    name = method.__name__
    try:
        return cast("T", getattr(dialect, name)(*arguments, **keywords))
    except Exception as error:
        if not _is_contained(dialect, name, error):
            raise
    return cast("T", "") if name == "matches" else method(dialect, *arguments, **keywords)


@contextlib.contextmanager
def importing(dialect: Dialect) -> Iterator[None]:
    """Surrounds a block with `importing` of a dialect, and contains its errors; those of the block pass unchanged."""
    context = contextlib.ExitStack()
    try:
        context.enter_context(dialect.importing())
    except Exception as error:
        if not _is_contained(dialect, "importing", error):
            raise
    try:
        yield
    finally:
        raised = sys.exc_info()
        try:
            context.__exit__(*raised)
        except Exception as error:
            if not _is_contained(dialect, "importing", error):
                raise


def _is_contained(dialect: Dialect, method: str, error: Exception) -> bool:
    """Logs an exception in a dialect of another package; returns False for one in a built-in dialect."""
    is_own = type(dialect).__module__.partition(".")[0] == __name__.partition(".")[0]
    if is_own and not isinstance(dialect, FunctionsDialect):
        return False
    _warn_of_failure(dialect, method, f"{type(error).__name__}: {error}")
    return True


@functools.cache  # log once for each dialect, method and failure
def _warn_of_failure(dialect: Dialect, method: str, failure: str) -> None:
    name = next((name for name, known in adapters().items() if known is dialect), type(dialect).__name__)
    logging.warning(
        "The dialect %s of another package failed in %s (%s); it is skipped for this module.",
        name, method, failure,
    )  # fmt: skip


def require_installed(name: str, dialects: Mapping[str, Dialect]) -> None:
    """Raises an InputError if a dialect is not installed."""
    if name not in dialects:
        known = ", ".join(sorted(dialects))
        raise InputError(f"dialect={name!r} is not installed; there are auto, {known}.{did_you_mean(name, dialects)}")
