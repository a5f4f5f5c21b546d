"""The base class of dialects. A dialect recognizes one style of training module and adapts it to `run_fn(fn_args)`."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import ClassVar

from ..fn_args import FnArgs
from ..options import TrainingOptions

RunFn = Callable[[FnArgs], object]


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The place in a source file that identifies the dialect, found before the file is imported.

    Attributes:
      line: The 1-based line number.
      text: The code found there, such as "import my_framework".
      keras: The Keras version that `tf.keras` must be for the file: "2", "3", or "" if either works.
      uses_estimators: Whether the file trains a `tf.estimator.Estimator`.
      reads_any_origin: Whether the file reads the data itself, so that `train_files` may name a table.
    """

    line: int
    text: str
    keras: str = ""
    uses_estimators: bool = False
    reads_any_origin: bool = False


class Dialect:
    """One style of training module. Subclasses define `needs`, `matches` and `run_fn`; everything else has a default.

    A dialect is registered in the entry-point group `generic_trainer.dialects`; its entry-point name is the value of
    the option `dialect`. The process that calls `train` imports this class for modules of every dialect, and calls
    `detect`, `require_inputs` and `needs_model`. A dialect whose other methods import much may define them in a
    subclass in another file, registered under the same name in the group `generic_trainer.dialect_adapters`.

    In all methods, `function` is the function name that the user requested (`module.function`, or the component's
    `run_fn`), or None.

    Attributes:
      needs: The definitions that a module requires, for the error message when no dialect matches.
      entry_points: Names of the functions that identify modules; error messages suggest them for misspelled names.
      functions: Names of all module functions that are called; `check` shows their signatures.
      converts_from: The definition that `convert` creates a `run_fn` from, such as "trainer_fn"; "" if `convert` does
        not support this dialect.
      form: The signature of that function, such as "trainer_fn(fn_args, schema)"; "" if it is not a function.
      reads_examples: Whether the dialect parses tf.Examples with the run's schema for modules with its `entry_points`.
      imports_module: Whether the file is imported before `matches` and `run_fn`. Otherwise they get a module that has
        `__file__` only, and the dialect must be chosen explicitly.
      installed_first: Whether an installed package takes precedence over the module's own folders of the same name.
      keras: The Keras version that all modules of the dialect need: "2", "3", or "" if it depends on the module.
      no_scaffold: Why `init` has no template for a new module in this dialect; "" if it has one.
      eval_remedies: How a module without eval metrics can provide them: one that fits Keras models, and others.
    """

    needs: ClassVar[str] = ""
    entry_points: ClassVar[tuple[str, ...]] = ()
    functions: ClassVar[tuple[str, ...]] = ()
    converts_from: ClassVar[str] = ""
    form: ClassVar[str] = ""
    reads_examples: ClassVar[bool] = False
    imports_module: ClassVar[bool] = True
    installed_first: ClassVar[bool] = False
    keras: ClassVar[str] = ""
    no_scaffold: ClassVar[str] = "it has no template"
    eval_remedies: ClassVar[tuple[str, str]] = ("Pass validation_data to fit.", "Evaluate the model in the module.")

    def detect(self, path: str) -> Evidence | None:
        """Returns the first evidence for this dialect in a source file, or None.

        Called for each file of a module before any of them is imported. The evidence determines the Keras version of
        the process and whether the module counts as training an Estimator.

        Args:
          path: A Python file, possibly with syntax errors.
        """
        return None

    def require_inputs(self, files: Sequence[str], fn_args: FnArgs) -> None:
        """Checks inputs that only this dialect's arguments name; called before the module is imported.

        Args:
          files: The module's file and the user files that it imports.
          fn_args: The run's arguments.

        Raises:
          InputError: When an argument is not valid, or an input is missing.
        """

    def prepare(self, files: Sequence[str]) -> None:
        """Prepares the process for the import of a module, for example by installing shims for discontinued packages.

        Called for every module, whether or not `detect` found evidence in its files.

        Args:
          files: The module's source files.
        """

    def importing(self) -> contextlib.AbstractContextManager[object]:
        """Surrounds the import of a module and the call of its `run_fn`, for modules of any dialect."""
        return contextlib.nullcontext()

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns why the imported module matches this dialect, such as "it defines run_fn"; "" if it does not."""
        raise NotImplementedError(f"{type(self).__name__}.matches")

    def unmatched_hint(self, path: str) -> str:
        """Returns a sentence on how a file that matches no dialect can be run with this one; "" if it cannot."""
        return ""

    def yields(self, function: str | None) -> bool:
        """Whether any other matching dialect takes precedence over this one."""
        return False

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns the function that trains and writes a SavedModel to `fn_args.serving_model_dir`.

        Raises:
          ModuleError: When the module lacks a required definition.
        """
        raise NotImplementedError(f"{type(self).__name__}.run_fn")

    def needs_model(self, fn_args: FnArgs) -> bool:
        """Whether a run without a SavedModel fails. Otherwise it succeeds, and publishes nothing."""
        return True

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns the names of definitions for which `convert` can write a `run_fn` that calls `run_as`.

        Args:
          definitions: The module's top-level definitions by name, as syntax trees.
          function: The only name to consider, or None for any. It may be missing from `definitions`.
        """
        return []

    def lacks(self, definitions: Mapping[str, ast.stmt]) -> list[str]:
        """Returns what a converted module still lacks, or may lack, each with the lines to add.

        Args:
          definitions: As for `convertible`.
        """
        return []

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks that the module's functions accept the arguments they will be called with; returns warnings.

        Raises:
          ModuleError: When one does not; names the file, the function and the required signature.
        """
        return []

    def steps_requested(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> int | None:
        """Returns the number of training steps of a run; None if the data or the epochs limit it instead."""
        return fn_args.train_steps

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Limits a trial run to a few training steps by modifying its arguments in place.

        Returns:
          Whether a trial run of this dialect is limited: through these arguments, or because the dialect trains with
          Keras's `fit` or an Estimator, which the trainer stops by other means.
        """
        return False
