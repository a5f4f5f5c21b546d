"""Chooses the Keras version of `tf.keras` for a training module: Keras 2 (the package tf-keras) or Keras 3.

Since TensorFlow 2.16, `tf.keras` is Keras 3 by default, and modules written for Keras 2 fail. The choice is an
environment variable that TensorFlow reads on the first access to `tf.keras`, so it has to be made before the module
runs, from the module's source.

Usage:

    choice = choose("auto", source.files)   # KerasChoice("2", "taxi.py, line 8: import tensorflow_transform")
    environment = choice.environment()      # {"TF_USE_LEGACY_KERAS": "1"}
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..compat.keras_source import KerasSign, fits_in, is_typical_error, signs_in
from ..errors import InputError, LateVariableError
from ..runtime.logs.exceptions import chain, has_user_frame, message_of, one_line_message
from ..runtime.process.run_environment import inherited_environment
from .early_variables import variables_set_in
from .source import parsed

VARIABLE = "TF_USE_LEGACY_KERAS"
_BACKEND, _TENSORFLOW = "KERAS_BACKEND", "tensorflow"
KERAS_PACKAGES = ("keras", "tf_keras")
_QUOTED = 200  # characters of an error's message in a reason

Signs = Callable[[str], Iterable[KerasSign]]


@dataclasses.dataclass(frozen=True)
class KerasChoice:
    """A Keras version, the reason for it, and what else must hold before TensorFlow and Keras are imported.

    Attributes:
      version: "2" or "3".
      reason: The option or source line that determined it.
      variables: Environment variables that the module sets when it is imported.
      restarts: Which of the settings a first start of the process has shown to be needed: "version" and "variables".
      is_required: Whether the module has code that fails under the other version, and none that fails under this one.
    """

    version: str
    reason: str
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    restarts: Sequence[str] = ()
    is_required: bool = False

    def environment(self) -> dict[str, str]:
        """Returns the environment variables to set before TensorFlow is imported."""
        others = {name: value for name, value in self.variables.items() if name != VARIABLE}
        if not has_keras_3():
            return others  # tf.keras is always Keras 2 there; setting the variable may break it
        return others | {VARIABLE: "1" if self.version == "2" else "0"}

    def to_record(self) -> dict[str, Any]:
        """Returns the settings for the run's record; without variables, if the module sets none."""
        variables = {"variables": dict(self.variables)} if self.variables else {}
        return {"version": self.version, "reason": self.reason, **variables}

    def check_this_process(self) -> None:
        """Checks that `tf.keras` is, or can still become, the chosen version in this process.

        Raises:
          InputError: When `tf.keras` is already in use as the other version.
        """
        if version_in_use() not in (None, self.version):
            raise InputError(
                f"keras={self.version!r} ({self.reason}) is not available in this process: tf.keras is already Keras "
                f"{version_in_use()}. Train in a subprocess (isolate=True), or set "
                f"{VARIABLE}={self.environment().get(VARIABLE)} before anything imports tf.keras."
            )

    def evidence_against(self, error: BaseException) -> tuple[str, bool]:
        """Returns why a module that failed may need the other Keras version, or "", and whether that is certain.

        Messages typical of the wrong version are certain. Other errors raised by Keras's code may have any reason, and
        are no evidence against a version that the module requires.
        """
        is_raised_there = not self.is_required and _is_raised_by_keras(error)
        is_typical = is_typical_error(self.version, _messages(error))
        if not (is_raised_there or is_typical):
            return "", False
        message = f"{type(error).__name__}: {one_line_message(error)[:_QUOTED]}".rstrip(".")  # sentences end with it
        where = "raised inside" if is_raised_there else "typical of"
        return f"the error is {where} Keras {self.version}: {message}", is_typical

    def hint(self, error: BaseException) -> str:
        """Returns advice if an exception, or one handled when it was raised, is typical of the wrong Keras, else ""."""
        if not is_typical_error(self.version, _messages(error)):
            return ""
        other = "2" if self.version == "3" else "3"
        return (
            f"tf.keras was Keras {self.version} here ({self.reason}). If the module was written for Keras {other}, use "
            f'--keras {other}, or keras="{other}" of the component.'
        )


def choose(
    option: str,
    files: Sequence[str],
    *,
    beside: Sequence[str] = (),
    distributed: bool = False,
    more_signs: Signs = lambda path: (),
) -> KerasChoice:
    """Decides the Keras version.

    Args:
      option: "2", "3", or "auto" to decide by evidence in the source.
      files: The module's source files. Code that fails under the other version takes precedence over code that is only
        typical of a version, such as `import keras`, which selects Keras 3 even where `tf.keras` is Keras 2. Within
        each kind, Keras 2 takes precedence over Keras 3.
      beside: Files of the pipeline's other modules, used if the module's own files contain no evidence.
      distributed: Whether several workers train, where Keras 3 does not support `fit`
        (https://github.com/keras-team/keras/issues/20585).
      more_signs: Returns further evidence in a file, which takes precedence over evidence of the same kind found here.

    Raises:
      InputError: When Keras 3 is requested on a TensorFlow without it, or chosen for a `fit` on several workers.
    """
    variables = variables_set_in(files)
    if not has_keras_3():
        if option == "3":
            release = ".".join(map(str, _tensorflow_release()))
            raise InputError(f"keras='3' needs TensorFlow 2.16 or later; this is {release}.")
        return KerasChoice("2", "tf.keras is Keras 2 before TensorFlow 2.16", variables)
    fits = (f"{os.path.basename(file)}, {fit}" for file in files for fit in fits_in(parsed(file)))
    fit = next(fits, None) if distributed else None
    choice = _requested(option, variables) or _by_signs((files, beside), more_signs)
    if choice is None and fit:
        choice = KerasChoice("2", f"{fit} runs on several workers, which Keras 3 does not support")
    choice = dataclasses.replace(choice or _without_signs(), variables=variables)
    if choice.version == "3" and fit:
        raise InputError(
            f"{fit}: Keras 3 ({choice.reason}) cannot fit a model on several workers (keras-team/keras issue 20585). "
            "Use Keras 2 (tf-keras; keras='2'), or write a custom training loop under "
            "generic_trainer.strategy(fn_args), which works with Keras 3 models, or train with one worker and more "
            "GPUs."
        )
    return choice


