"""What a Keras module wants beside its model: to survive a kill, and TensorBoard.

model.fit(batches, epochs=5, callbacks=[*callbacks(fn_args), EarlyStopping()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ..errors import InputError
from .backup_and_restore import BackUp

if TYPE_CHECKING:
    import keras

    from ..fn_args import FnArgs

SAVE_SECONDS = 60.0
SAVE_STEPS = 500  # of several workers, whose clocks differ


def callbacks(
    fn_args: FnArgs,
    *,
    save_seconds: float | None = SAVE_SECONDS,
    save_steps: int | None = None,
    endless_data: bool = False,
) -> list[keras.callbacks.Callback]:
    """Returns callbacks for `Model.fit`, of Keras 3 and of tf-keras.

    * Back-up and restore, in `fn_args.checkpoint_dir`. A training that was killed goes on in the middle of the epoch
      when it is run again: the batches that were trained are read again and dropped. These are the same ones where the
      dataset gives the same order each time; one that shuffles anew for each epoch begins with its first order. What
      other callbacks hold, such as EarlyStopping's patience, begins anew, and the metrics of the epoch that broke off
      are over the batches since. Of one worker SIGTERM saves, too, and ends the training.
    * TensorBoard, in `fn_args.model_run_dir`.

    Of several workers all get the back-up, which reads variables together and restores all of them; only the chief
    writes it, and only the chief gets the others. With parameter servers an epoch's end is the only moment at which
    all workers have done what was asked of them: their state is saved then.

    Call it once for each `fit`, of a model that has its variables by then. A fit that has ended is not trained again
    when the module is run again after it broke off later on, in the next fit or in the export; its weights and its
    history are restored.

    Args:
      fn_args: What `run_fn` was given.
      save_seconds: How often is saved; None for not by time. Several workers save every `save_steps` instead.
      save_steps: The same in steps (default: none for one worker, 500 and every epoch's end for several).
      endless_data: True where `fit` is told `steps_per_epoch` and the dataset repeats without end: its epochs come one
        after the other from it. Then the batches of the earlier epochs are dropped, too.

    Raises:
      InputError: When a number is not above zero.
    """
    for name, value in (("save_seconds", save_seconds), ("save_steps", save_steps)):
        if value is not None and value <= 0:
            raise InputError(f"callbacks: {name}={value!r}: give a number above 0, or None.")
    if fn_args.num_workers > 1:
        save_seconds, save_steps = None, save_steps or SAVE_STEPS
    backup = BackUp(fn_args, save_seconds, save_steps, fn_args.num_workers > 1, endless_data)
    if not fn_args.is_chief:
        return [backup]
    return [backup, tf.keras.callbacks.TensorBoard(fn_args.model_run_dir)]
