"""Finds Keras callbacks that act on each batch, which rule out running several steps per call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...compat.keras import TENSORBOARD_TRACES
from ...modules.keras_version import KERAS_PACKAGES

if TYPE_CHECKING:
    import tensorflow as tf

_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
# Keras's own callbacks whose batch hooks do nothing if the attributes have these values.
_INACTIVE_IF: dict[str, dict[str, object]] = {
    "BackupAndRestore": {"save_freq": "epoch"},
    "ModelCheckpoint": {"save_freq": "epoch"},
    "ProgbarLogger": {},
    "TensorBoard": {"update_freq": "epoch", TENSORBOARD_TRACES: False, "write_steps_per_second": False},
}


def find_batch_callback(callbacks: Iterable[tf.keras.callbacks.Callback]) -> str:
    """Returns the class name of the first callback that acts on each batch, or "".

    Args:
      callbacks: Keras 2 or Keras 3 callbacks.
    """
    for callback in callbacks:
        if any(_acts_on_batches(callback, hook) for hook in _BATCH_HOOKS):
            return type(callback).__name__
    return ""


def _acts_on_batches(callback: tf.keras.callbacks.Callback, hook: str) -> bool:
    if hook in vars(callback):  # set by LambdaCallback
        return vars(callback)[hook] is not None
    owner = next((kind for kind in type(callback).__mro__ if hook in vars(kind)), None)
    if owner is None:
        return False
    if owner.__module__.partition(".")[0] not in KERAS_PACKAGES:
        return True
    if owner.__name__ == "Callback":
        return False
    conditions = _INACTIVE_IF.get(owner.__name__)
    return conditions is None or any(getattr(callback, name, value) != value for name, value in conditions.items())
