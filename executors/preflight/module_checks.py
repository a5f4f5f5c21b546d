"""Which dialect a loaded module speaks, and whether its functions can be called as they will be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import ModuleType

from .. import dialects
from ..dialects import Dialect
from ..dialects.signatures import require_call, shown_signature
from ..fn_args import FnArgs
from .request import CheckRequest

# Functions that a pipeline's other steps call: (arguments, how it is written).
_OF_STEPS = {
    "preprocessing_fn": (1, "preprocessing_fn(inputs), or preprocessing_fn(inputs, custom_config)"),
    "stats_options_updater_fn": (2, "stats_options_updater_fn(stats_type, stats_options)"),
    "tuner_fn": (1, "tuner_fn(fn_args)"),
}


@dataclasses.dataclass(frozen=True)
class CheckedModule:
    """A loaded module whose functions can be called as its dialect calls them.

    Attributes:
      dialect: The dialect.
      run_fn: The module as a `run_fn`.
      signatures: Those that were looked at: "run_fn(fn_args), preprocessing_fn(inputs)"; or what the dialect needs.
      warnings: What is allowed, and probably not meant.
      steps: How many training steps a run does; None if it ends with its data or epochs.
    """

    dialect: Dialect
    run_fn: Callable[[FnArgs], object]
    signatures: str
    warnings: Sequence[str]
    steps: int | None


def dialect_of(module: ModuleType, request: CheckRequest) -> tuple[str, str]:
    """Returns the dialect's name, and why.

    Raises:
      TrainerError: When none fits, or several, or what was asked for is not installed.
    """
    return dialects.choose(module, request.function, request.options, dialects.installed())


def checked_module(
    dialect: str, module: ModuleType, request: CheckRequest, of_steps: Sequence[str] = ()
) -> CheckedModule:
    """Checks a module's functions.

    Args:
      dialect: The module's dialect.
      module: The training module.
      request: What is checked.
      of_steps: Functions of it that other steps of the pipeline call, such as `preprocessing_fn`.

    Raises:
      TrainerError: With file, function and the form that it has to have.
    """
    chosen = dialects.installed()[dialect]
    run_fn = chosen.run_fn(module, request.function, request.options)
    warnings = chosen.check(module, request.function, request.fn_args)
    require_step_functions(module, of_steps)
    steps = chosen.steps_requested(module, request.function, request.fn_args)
    return CheckedModule(chosen, run_fn, _signatures(chosen, module, request, of_steps), warnings, steps)


def require_step_functions(module: ModuleType, names: Sequence[str]) -> None:
    """Makes sure that the pipeline's steps can call a module's functions; one that it lacks is left out.

    Raises:
      ModuleError: With file, function and the form that it has to have.
    """
    for name in names:
        count, form = _OF_STEPS[name]
        function = getattr(module, name, None)
        if function is not None:
            require_call(module, name, function, count, form, optional=("custom_config",))


def _signatures(dialect: Dialect, module: ModuleType, request: CheckRequest, of_steps: Sequence[str]) -> str:
    names = [request.function] if request.function else list(dialect.functions)
    found = [name for name in (*names, *of_steps) if callable(getattr(module, name, None))]
    return ", ".join(f"{name}{shown_signature(getattr(module, name))}" for name in found) or dialect.needs
