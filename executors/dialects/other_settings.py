"""Notes on a module's exception with which settings the module may succeed; see `restart.py`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from types import ModuleType
from typing import TypeVar

from .. import run_context
from ..checkpoints.directory import has_checkpoints
from ..errors import KerasVersionError, LateVariableError
from ..estimator.lazy_restoration import EstimatorUse
from ..modules.keras_version import KerasChoice, version_in_use
from ..modules.late_variables import LateVariables
from ..runtime.logs.exceptions import chain
from .restart import NOTED, OtherSettings

AnyError = TypeVar("AnyError", bound=Exception)


@contextlib.contextmanager
def settings_noted(keras: KerasChoice | None, checkpoint_dir: str | None) -> Iterator[None]:
    """Notes other settings on an exception that leaves the block, if it is evidence for them.

    Args:
      keras: The settings of this process; None if it is not restarted with others.
      checkpoint_dir: The training's checkpoints. A training that has saved one works with its Keras version.

    Raises:
      LateVariableError: If the module has set variables too late for this process.
      KerasVersionError: If the module has used `tf.estimator` in a process with Keras 3.
    """
    try:
        yield
    except LateVariables as late:
        raise _late_variable_error(late) from None
    except Exception as error:
        if wrong_keras := keras_version_error(error):
            raise wrong_keras from error
        if keras and not (checkpoint_dir and has_checkpoints(checkpoint_dir)):
            _note_other_keras(error, keras)
        raise


def keras_version_error(error: Exception) -> KerasVersionError | None:
    """Returns a KerasVersionError if an exception was caused by a use of `tf.estimator` in a process with Keras 3.

    Args:
      error: An exception of the module that `loaded` has imported, raised in the block of `loaded`.
    """
    use = run_context.part(EstimatorUse) or EstimatorUse()
    if not any(_is_missing_estimator(cause, use) for cause in chain(error)):
        return None
    wrong_keras = KerasVersionError(
        f"{use.place or 'The module'} uses tf.estimator, which needs Keras 2, but tf.keras is Keras 3 in this process. "
        'Use --keras 2, or keras="2" of the component.'
    )
    return _noted(wrong_keras, {"version": "2", "reason": "the module uses tf.estimator", "is_certain": True})


def _is_missing_estimator(error: BaseException, use: EstimatorUse) -> bool:
    """Returns whether `tf.estimator` is missing, or `tf.keras.estimator`, which Keras 3 does not have."""
    if not isinstance(error, (AttributeError, ImportError)) or "estimator" not in str(error):
        return False
    owner = getattr(error, "obj", None)
    return use.is_refused or (isinstance(owner, ModuleType) and owner.__name__.startswith("keras."))


def _late_variable_error(late: LateVariables) -> LateVariableError:
    names = ", ".join(late.variables)
    error = LateVariableError(
        f"The module sets {names}, which TensorFlow and Keras have read before in this process. Set it in the shell: "
        f"export {' '.join(f'{name}={value}' for name, value in late.variables.items())}"
    )
    return _noted(error, {"variables": dict(late.variables), "reason": f"the module sets {names}", "is_certain": True})


def _note_other_keras(error: Exception, keras: KerasChoice) -> None:
    reason, is_certain = keras.evidence_against(error)
    if reason:
        version = "2" if keras.version == "3" else "3"
        _noted(error, {"version": version, "reason": reason, "is_certain": is_certain})


def changed_keras(keras: KerasChoice) -> KerasChoice | None:
    """Returns Keras 2 if the module's use of `tf.estimator` has made `tf.keras` Keras 2; else None.

    Args:
      keras: The settings of this process. Called while the module is loaded.
    """
    use = run_context.part(EstimatorUse)
    if keras.version == "2" or use is None or not use.place or version_in_use() == "3":
        return None
    return dataclasses.replace(keras, version="2", reason=f"{use.place}: tf.estimator")


def _noted(error: AnyError, settings: OtherSettings) -> AnyError:
    with contextlib.suppress(AttributeError):  # a class of the user may forbid attributes
        setattr(error, NOTED, json.dumps(settings))
    return error
