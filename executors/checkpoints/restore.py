"""Restores a checkpoint whole, or says what in it does not fit.

Where shapes differ, TensorFlow does not name the checkpoint; and a variable that is not in the checkpoint keeps the
value that it has, without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ..compat.tensorflow import gathered_tensors
from ..errors import CheckpointError

if TYPE_CHECKING:
    from ..compat.tensorflow import LoadStatus

_ENDINGS = ("/.ATTRIBUTES/VARIABLE_VALUE", "/.ATTRIBUTES/py_state")
_TO_DO = (
    "The checkpoint is of another model, or was made before this one was changed. Undo the change to go on from it, or "
    "give another folder, or move this one away, to train anew."
)


def restore(state: tf.train.Checkpoint, path: str) -> LoadStatus:
    """Restores all that a state holds.

    What does not exist yet, such as an optimizer's slots before the first step, is restored when it is made.

    Args:
      state: A tf.train.Checkpoint.
      path: Of a checkpoint.

    Returns:
      TensorFlow's status of it.

    Raises:
      CheckpointError: When a variable has another shape there, or none; it names it.
    """
    try:
        status = state.restore(path)
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise CheckpointError(f"{path} cannot be restored: {_misfit(state, path) or error}. {_TO_DO}") from error
    return status


def _misfit(state: tf.train.Checkpoint, path: str) -> str:
    """Returns what does not fit in words: variables of other shapes, else those that the checkpoint lacks."""
    saved = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    here = variables_of(state)
    differ = [
        f"{variable} has the shape {saved[key]} there and {shape} in this training"
        for key, (variable, shape, _) in here.items()
        if key in saved and saved[key] != shape
    ]
    lacking = [f"it has no {here[key][0]}, which has the shape {here[key][1]} here" for key in here.keys() - saved]
    found = sorted(differ or lacking, key=lambda text: ("optimizer/" in text, text))  # the model's own first
    return found[0] + (f" (and {len(found) - 1} more like this)" if len(found) > 1 else "") if found else ""


def variables_of(state: tf.train.Checkpoint) -> dict[str, tuple[str, list[int], object]]:
    """Returns the name, shape and object of every variable by its key in checkpoints."""
    serialized, _ = gathered_tensors(state)
    variables = {}
    for owner, tensors in serialized.items():
        name = str(getattr(owner, "path", "") or getattr(owner, "name", ""))
        for key, found in tensors.items():
            for slice_spec, one in (found if isinstance(found, dict) else {"": found}).items():
                tensor = one.tensor if hasattr(one, "slice_spec") else one
                if tensor is not None and not slice_spec.strip():
                    variables[key] = (_readable(key, name), list(tensor.shape), owner)
    return variables


def _readable(key: str, name: str) -> str:
    for ending in _ENDINGS:
        key = key.removesuffix(ending)
    key = key.replace(".S", "/").replace("..", ".")
    name = name.removesuffix(":0")
    return f"{key} ({name})" if name not in ("", "Variable", key) else key
