"""Adapts conf classes to `run_fn(fn_args)`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import ModuleType

from ...estimator import restore_estimator
from ...fn_args import FnArgs
from ...options import TrainingOptions
from ..base import RunFn
from ..estimators.definitions import is_estimator_class
from ..loop_limits import limit_loop
from .conf import conf_classes, find_conf, read_conf, unused_settings
from .detection import find_dlrover_use, is_conf
from .dialect import DLRoverDialect
from .shim import provide_dlrover


class DLRoverAdapter(DLRoverDialect):
    """Modules with a conf class. A requested `function` is the name of the class."""

    converts_from = "a DLRover conf"

    def prepare(self, files: Sequence[str]) -> None:
        """Restores `tf.estimator`, installs the DLRover shims and disables TensorFlow 2 behavior, as DLRover did."""
        if any(find_dlrover_use(file) for file in files):
            restore_estimator()
            provide_dlrover()

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if a module has a conf class, and neither `run_fn` nor `trainer_fn`."""
        names = conf_classes(module)
        if function is not None:
            return f"{function} is a conf class" if function in names else ""
        if any(callable(getattr(module, name, None)) for name in ("run_fn", "trainer_fn")):
            return ""  # an added entry point takes precedence
        return f"it contains the conf {', '.join(names)}" if names else ""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that builds the Estimator, trains and exports it.

        Raises:
          ModuleError: When there is no conf class, or several and none was requested.
        """
        from .run import train  # imports TensorFlow

        conf, where = find_conf(module, function)
        return lambda fn_args: train(conf, fn_args, where)

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns the conf classes; or the requested class, which may inherit the required attributes."""
        classes = {
            name: node
            for name, node in definitions.items()
            if isinstance(node, ast.ClassDef) and not is_estimator_class(node)
        }
        if function is not None:
            return [function] if function in classes else []
        return [name for name, node in classes.items() if is_conf(node)]

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks the conf's values; returns warnings about settings that nothing reads."""
        conf, where = find_conf(module, function)
        read_conf(conf, fn_args, where)
        return unused_settings(conf, where)

    def steps_requested(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> int | None:
        """Returns `max_steps` of the conf, which `fn_args.train_steps` overrides."""
        conf, where = find_conf(module, function)
        return read_conf(conf, fn_args, where).max_steps

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Limits the training loop and returns True; a trial does not use the conf's own model directory."""
        limit_loop(fn_args, steps)
        return True
