"""The errors of Generic Trainer: one family, each member with the command's exit code.

The user's own exceptions are not in here: they keep their type and traceback (see `raised_errors`).
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable

_COMPARED = 1000  # names, and characters of a name


class TrainerError(Exception):
    """Anything that Generic Trainer itself has to say against a run.

    Attributes:
      exit_code: What `generic-trainer` exits with: 1 the module failed, 2 wrong usage or input,
        3 the model did not pass the check, 4 the model is there and was not pushed.
    """

    exit_code = 2


class InputError(TrainerError):
    """An option, a path or a file that the run was given is not usable."""


class StorageError(TrainerError, OSError):
    """A file or folder cannot be read or written: its disk is full, read-only, or fails; see `storage_errors`.

    Attributes:
      advice: What failed, where, what is free there, and what to do.
    """

    advice: str = ""

    def __str__(self) -> str:
        return self.advice or super().__str__()


class ModuleError(TrainerError):
    """The training module cannot be found, or holds nothing that a dialect knows how to run."""


class TrainingProcessError(TrainerError):
    """The training process ended without an answer: killed, out of memory, or out of time."""

    exit_code = 1


class ProcessDiedError(TrainingProcessError):
    """A process was killed, or ended, before it could say why; another try may go well."""


class CheckpointError(TrainerError):
    """A checkpoint could not be written in the background of the training, or does not fit the one that restores it."""

    exit_code = 1


class ModelCheckError(TrainerError):
    """What `run_fn` left behind is not a SavedModel that loads and answers."""

    exit_code = 3


class StepError(TrainerError):
    """A step of a pipeline other than the Trainer failed inside TFX or Beam; the log has the full text."""

    exit_code = 1


class NotPushedError(TrainerError):
    """A pipeline trained a model that it did not push, since the evaluation failed or found it not good enough."""

    exit_code = 4


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'run_fn'?" for the nearest known name, or "" when nothing is near."""
    if len(name) > _COMPARED:
        return ""
    others = (other for other in itertools.islice(known, _COMPARED) if other != name)
    near = (other for other in others if len(other) <= _COMPARED)  # it takes its time
    nearest = difflib.get_close_matches(name, near, n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""
