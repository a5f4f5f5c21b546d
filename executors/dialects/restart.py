"""Restarts a worker with other settings that must hold before TensorFlow and Keras are imported.

Static evidence chooses the settings of the first start: the Keras version, and the environment variables that the
module sets. If they turn out to be wrong, the worker notes others on its exception, and its client starts it again.

    with settings_noted(choice, fn_args.checkpoint_dir):      # in the worker, see `other_settings.py`
        …
    result = with_restarts(choice, options, lambda choice: run(worker, choice))
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import TypedDict, TypeVar

from absl import logging

from ..errors import TrainerError
from ..modules.keras_version import KerasChoice
from ..options import TrainingOptions
from ..runtime.logs.exceptions import add_note, one_line_message

T = TypeVar("T")
AnyError = TypeVar("AnyError", bound=Exception)

_NOTED = "restart_with"  # attribute of an exception: `OtherSettings` as JSON text, which reaches other processes


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


def noted(error: AnyError, settings: OtherSettings) -> AnyError:
    """Returns an exception with a note of the settings that a worker may succeed with."""
    with contextlib.suppress(AttributeError):  # a class of the user may forbid attributes
        setattr(error, _NOTED, json.dumps(settings))
    return error


def other_settings(attributes: dict[str, object]) -> OtherSettings:
    """Returns the settings that a worker has noted in an exception's attributes; {} without any."""
    settings: OtherSettings = json.loads(str(attributes.get(_NOTED, "{}")))
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
    # Only then do the other workers of a cluster fail as well: Keras 3 does not support `fit` on several workers.
    fails_everywhere = kind == "version" and other["is_certain"] and other["version"] == "2"
    if kind == "version" and (options.keras != "auto" or (distributed and not fails_everywhere)):
        return None
    again = dataclasses.replace(choice, restarts=[*choice.restarts, kind])
    if kind == "version":
        return dataclasses.replace(again, version=other["version"], reason=other["reason"])
    return dataclasses.replace(again, variables={**choice.variables, **other["variables"]})


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
        why = f". {error}" if isinstance(error, TrainerError) else f", because {other['reason']}."
        logging.warning("The worker is restarted %s%s", _described(other), why)
    try:
        return with_restarts(again, options, run, distributed)
    except Exception as error:
        if is_certain or isinstance(error, TrainerError):
            raise
        add_note(first, f"It fails {_described(other)}, too: {type(error).__name__}: {one_line_message(error)}")
        raise first from first.__cause__


def _described(other: OtherSettings) -> str:
    return f"with Keras {other['version']}" if "version" in other else f"with {', '.join(other['variables'])}"
