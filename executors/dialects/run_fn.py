"""The dialect of current TFX modules: a function `run_fn(fn_args)` that trains a model and exports it."""

from __future__ import annotations

import inspect
from types import ModuleType

from ..errors import ModuleError
from ..options import TrainingOptions
from .base import Dialect, RunFn


class RunFnDialect(Dialect):
    """Modules with `run_fn(fn_args)`, or with a function of another name that takes fn_args."""

    needs = "a function run_fn(fn_args), or the name of another function that takes fn_args"
    entry_points = ("run_fn",)
    functions = ("run_fn",)
    no_scaffold = ""
    eval_remedies = (
        "Pass validation_data to fit, or return them from run_fn, such as {'val_loss': 0.3}.",
        "Return them from run_fn, such as {'val_loss': 0.3}, or write them to fn_args.model_run_dir with "
        "tf.summary.scalar('eval/loss', …).",
    )

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if the module defines the requested function, or `run_fn` if none was requested."""
        name = function or "run_fn"
        if not callable(getattr(module, name, None)):
            return ""
        return f"it defines {name}" if function is None else f"the function {name} was requested"

    def yields(self, function: str | None) -> bool:
        """Whether a function was requested; it may be a renamed `trainer_fn` or `model_fn` of another dialect."""
        return function is not None

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns the module's function.

        Raises:
          ModuleError: When it is missing, or cannot be called with one positional argument.
        """
        from .signatures import function_in

        name = function or "run_fn"
        candidate = function_in(module, name, self.needs)
        try:
            inspect.signature(candidate).bind(object())
        except TypeError as error:
            line = inspect.unwrap(candidate).__code__.co_firstlineno if inspect.isfunction(candidate) else "?"
            raise ModuleError(
                f"{module.__file__}, line {line}: {name}{inspect.signature(candidate)} cannot be called "
                f"with fn_args alone ({error}). Write it as def {name}(fn_args)."
            ) from None
        except ValueError:
            pass  # callables implemented in C may have no signature
        run: RunFn = candidate
        return run
