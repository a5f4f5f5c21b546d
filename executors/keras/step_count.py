"""Counts the completed steps of a Keras `fit`, including those before it was resumed, with whatever restored it.

`BackupAndRestore`, `initial_epoch` and a module's own checkpoints start a fit at a later epoch, where Keras counts
batches from zero. The optimizer's iterations are not enough: checkpoints of weights lack them, and for a dataset of
unknown size Keras adds one at the end of an epoch. So the steps at the beginning of each epoch are kept in a file for
later attempts, with the iterations, which give the position within the epoch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from ..monitoring.progress import reported_step
from ..runtime.files.json_data import JsonData
from .attempt_log import AttemptLog
from .interception import KerasCall

if TYPE_CHECKING:
    import keras


@dataclasses.dataclass(frozen=True)
class EpochBegin(JsonData):
    """The beginning of an epoch.

    Attributes:
      fit: Number of the fit in the run, from 1; a fit with an `initial_epoch` continues the fit before it.
      epoch: Number of the epoch, from 0.
      iterations: Iterations of the model's optimizer.
      steps: Completed steps of the run.
    """

    fit: int
    epoch: int
    iterations: int
    steps: int


class EpochLog:
    """The beginnings of epochs, of this attempt and of earlier ones.

    Args:
      path: Path of the file, as of an `AttemptLog`.
      is_writer: Whether this process writes the file; with several workers only the chief does.
    """

    def __init__(self, path: str = "", is_writer: bool = True) -> None:
        self._log, self._is_writer = AttemptLog(EpochBegin, path), is_writer
        self._earlier = self._log.read()

    def steps_at(self, fit: int, epoch: int, iterations: int) -> int | None:
        """Returns the steps that an earlier attempt had completed where a fit begins; None if it did not get there.

        Args:
          fit: Number of the fit.
          epoch: The epoch that the fit begins with.
          iterations: Iterations of the optimizer, restored or not.
        """
        later = [begin for begin in self._earlier if begin.fit == fit and begin.epoch >= epoch]
        restored = [begin for begin in later if begin.iterations <= iterations]
        if restored:
            last = max(reversed(restored), key=lambda begin: (begin.iterations, -begin.epoch))
            return last.steps + iterations - last.iterations
        return next((begin.steps for begin in reversed(later) if begin.epoch == epoch), None)

    def add(self, begin: EpochBegin) -> None:
        """Appends an epoch; the first one of a training replaces the file."""
        if self._is_writer:
            self._log.add(begin, replaces=begin.fit == 1 and begin.epoch == 0)


class StepCount:
    """The steps of a run during one of its fits.

    Attributes:
      steps: Completed steps, including those of earlier fits.

    Args:
      call: The call of `fit`, before it begins.
      fit: Number of the fit; see `EpochBegin`.
      log: The beginnings of epochs in earlier attempts.
    """

    def __init__(self, call: KerasCall, fit: int, log: EpochLog) -> None:
        self._model, self._fit, self._log = call.model, fit, log
        self._backup = next((callback for callback in call.callbacks if hasattr(callback, "trained_steps")), None)
        self._iterations = self._epoch_iterations = iterations_of(call.model)
        self._is_grouped = getattr(call.model, "steps_per_execution", 1) != 1 and self._backup is None
        # Before the first fit, the module itself may have restored the optimizer.
        self._before = self.steps = reported_step() or self._iterations
        self._first_epoch: int = call.arguments.get("initial_epoch") or 0
        self._first_steps: int | None = None  # steps at the beginning of the first epoch
        self._epoch_begin = 0  # steps at the beginning of this epoch

    def begin_epoch(self, epoch: int, batch: int, length: int | None) -> None:
        """Notes the beginning of an epoch, after all callbacks have restored what they restore.

        Args:
          epoch: Number of the epoch, from 0.
          batch: Number of the first batch. It is not 0 if tf-keras resumes within the epoch.
          length: Number of batches of an epoch; None if not known.
        """
        if self._first_steps is None:
            self._begin(epoch, batch, length or 0)
        else:
            self._epoch_begin = self.steps
        self._epoch_iterations = iterations_of(self._model)
        self._log.add(EpochBegin(self._fit, epoch, self._epoch_iterations, self.steps))

    def end_batch(self, batch: int) -> int:
        """Notes the end of a batch; returns the number of steps since the last one, 0 for a dropped batch."""
        before, self.steps = self.steps, max(self.steps, self._epoch_begin + self._trained(batch))
        return self.steps - before

    @property
    def batches(self) -> int:
        """Number of batches trained in this epoch."""
        return self.steps - self._epoch_begin

    def end(self) -> None:
        """Notes the end of the fit, which may have restored its last epoch instead of running one."""
        if self._backup is not None:
            self.steps = self._before + self._backup.trained_steps

    def total(self, length: int, epochs: int, most: int | None) -> int:
        """Returns the steps at the end of the fit.

        Args:
          length: Number of batches of an epoch.
          epochs: Number of the last epoch, from 1.
          most: Maximum number of batches of the fit; None if not known.
        """
        whole = length * (epochs - self._first_epoch)
        return (self._first_steps or 0) + min(whole, most or whole)

    def _trained(self, batch: int) -> int:
        """Returns the number of batches of this epoch up to a batch that ended."""
        # With `steps_per_execution`, Keras 3 counts groups as full, but the last one ends with the data.
        iterations = iterations_of(self._model) - self._epoch_iterations if self._is_grouped else 0
        return min(batch + 1, iterations) if iterations > 0 else batch + 1

    def _begin(self, epoch: int, batch: int, length: int) -> None:
        if self._backup is not None:  # begins with a batch that it drops, up to the trained ones
            self._first_steps = self._before = self._before or self._first_epoch * length
            self.steps = self._before + self._backup.trained_steps
            self._epoch_begin = self.steps - self._backup.trained_batches
            return
        iterations = iterations_of(self._model)
        steps = self._log.steps_at(self._fit, epoch, iterations)
        if steps is None:
            steps = self._before + max(0, iterations - self._iterations) or epoch * length
        self.steps = max(steps, reported_step())
        self._first_epoch, self._first_steps = epoch, self.steps - batch
        self._epoch_begin = self.steps - batch


def iterations_of(model: keras.Model) -> int:
    """Returns the number of batches that a model's optimizer has counted; 0 if it counts none."""
    optimizer: Any = getattr(model, "optimizer", None)
    with contextlib.suppress(Exception):  # of custom optimizers, and in graph mode
        return int(optimizer.iterations.numpy()) * (getattr(optimizer, "gradient_accumulation_steps", None) or 1)
    return 0
