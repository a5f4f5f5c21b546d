"""Restores a checkpoint completely, or raises an error that names the variables that do not match.

TensorFlow's error for different shapes does not name the checkpoint, and by default a variable that is missing from the
checkpoint silently keeps its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ..compat.tensorflow import gathered_tensors
from ..errors import CheckpointError

if TYPE_CHECKING:
    from ..compat.tensorflow import LoadStatus

_ENDINGS = ("/.ATTRIBUTES/VARIABLE_VALUE", "/.ATTRIBUTES/py_state")
_REMEDY = (
    "The checkpoint belongs to another model, or to an earlier version of this one. To resume from it, undo the "
    "change; to train from the beginning, choose another folder, or move this one away."
)


def restore(state: tf.train.Checkpoint, path: str) -> LoadStatus:
    """Restores all objects of a state.

    Objects that do not exist yet, such as an optimizer's slot variables before the first step, are restored when they
    are created.

    Args:
      state: The objects to restore.
      path: Path of the checkpoint.

    Returns:
      TensorFlow's load status.

    Raises:
      CheckpointError: If a variable has a different shape in the checkpoint or is missing from it; the message names
        the variable.
    """
    try:
        status = state.restore(path)
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise CheckpointError(f"{path} cannot be restored: {mismatch_of(state, path) or error}. {_REMEDY}") from error
    return status


def mismatch_of(state: tf.train.Checkpoint, path: str) -> str:
    """Describes a variable with another shape than in a checkpoint, or else one that it lacks; "" if all match."""
    saved = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    here = variables_of(state)
    differ = [
        f"{variable} has the shape {saved[key]} in the checkpoint and {shape} in this training"
        for key, (variable, shape, _) in here.items()
        if key in saved and saved[key] != shape
    ]
    lacking = [
        f"it does not contain {here[key][0]}, which has the shape {here[key][1]} here" for key in here.keys() - saved
    ]
    found = sorted(differ or lacking, key=lambda text: ("optimizer/" in text, text))  # the model's variables first
    return found[0] + (f" (and {len(found) - 1} more like this)" if len(found) > 1 else "") if found else ""


def variables_of(state: tf.train.Checkpoint) -> dict[str, tuple[str, list[int], object]]:
    """Returns {key in checkpoints: (readable name, shape, owning object)} of all variables of a state."""
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
