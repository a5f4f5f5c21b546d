"""Callbacks for Keras modules: checkpoints to resume an interrupted `fit`, and TensorBoard.

model.fit(batches, epochs=5, callbacks=[*callbacks(fn_args), EarlyStopping()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ..errors import InputError
from ..fn_args import FnArgs
from ..monitoring.save_interval import CLUSTER_STEPS, measured_steps
from .backup_and_restore import BackUp

if TYPE_CHECKING:
    import keras

SAVE_SECONDS = 60.0


def callbacks(
    fn_args: FnArgs,
    *,
    save_seconds: float | None = SAVE_SECONDS,
    save_steps: int | None = None,
    endless_data: bool = False,
) -> list[keras.callbacks.Callback]:
    """Returns callbacks for `Model.fit`, for Keras 3 and tf-keras.

    * Backup and restore, in `fn_args.checkpoint_dir`. An interrupted training resumes in the middle of the epoch: the
      batches that were already trained are read again and dropped. They are the same batches if the dataset has a
      deterministic order; a dataset that reshuffles for each epoch starts with the order of its first epoch. The state
      of other callbacks, such as EarlyStopping's patience, is reset, and the metrics of the interrupted epoch cover
      only the batches after the restart. With one worker, SIGTERM also saves a checkpoint and ends the training.
    * TensorBoard, in `fn_args.model_run_dir`.

    With several workers, all workers get the backup callback, because variables are read and restored on all workers
    together. Only the chief writes checkpoints and gets the TensorBoard callback. With parameter servers, checkpoints
    are saved at the end of each epoch, the only time at which all scheduled steps are finished.

    Call it once for each `fit`, with a model that is already built. If the module fails after a `fit` has ended (in
    the next `fit` or in the export), that `fit` is not trained again in the next run; its weights and history are
    restored.

    Args:
      fn_args: The arguments of `run_fn`; also those of TFX's own Trainer.
      save_seconds: Interval between checkpoints in seconds; None to not save by time. Ignored with several workers,
        which save every `save_steps`.
      save_steps: Interval between checkpoints in steps. By default None for one worker. Several workers save every 500
        steps and at the end of every epoch. On Ray, after a worker's death, the default of both arguments is replaced
        by the number of steps that loses the least time for the measured time between deaths and the measured cost of a
        checkpoint.
      endless_data: Whether `fit` has `steps_per_epoch` and reads consecutive epochs from one infinite dataset. If True,
        the batches of earlier epochs are dropped on resume, too.

    Raises:
      InputError: If `save_seconds` or `save_steps` is not above 0.
    """
    for name, value in (("save_seconds", save_seconds), ("save_steps", save_steps)):
        if value is not None and value <= 0:
            raise InputError(f"callbacks: {name}={value!r} must be a number above 0, or None.")
    fn_args = FnArgs.of(fn_args)
    if (measured := measured_steps()) and (save_seconds, save_steps) == (SAVE_SECONDS, None):
        save_seconds, save_steps = None, measured
    if fn_args.num_workers > 1:
        save_seconds, save_steps = None, save_steps or measured or CLUSTER_STEPS
    backup = BackUp(fn_args, save_seconds, save_steps, fn_args.num_workers > 1, endless_data)
    if not fn_args.is_chief:
        return [backup]
    return [backup, tf.keras.callbacks.TensorBoard(fn_args.model_run_dir)]
