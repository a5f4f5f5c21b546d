"""The base class of dialects: how a training module is written, and how it becomes a `run_fn`."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import ClassVar

from ..errors import ModuleError
from ..fn_args import FnArgs
from ..options import TrainingOptions
from .signatures import require_plain_call

RunFn = Callable[[FnArgs], object]


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What in a source file shows, before the file is imported, that it is written in a dialect.

    Attributes:
      line: The line number, from 1.
      text: What stands there, such as "import elasticdl".
      keras: The Keras version that `tf.keras` must be for the file, "2" or "3"; "" if either will do.
      uses_estimators: Whether the file trains a `tf.estimator.Estimator`.
    """

    line: int
    text: str
    keras: str = ""
    uses_estimators: bool = False


class Dialect:
    """One way to write a training module. Subclasses define `needs`, `matches` and `run_fn`; the rest has defaults.

    A dialect registers under the entry-point group `generic_trainer.dialects`, by a name that the option `dialect`
    takes. `function` is always the name that the user asked for (`module.function`, or the component's `run_fn`), or
    None.

    Attributes:
      needs: What a module has to define, for the message when no dialect fits.
      entry_points: Functions by which modules are recognized; misspellings of them are pointed out.
      functions: All functions of the module that are called; `check` shows their signatures.
      converts_from: What `convert` makes a `run_fn` from, such as "trainer_fn"; "" if it does not convert this dialect.
      form: How such a function is written, such as "trainer_fn(fn_args, schema)"; "" if it is none.
      reads_examples: Whether the dialect parses tf.Examples by the run's schema for modules with its `entry_points`.
      no_scaffold: Why `init` writes no new module in this dialect; "" if it does.
    """

    needs: ClassVar[str] = ""
    entry_points: ClassVar[tuple[str, ...]] = ()
    functions: ClassVar[tuple[str, ...]] = ()
    converts_from: ClassVar[str] = ""
    form: ClassVar[str] = ""
    reads_examples: ClassVar[bool] = False
    no_scaffold: ClassVar[str] = "it has no template"

    def detect(self, path: str) -> Evidence | None:
        """Returns the first evidence for this dialect in a source file, or None.

        It is called for each file of a module before any of them is imported. The evidence decides on the Keras
        version of the process, and whether `prepare` is called in it.

        Args:
          path: A Python file; it may have syntax errors.
        """
        return None

    def prepare(self, files: Sequence[str]) -> None:
        """Prepares the process for the import of a module, such as by shims for packages that are gone.

        Args:
          files: The module's source files.
        """

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns what in the imported module fits this dialect, such as "it defines run_fn"; "" if nothing does."""
        raise NotImplementedError(f"{type(self).__name__}.matches")

    def yields(self, function: str | None) -> bool:
        """Whether any other dialect that matches goes before this one."""
        return False

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns the function that trains and writes a SavedModel to `fn_args.serving_model_dir`.

        Raises:
          ModuleError: When the module lacks something.
        """
        raise NotImplementedError(f"{type(self).__name__}.run_fn")

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns the definitions for which `convert` can write a `run_fn` that calls `run_as` with this dialect.

        Args:
          definitions: The module's top-level definitions by name, as syntax trees.
          function: The only name to consider; it may be missing in `definitions`.
        """
        return []

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks that the module's functions can be called as they will be; returns warnings.

        Raises:
          ModuleError: With the file, the function and the form that it must have.
        """
        return []

    def steps_requested(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> int | None:
        """Returns how many training steps a run does; None if it ends with its data or epochs."""
        return fn_args.train_steps

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Limits a trial run to a few training steps by its arguments, in place.

        Returns:
          Whether a trial of this dialect ends by itself: by these arguments, or since the dialect trains by Keras's
          `fit` or an Estimator, which are stopped from outside.
        """
        return False


def limit_loop(fn_args: FnArgs, steps: int) -> None:
    """Limits a loop that goes by `fn_args` and `custom_config` to a few steps, without folders of the user's."""
    fn_args.train_steps = min(fn_args.train_steps or steps, steps)
    fn_args.eval_steps = 1
    config = fn_args.custom_config = dict(fn_args.custom_config or {})
    for name in ("max_step", "max_steps"):
        if config.get(name):
            config[name] = min(config[name], steps)
    for name in ("checkpoint_dir", "use_conf_model_dir"):
        config.pop(name, None)


def function_in(module: ModuleType, name: str, needs: str) -> Callable[..., object]:
    """Returns a module's function by name.

    Raises:
      ModuleError: When it is missing, or a call of it would run nothing.
    """
    function = getattr(module, name, None)
    if not callable(function):
        raise ModuleError(f"Training module {module.__file__} has no function {name!r}; the dialect needs {needs}.")
    require_plain_call(function, f"{module.__file__}: {name}")
    found: Callable[..., object] = function
    return found