def _requested(option: str, variables: Mapping[str, str]) -> KerasChoice | None:
    """Returns the version that the option or a variable set by the module requests, or None."""
    if option != "auto":
        return KerasChoice(option, f"keras={option!r} was requested")
    if VARIABLE in variables:
        version = "2" if selects_keras_2(variables) else "3"
        return KerasChoice(version, f"the module sets {VARIABLE}={variables[VARIABLE]}")
    if (backend := variables.get(_BACKEND, _TENSORFLOW)) != _TENSORFLOW:  # only Keras 3 has others
        return KerasChoice("3", f"the module sets {_BACKEND}={backend}", is_required=True)
    return None


def _by_signs(groups: Iterable[Sequence[str]], more_signs: Signs) -> KerasChoice | None:
    """Returns the version that the first group of files with evidence needs, or None."""
    for group in groups:
        reasons: dict[tuple[bool, str], str] = {}
        for file in group:
            for sign in (*more_signs(file), *signs_in(parsed(file))):
                reasons.setdefault(
                    (sign.fails, sign.version), f"{os.path.basename(file)}, line {sign.line}: {sign.text}"
                )
        for fails, version in ((True, "2"), (True, "3"), (False, "2"), (False, "3")):
            if reason := reasons.get((fails, version)):
                is_required = fails and not {(True, "2"), (True, "3")} <= reasons.keys()
                return KerasChoice(version, reason, is_required=is_required)
    return None


def _without_signs() -> KerasChoice:
    undecided = "the source does not indicate a version"
    # Precedence over the variable: importing Transform sets it, often after tf.keras was loaded.
    if in_use := version_in_use():
        return KerasChoice(in_use, f"tf.keras of the calling process, since {undecided}")
    if selects_keras_2(inherited_environment()):
        return KerasChoice("2", f"{VARIABLE} is set, and {undecided}")
    return KerasChoice("3", f"TensorFlow's default, since {undecided}")


def _messages(error: BaseException) -> str:
    return "\n".join(f"{type(cause).__module__}.{type(cause).__name__}: {message_of(cause)}" for cause in chain(error))


def _is_raised_by_keras(error: BaseException) -> bool:
    """Whether an exception's innermost frame is in Keras.

    Left out are TensorFlow's exceptions, whose frames Keras removes, and those of files and of the network, which Keras
    replaces. Below an observed layer, Keras removes its own frames, so this package's are ignored.
    """
    is_of_files = any(isinstance(cause, OSError) and not has_user_frame(cause) for cause in chain(error))
    if is_of_files or isinstance(error, (MemoryError, OSError)) or type(error).__module__.startswith("tensorflow."):
        return False
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    innermost = next((name for name in reversed(names) if not name.startswith("generic_trainer.")), "")
    return innermost.partition(".")[0] in KERAS_PACKAGES


def only_keras_2(files: Sequence[str]) -> bool:
    """Whether some code in the source files fails under Keras 3, and none under Keras 2."""
    return {sign.version for file in files for sign in signs_in(parsed(file)) if sign.fails} == {"2"}


def has_keras_3() -> bool:
    """Whether the installed TensorFlow supports Keras 3 as `tf.keras`: 2.16 and later."""
    return _tensorflow_release() >= (2, 16)


def selects_keras_2(environment: Mapping[str, str]) -> bool:
    """Whether environment variables select Keras 2 as `tf.keras`."""
    return environment.get(VARIABLE, "").lower() in ("1", "true")


def version_in_use() -> str | None:
    """Returns the Keras version of `tf.keras` in this process, or None if it is not loaded yet."""
    tensorflow = sys.modules.get("tensorflow")
    keras = vars(tensorflow).get("keras") if tensorflow is not None else None
    # vars() does not trigger TensorFlow's lazy loader; attribute access would.
    name = vars(keras).get("__name__") if keras is not None else None
    return {"tf_keras.api._v2.keras": "2", "keras._tf_keras.keras": "3"}.get(str(name))


def backend_in_use() -> str | None:
    """Returns the backend of Keras 3 in this process, such as "tensorflow"; None if it is not imported."""
    config = getattr(sys.modules.get("keras"), "config", None)
    return str(config.backend()) if config is not None and hasattr(config, "backend") else None


def require_backend() -> None:
    """Checks that Keras uses the backend that the environment, or the module that was just imported, sets.

    Raises:
      LateVariableError: When Keras was imported before, with another backend.
    """
    in_use = backend_in_use()
    wanted = os.environ.get(_BACKEND)
    if in_use and wanted and wanted != in_use:
        raise LateVariableError(
            f"{_BACKEND}={wanted} has no effect: Keras was imported before in this process, with the backend {in_use}. "
            f"Train in a subprocess (isolate=True), or set it in the shell: export {_BACKEND}={wanted}"
        )


def _tensorflow_release() -> tuple[int, int]:
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"):
        try:
            major, minor = importlib.metadata.version(name).split(".")[:2]
        except importlib.metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    raise InputError("TensorFlow is not installed in this environment.")
