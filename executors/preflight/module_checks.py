"""Checks the signatures of a loaded module's functions."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from ..dialects import Dialect
from ..dialects.signatures import require_call, shown_signature
from .request import CheckRequest
from .verdicts import PASSED, WARNING, Verdict

# Functions that other components of a pipeline call: (number of arguments, expected form).
_STEP_FUNCTIONS = {
    "preprocessing_fn": (1, "preprocessing_fn(inputs), or preprocessing_fn(inputs, custom_config)"),
    "stats_options_updater_fn": (2, "stats_options_updater_fn(stats_type, stats_options)"),
    "tuner_fn": (1, "tuner_fn(fn_args)"),
}


def signatures_verdict(dialect: Dialect, module: ModuleType, request: CheckRequest) -> Verdict:
    """Returns the verdict on a module's functions, also on those that other components of the pipeline call.

    Raises:
      TrainerError: With file, function and expected form, if a signature does not match.
    """
    warnings = dialect.check(module, request.function, request.fn_args)
    step_functions = request.modules.functions_called(request.modules.trainer) if request.modules else []
    require_step_functions(module, step_functions)
    if warnings:
        return Verdict("signatures", WARNING, " ".join(warnings))
    names = [*([request.function] if request.function else dialect.functions), *step_functions]
    functions = [(name, getattr(module, name, None)) for name in names]
    shown = ", ".join(f"{name}{shown_signature(function)}" for name, function in functions if callable(function))
    return Verdict("signatures", PASSED, shown or dialect.needs)


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
