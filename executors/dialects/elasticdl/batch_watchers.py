"""Which Keras callbacks look at the model after each batch: with them, steps cannot be run in groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...compat.keras import TENSORBOARD_TRACES
from ...modules.keras_version import KERAS_PACKAGES

if TYPE_CHECKING:
    import tensorflow as tf

_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
# Keras's own callbacks that have such hooks, which do nothing with a batch as long as these attributes are as here.
_HARMLESS_IF: dict[str, dict[str, object]] = {
    "BackupAndRestore": {"save_freq": "epoch"},
    "ModelCheckpoint": {"save_freq": "epoch"},
    "ProgbarLogger": {},
    "TensorBoard": {"update_freq": "epoch", TENSORBOARD_TRACES: False, "write_steps_per_second": False},
}


def batch_watcher(callbacks: Iterable[tf.keras.callbacks.Callback]) -> str:
    """Returns the name of the first callback that is called for each batch and does something then, or "".

    Args:
      callbacks: Of Keras 2 or 3.
    """
    for callback in callbacks:
        if any(_watches(callback, hook) for hook in _HOOKS):
            return type(callback).__name__
    return ""


def _watches(callback: tf.keras.callbacks.Callback, hook: str) -> bool:
    if hook in vars(callback):  # a LambdaCallback's
        return vars(callback)[hook] is not None
    owner = next((kind for kind in type(callback).__mro__ if hook in vars(kind)), None)
    if owner is None:
        return False
    if owner.__module__.partition(".")[0] not in KERAS_PACKAGES:
        return True
    if owner.__name__ == "Callback":
        return False
    conditions = _HARMLESS_IF.get(owner.__name__)
    return conditions is None or any(getattr(callback, name, wanted) != wanted for name, wanted in conditions.items())
