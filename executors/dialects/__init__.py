"""Training-module dialects: how a module was written decides how it becomes `run_fn(fn_args)`.

A dialect is a Python module (or any object) with two functions and a sentence:

    NEEDS = "a function run_fn(fn_args)"          # shown when no dialect fits
    def matches(module, function) -> str: ...     # the evidence, or "" for none
    def run_fn(module, function, options) -> Callable[[FnArgs], object]: ...

It registers under the entry-point group `generic_trainer.dialects`, as the ones in here do, so a third
party adds one without touching this package:

    [options.entry_points]
    generic_trainer.dialects =
        my_dialect = my_package.my_dialect

`function` is the name that the user asked for (`module.function`, or the `run_fn` parameter), or None.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol

from ..errors import InputError, ModuleError, did_you_mean
from ..fn_args import FnArgs
from ..options import TrainingOptions
from .signatures import require_plain_call

GROUP = "generic_trainer.dialects"
RunFn = Callable[[FnArgs], object]


class Dialect(Protocol):
    """What an entry point of the group `generic_trainer.dialects` resolves to."""

    NEEDS: str

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns what in the module speaks for this dialect, or "" when nothing does."""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns the function that trains and writes the model."""


def installed() -> dict[str, Dialect]:
    """Returns the dialects of all installed packages by name."""
    return {entry.name: entry.load() for entry in importlib.metadata.entry_points(group=GROUP)}


def choose(
    module: ModuleType, function: str | None, options: TrainingOptions, dialects: Mapping[str, Dialect]
) -> tuple[str, str, RunFn]:
    """Finds the dialect that a module speaks.

    Returns:
      The dialect's name, why it was chosen, and the module as a `run_fn`.

    Raises:
      InputError: When `options.dialect` names no installed dialect.
      ModuleError: When no dialect fits, or more than one.
    """
    if options.dialect != "auto":
        _require_installed(options.dialect, dialects)
        evidence = {options.dialect: f"dialect={options.dialect!r} was asked for"}
    else:
        found = {name: dialect.matches(module, function) for name, dialect in dialects.items()}
        evidence = {name: reason for name, reason in found.items() if reason}
    if len(evidence) != 1:
        raise ModuleError(_explain(module, function, evidence, dialects))
    [(name, reason)] = evidence.items()
    return name, reason, dialects[name].run_fn(module, function, options)


def run_as(dialect: str, module: ModuleType | str, fn_args: FnArgs, function: str | None = None) -> object:
    """Trains a module as a dialect does it: for a `run_fn` in a module that is written in another dialect.

        def run_fn(fn_args):
            from generic_trainer import run_as

            return run_as("trainer_fn", __name__, fn_args)

    `generic-trainer convert` adds these lines.

    Args:
      dialect: The name of an installed dialect.
      module: The module or its `__name__`.
      fn_args: What the module's `run_fn` was given.
      function: The function that the dialect is to use, if it has another name than the dialect's.

    Returns:
      The metrics that the training returns.

    Raises:
      InputError: When there is no such dialect.
      ModuleError: When the module lacks what the dialect needs.
    """
    dialects = installed()
    _require_installed(dialect, dialects)
    found = sys.modules[module] if isinstance(module, str) else module
    return dialects[dialect].run_fn(found, function, TrainingOptions())(fn_args)


def function_in(module: ModuleType, name: str, needs: str) -> Callable[..., Any]:
    """Returns a module's function by name, for the dialects.

    Raises:
      ModuleError: When it is missing; it says what the dialect needs.
    """
    function = getattr(module, name, None)
    if not callable(function):
        raise ModuleError(f"Training module {module.__file__} has no function {name!r}; the dialect needs {needs}.")
    require_plain_call(function, f"{module.__file__}: {name}")
    found: Callable[..., Any] = function
    return found


def _require_installed(name: str, dialects: Mapping[str, Dialect]) -> None:
    if name not in dialects:
        known = ", ".join(sorted(dialects))
        raise InputError(f"dialect={name!r} is not installed; there are auto, {known}.{did_you_mean(name, dialects)}")


def _explain(
    module: ModuleType, function: str | None, evidence: Mapping[str, str], dialects: Mapping[str, Dialect]
) -> str:
    where = f"Training module {module.__file__}"
    if evidence:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in sorted(evidence.items()))
        return f"{where} fits more than one dialect: {reasons}. Choose with the option dialect."
    own = sorted(name for name, value in vars(module).items() if callable(value) and not name.startswith("__"))
    entry_points = function or "run_fn"
    near = did_you_mean(entry_points, own) or next(
        (
            f" Did you mean {name!r} to be {match[0]!r}?"
            for name in own
            if (match := difflib.get_close_matches(name, _entry_points(dialects), n=1))
        ),
        "",
    )
    needs = "; ".join(f"{name} needs {dialect.NEEDS}" for name, dialect in sorted(dialects.items()))
    asked = f"no function {function!r}" if function else "no entry point of a known dialect"
    return f"{where} has {asked}.{near} It defines {', '.join(own) or 'nothing callable'}. {needs}."


def _entry_points(dialects: Mapping[str, Dialect]) -> list[str]:
    """Returns the function names that the dialects' NEEDS sentences mention."""
    words = " ".join(dialect.NEEDS for dialect in dialects.values()).replace("(", " ").replace(",", " ")
    return [word for word in words.split() if word.endswith("_fn")]
