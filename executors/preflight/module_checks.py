"""Chooses the dialect of a loaded module, and checks the signatures of its functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import ModuleType

from ..dialects import Dialect, adapters
from ..dialects.selection import choose
from ..dialects.signatures import require_call, shown_signature
from ..fn_args import FnArgs
from .request import CheckRequest

# Functions that other components of a pipeline call: (number of arguments, expected form).
_STEP_FUNCTIONS = {
    "preprocessing_fn": (1, "preprocessing_fn(inputs), or preprocessing_fn(inputs, custom_config)"),
    "stats_options_updater_fn": (2, "stats_options_updater_fn(stats_type, stats_options)"),
    "tuner_fn": (1, "tuner_fn(fn_args)"),
}


@dataclasses.dataclass(frozen=True)
class CheckedModule:
    """A loaded module whose functions have the signatures that its dialect requires.

    Attributes:
      dialect: The dialect.
      run_fn: Function that trains the module, with the interface of TFX's `run_fn`.
      signatures: Checked signatures: "run_fn(fn_args), preprocessing_fn(inputs)"; or the dialect's requirements.
      warnings: Valid usage that is probably a mistake.
      steps: Number of training steps of a run; None if data or epochs limit it.
    """

    dialect: Dialect
    run_fn: Callable[[FnArgs], object]
    signatures: str
    warnings: Sequence[str]
    steps: int | None


def dialect_of(module: ModuleType, request: CheckRequest) -> tuple[str, str]:
    """Returns the dialect's name, and the reason for the choice.

    Raises:
      TrainerError: If no dialect or several match, or the requested one is not installed.
    """
    return choose(module, request.function, request.options, adapters())


def checked_module(
    dialect: str, module: ModuleType, request: CheckRequest, step_functions: Sequence[str] = ()
) -> CheckedModule:
    """Checks a module's functions.

    Args:
      dialect: The module's dialect.
      module: The training module.
      request: The run to check.
      step_functions: Names of functions in it that other components of the pipeline call, such as `preprocessing_fn`.

    Raises:
      TrainerError: With file, function and expected form, if a signature does not match.
    """
    chosen = adapters()[dialect]
    run_fn = chosen.run_fn(module, request.function, request.options)
    warnings = chosen.check(module, request.function, request.fn_args)
    require_step_functions(module, step_functions)
    steps = chosen.steps_requested(module, request.function, request.fn_args)
    return CheckedModule(chosen, run_fn, _signatures(chosen, module, request, step_functions), warnings, steps)


def require_step_functions(module: ModuleType, names: Sequence[str]) -> None:
    """Checks that a pipeline's components can call a module's functions; skips those that it does not define.

    Raises:
      ModuleError: With file, function and expected form, if a signature does not match.
    """
    for name in names:
        count, form = _STEP_FUNCTIONS[name]
        function = getattr(module, name, None)
        if function is not None:
            require_call(module, name, function, count, form, optional=("custom_config",))


def _signatures(dialect: Dialect, module: ModuleType, request: CheckRequest, step_functions: Sequence[str]) -> str:
    names = [request.function] if request.function else list(dialect.functions)
    found = [name for name in (*names, *step_functions) if callable(getattr(module, name, None))]
    return ", ".join(f"{name}{shown_signature(getattr(module, name))}" for name in found) or dialect.needs
