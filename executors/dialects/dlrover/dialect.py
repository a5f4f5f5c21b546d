"""The dialect of DLRover conf classes.

Detection cannot wait for the import: before the module's first line runs, the shims for DLRover's packages must be
installed, TensorFlow 2 behavior disabled as in DLRover's trainer, and `tf.estimator` restored.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from ...fn_args import FnArgs
from ...modules.import_shims import first_import
from ...modules.source import parsed
from ...options import TrainingOptions
from ..base import Dialect, Evidence, RunFn, limit_loop

_PACKAGES = ("dlrover",)
_CONF_ATTRIBUTES = ("train_set", "classifier_class")


class DLRoverDialect(Dialect):
    """Modules with a conf class. A requested `function` is the name of the class."""

    needs = "a class with classifier_class, train_set and eval_set, such as DLRover's TrainConf"
    converts_from = "a DLRover conf"
    keras = "2"
    no_scaffold = "its confs require Estimators, which TensorFlow removed in 2.16"

    def detect(self, path: str) -> Evidence | None:
        """Returns where a file imports DLRover or defines a conf class; both imply an Estimator and Keras 2."""
        found = find_dlrover_use(path)
        return Evidence(*found, keras="2", uses_estimators=True) if found else None

    def prepare(self, files: Sequence[str]) -> None:
        """Restores `tf.estimator`, installs the DLRover shims and disables TensorFlow 2 behavior, as DLRover did."""
        if any(find_dlrover_use(file) for file in files):
            from ...estimator import restore_estimator
            from .shim import provide_dlrover

            restore_estimator()
            provide_dlrover()

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if a module has a conf class, and neither `run_fn` nor `trainer_fn`."""
        from .conf import conf_classes

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
        from .conf import find_conf
        from .run import train

        conf, where = find_conf(module, function)
        return lambda fn_args: train(conf, fn_args, where)

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns the conf classes; or the requested class, which may inherit the required attributes."""
        from ..estimators.definitions import is_estimator_class

        classes = {
            name: node
            for name, node in definitions.items()
            if isinstance(node, ast.ClassDef) and not is_estimator_class(node)
        }
        if function is not None:
            return [function] if function in classes else []
        return [name for name, node in classes.items() if _is_conf(node)]

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks the conf's values; returns warnings about settings that nothing reads."""
        from .conf import find_conf, read_conf, unused_settings

        conf, where = find_conf(module, function)
        read_conf(conf, fn_args, where)
        return unused_settings(conf, where)

    def steps_requested(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> int | None:
        """Returns `max_steps` of the conf, which `fn_args.train_steps` overrides."""
        from .conf import find_conf, read_conf

        conf, where = find_conf(module, function)
        return read_conf(conf, fn_args, where).max_steps

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Limits the training loop and returns True; a trial does not use the conf's own model directory."""
        limit_loop(fn_args, steps)
        return True


def find_dlrover_use(path: str) -> tuple[int, str] | None:
    """Returns the line number and the code that identify a source file as one for DLRover, or None.

    Such a file imports DLRover, or defines a conf class.
    """
    if found := first_import(path, _PACKAGES):
        return found
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef) and _is_conf(node):
            return node.lineno, f"class {node.name} with {' and '.join(_CONF_ATTRIBUTES)}, as in DLRover"
    return None


def _is_conf(node: ast.ClassDef) -> bool:
    return set(_CONF_ATTRIBUTES) <= set(_assigned_names(node))


def _assigned_names(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
