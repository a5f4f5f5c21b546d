"""Restarts a worker with other settings that must hold before TensorFlow and Keras are imported.

Static evidence chooses the settings of the first start: the Keras version, and the environment variables that the
module sets. If they turn out to be wrong, the worker notes others on its exception, and its client starts it again.

    with settings_noted(choice, fn_args.checkpoint_dir):      # in the worker
        …
    result = with_restarts(choice, options, lambda choice: run(worker, choice))
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypedDict, TypeVar

from absl import logging

from .. import run_context
from ..checkpoints.directory import has_checkpoints
from ..errors import KerasVersionError, LateVariableError, TrainerError
from ..estimator.lazy_restoration import EstimatorUse
from ..modules.keras_version import KerasChoice
from ..modules.late_variables import LateVariables
from ..options import TrainingOptions
from ..runtime.logs.exceptions import add_note, chain, one_line_message

T = TypeVar("T")
AnyError = TypeVar("AnyError", bound=Exception)

_ATTRIBUTE = "restart_with"  # of an exception: `OtherSettings` as JSON text, which reaches other processes


class OtherSettings(TypedDict, total=False):
    """Settings that a worker may succeed with.

    Attributes:
      version: The Keras version.
      variables: Environment variables.
      reason: The evidence.
      is_certain: Whether the worker cannot succeed with the settings that it had.
    """

    version: str
    variables: dict[str, str]
    reason: str
    is_certain: bool


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


def _noted(error: AnyError, settings: OtherSettings) -> AnyError:
    with contextlib.suppress(AttributeError):  # a class of the user may forbid attributes
        setattr(error, _ATTRIBUTE, json.dumps(settings))
    return error


def other_settings(attributes: dict[str, object]) -> OtherSettings:
    """Returns the settings that a worker has noted in an exception's attributes; {} without any."""
    settings: OtherSettings = json.loads(str(attributes.get(_ATTRIBUTE, "{}")))
    return settings


def restarted(
    choice: KerasChoice, other: OtherSettings, options: TrainingOptions, distributed: bool = False
) -> KerasChoice | None:
    """Returns the settings for another start of a worker; None if there is no reason for one or it is not possible.

    A worker is restarted at most once for its variables, and once for its Keras version if `keras` is "auto".
    """
    kind = "version" if "version" in other else "variables"
    if not other or not options.isolate or kind in choice.restarts:
        return None
    if kind == "version" and (options.keras != "auto" or (distributed and not _holds_for_all_workers(other))):
        return None
    again = dataclasses.replace(choice, restarts=[*choice.restarts, kind])
    if kind == "version":
        return dataclasses.replace(again, version=other["version"], reason=other["reason"])
    return dataclasses.replace(again, variables={**choice.variables, **other["variables"]})


def _holds_for_all_workers(other: OtherSettings) -> bool:
    """Whether the other workers of a cluster fail as well; Keras 3 does not support `fit` on several workers."""
    return other["is_certain"] and other["version"] == "2"


def with_restarts(
    choice: KerasChoice, options: TrainingOptions, run: Callable[[KerasChoice], T], distributed: bool = False
) -> T:
    """Runs a worker; runs it again with the settings that its exception shows to be needed.

    Args:
      choice: The settings of the first start.
      options: The training options.
      run: Runs the worker with the given settings.
      distributed: Whether several workers train.

    Raises:
      Exception: The worker's exception. If a Keras version was only a guess and did not help, the first one.
    """
    try:
        return run(choice)
    except Exception as error:
        other = other_settings(vars(error))
        again = restarted(choice, other, options, distributed)
        if again is None:
            raise
        first, is_certain = error, other["is_certain"]
        why = error if isinstance(error, TrainerError) else f"Because {other['reason']}."
        logging.warning("The worker is restarted %s. %s", _described(other), why)
    try:
        return with_restarts(again, options, run, distributed)
    except Exception as error:
        if is_certain or isinstance(error, TrainerError):
            raise
        add_note(first, f"It fails {_described(other)}, too: {type(error).__name__}: {one_line_message(error)}")
        raise first from first.__cause__


def _described(other: OtherSettings) -> str:
    return f"with Keras {other['version']}" if "version" in other else f"with {', '.join(other['variables'])}"
