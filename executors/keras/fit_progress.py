"""Reports the progress of every Keras `fit`, see `progress.py`.

with fit_progress_reported(source.files, EpochLog(path)):
    run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..compat.keras import is_keras_2
from ..compat.tensorflow import batch_size_of, inputs_of
from ..distributed.tf_config import task_from_environment
from ..monitoring import progress
from ..monitoring.metrics import numbers_in
from ..runtime.observers import observed_by
from .interception import KerasCall, KerasObserver, callback_class, may_use_keras
from .step_count import EpochLog, StepCount

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_DEFAULT_BATCH_SIZE = 32  # Keras's default batch size for arrays
_MAX_DATASETS = 100  # maximum number of upstream datasets to search for a batch size
_INFINITE, _UNKNOWN = -1, -2  # tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY


@contextlib.contextmanager
def fit_progress_reported(files: Sequence[str], log: EpochLog) -> Iterator[None]:
    """Adds a progress callback to each `fit` of a block, if the progress is monitored.

    Keras's progress bar, which prints a line per step if the output is not a terminal, is set to one line per epoch.

    Args:
      files: The module's source files. Keras is not imported if they neither mention nor import it.
      log: The steps of earlier attempts.
    """
    if not progress.is_watched() or not may_use_keras(files):
        yield
        return
    with observed_by(_Progress(log)):
        yield


class _Progress(KerasObserver):
    def __init__(self, log: EpochLog) -> None:
        self._log = log
        self._fits = 0

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        given = call.arguments
        if not call.is_nested and call.begins_training(self._fits):
            self._fits += 1
        count = StepCount(call, self._fits, EpochLog() if call.is_nested else self._log)
        size = batch_size(given.get("x"), given.get("batch_size"))
        call.add_callback(_step_callback(call.model, size, count), first=True)
        call.add_callback(_detail_callback(call.model, count, _Length.of(call.model, given)))
        _print_one_line_per_epoch(given)
        return proceed()

    def evaluate(self, call: KerasCall, proceed: Callable[[], object]) -> object:
        _print_one_line_per_epoch(call.arguments)
        progress.report_details(doing="evaluating")
        try:
            return proceed()
        finally:
            progress.report_details(doing=None)


def _print_one_line_per_epoch(given: dict[str, object]) -> None:
    if given.get("verbose", "auto") in ("auto", 1):
        given["verbose"] = 2


@dataclasses.dataclass(frozen=True)
class _Length:
    """The number of batches as far as it is known before training.

    Attributes:
      is_certain: Whether the data is known to suffice for the steps that Keras expects. With `steps_per_epoch`, Keras
        trusts the caller; a generator, or a dataset with a different or unknown cardinality, may end much earlier.
      most: Maximum number of batches in all epochs together, if each batch is used once; None if not known.
    """

    is_certain: bool
    most: int | None = None

    @classmethod
    def of(cls, model: keras.Model, given: Mapping[str, Any]) -> _Length:
        """Returns what is known about the length of a fit's data.

        Args:
          model: The model to train.
          given: The arguments of `fit`.
        """
        x: Any = given.get("x")
        steps = given.get("steps_per_epoch")
        if not steps:
            return cls(is_certain=True)
        if not callable(getattr(x, "cardinality", None)):
            return cls(is_certain=not hasattr(x, "__next__"))
        batches = int(x.cardinality())
        if batches in (_INFINITE, _UNKNOWN):
            return cls(is_certain=batches == _INFINITE)
        needed = steps * (given.get("epochs", 1) - given.get("initial_epoch", 0))
        # Keras 2 iterates over the data once. Keras 3 restarts it in the epoch after the one in which it was exhausted.
        return cls(batches >= needed, batches if is_keras_2(model) else None)


def batch_size(x: object, size: int | None = None) -> float:
    """Returns the number of examples per batch that this worker trains on; 0 if it cannot be determined.

    Args:
      x: The argument of `fit`: a batched tf.data.Dataset, or arrays.
      size: The `batch_size` argument of `fit`.
    """
    global_size = size or (_size_in(x) if hasattr(x, "element_spec") else _DEFAULT_BATCH_SIZE * hasattr(x, "shape"))
    task = task_from_environment()
    return global_size / task.num_workers if task is not None and "ps" not in task.jobs else global_size


def _size_in(dataset: tf.data.Dataset) -> int:
    datasets = [dataset]
    for upstream in datasets:
        if (size := batch_size_of(upstream)) is not None:
            return size
        if len(datasets) < _MAX_DATASETS:
            datasets += inputs_of(upstream)
    return 0


def _step_callback(model: keras.Model, examples: float, count: StepCount) -> keras.callbacks.Callback:
    """Returns a callback that reports steps and examples, before other callbacks see the batch.

    Args:
      model: The model to train.
      examples: Number of examples per batch.
      count: Counts the steps.
    """

    class StepCallback(callback_class(model)):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
            self._new_epoch: int | None = epoch

        def on_train_batch_begin(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
            if self._new_epoch is not None:
                # tf-keras passes NumPy numbers if it resumes within an epoch.
                count.begin_epoch(int(self._new_epoch), int(batch), self.params.get("steps"))
                progress.report_progress(count.steps, steps=0)
                self._new_epoch = None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
            steps = count.end_batch(int(batch))
            progress.report_progress(count.steps, examples * steps, steps)

        def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
            count.end()
            progress.skip_to(count.steps)

    return StepCallback()


def _detail_callback(model: keras.Model, count: StepCount, length: _Length) -> keras.callbacks.Callback:
    """Returns a callback that reports epochs and metrics, to which other callbacks may have added some.

    Args:
      model: The model to train.
      count: Counts the steps.
      length: Length of the data. The total is reported once it is certain: at the beginning, or after the first epoch.
    """

    class DetailCallback(callback_class(model)):  # type: ignore[misc]
        def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
            self._length: int | None = self.params.get("steps") if length.is_certain else None
            self._is_first_batch = True
            progress.report_details(total=None)  # clears the total of an earlier fit

        def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
            self._is_first_batch = True
            progress.report_details(epoch=int(epoch) + 1, epochs=self.params.get("epochs"))

        def on_train_batch_begin(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
            if self._is_first_batch:
                self._report_total()
                self._is_first_batch = False

        def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
            if progress.is_due():
                progress.report_details(metrics=numbers_in(logs))

        def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
            self._length = count.batches
            self._report_total()
            progress.report_details(metrics=numbers_in(logs))

        def _report_total(self) -> None:
            epochs = self.params.get("epochs")
            if self._length and epochs:
                progress.report_details(total=count.total(self._length, epochs, length.most))

    return DetailCallback()
