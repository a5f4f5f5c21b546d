"""The exceptions that Generic Trainer raises: subclasses of `TrainerError`, each with the command's exit code.

Exceptions raised by the user's module are not wrapped: they keep their type and traceback.
"""

from __future__ import annotations

from collections.abc import Iterable


class TrainerError(Exception):
    """Base class of all errors that Generic Trainer itself raises.

    Attributes:
      exit_code: Exit code of `generic-trainer`: 1 the module failed, 2 wrong usage or input, 3 the model failed its
        check, 4 the model was trained but not pushed, 75 another task of the cluster was lost.
    """

    exit_code = 2


class InputError(TrainerError, ValueError):
    """An option, path or input file of the run is invalid. TFX raises a ValueError in most of these cases."""


class StorageError(TrainerError, OSError):
    """A file or folder cannot be read or written: the disk is full, read-only or failing; see `storage_errors`.

    Attributes:
      advice: Error message with the failed operation, its path, the free space there and a remedy.
    """

    advice: str = ""

    def __str__(self) -> str:
        return self.advice or super().__str__()


class ModuleError(TrainerError, ValueError):
    """The training module cannot be found, or defines nothing that a dialect can run."""


class KerasVersionError(TrainerError):
    """The module uses `tf.estimator`, which needs Keras 2, in a process with Keras 3; a training is restarted then."""

    exit_code = 1


class LateVariableError(TrainerError):
    """The module sets environment variables that TensorFlow or Keras read before; a training is restarted then."""

    exit_code = 1


class TrainingProcessError(TrainerError):
    """The training process ended without a result: killed, out of memory, or timed out."""

    exit_code = 1


class ProcessDiedError(TrainingProcessError):
    """A process was killed or exited before it could report an error; a retry may succeed.

    Attributes:
      was_killed: Whether SIGKILL ended it, which a process never sends to itself.
    """

    was_killed: bool = False


class ProcessTimeoutError(TrainingProcessError):
    """A process did not end within the `timeout` of the run."""


class LostTaskError(TrainingProcessError):
    """Another task of the cluster was killed, or cannot be reached; supervisors may retry the job."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h


class CheckpointError(TrainerError):
    """Writing a checkpoint in the background failed, or a checkpoint does not match the object that restores it."""

    exit_code = 1


class ModelCheckError(TrainerError):
    """The output of `run_fn` is not a SavedModel that loads and returns predictions."""

    exit_code = 3


class StepError(TrainerError):
    """A pipeline step other than the Trainer failed inside TFX or Beam; the log has the full error."""

    exit_code = 1


class NotPushedError(TrainerError):
    """A pipeline trained a model but did not push it, because the evaluation failed or did not bless the model."""

    exit_code = 4


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'run_fn'?" for the nearest known name, or "" if none is plausible; see `spelling`."""
    from .spelling import nearest

    near = nearest(name, known)
    return "" if near is None else f" Did you mean {near!r}?"
