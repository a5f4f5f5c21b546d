"""Checks the signatures of a loaded module's functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import ModuleType

from ..dialects import Dialect
from ..dialects.signatures import require_call, shown_signature
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
      signatures: Checked signatures: "run_fn(fn_args), preprocessing_fn(inputs)"; or the dialect's requirements.
      warnings: Valid usage that is probably a mistake.
      steps: Number of training steps of a run; None if data or epochs limit it.
    """

    signatures: str
    warnings: Sequence[str]
    steps: int | None


def checked_module(dialect: Dialect, module: ModuleType, request: CheckRequest) -> CheckedModule:
    """Checks a module's functions, also those that other components of the pipeline call.

    Raises:
      TrainerError: With file, function and expected form, if a signature does not match.
    """
    warnings = dialect.check(module, request.function, request.fn_args)
    step_functions = request.modules.functions_called(request.modules.trainer) if request.modules else []
    require_step_functions(module, step_functions)
    names = [*([request.function] if request.function else dialect.functions), *step_functions]
    functions = [(name, getattr(module, name, None)) for name in names]
    shown = ", ".join(f"{name}{shown_signature(function)}" for name, function in functions if callable(function))
    steps = dialect.steps_requested(module, request.function, request.fn_args)
    return CheckedModule(shown or dialect.needs, warnings, steps)


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
