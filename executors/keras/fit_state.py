"""The state at the end of one `fit`, stored in a folder: weights, optimizer, history, and the callbacks' state.

Usage:

    state = FitState(folder)
    state.save(model, history, call, callbacks, before, weights="")
    ...                                  # in the next run
    history = state.restore(model, callbacks)
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import tensorflow as tf

from ..checkpoints import restore as checkpoint_restoring
from ..checkpoints.async_checkpoints import AsyncCheckpoints
from ..checkpoints.damage import DamagedError, read_arrays
from ..checkpoints.fallback import damage_of
from ..errors import CheckpointError
from ..runtime.files import durable, file_io
from . import callback_state
from .interception import keras_of
from .model_state import shapes_of, state_of
from .weight_fingerprints import of_checkpoint

if TYPE_CHECKING:
    import keras

_FACTS, _ARRAYS, _WEIGHTS, _FILES = "fit.json", "callbacks.npz", "end", "files"
_FREE_SPACE_FACTOR = 3  # required free space as a multiple of the state's size, because the export also needs space


class NotSavedError(Exception):
    """A fit's state cannot be kept; the message gives the reason."""


class FitFacts(TypedDict):
    """Content of `fit.json`: the call, and the final state except weights and arrays."""

    reported: int
    call: dict[str, object]
    history: dict[str, list[float]]
    epochs: list[int]
    params: dict[str, int | None]
    weights: str
    shapes: dict[str, list[int]]
    stopped: bool
    callbacks: list[dict[str, object]]
    files: list[list[str]]


class FitState:
    """The stored state at the end of one `fit`.

    Args:
      folder: Folder of this fit's state. The state is complete if it contains `fit.json`, which is written last.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def facts(self) -> FitFacts | None:
        """Returns the content of `fit.json`; None if the state is missing or incomplete.

        Raises:
          DamagedError: If the file is damaged.
        """
        path = os.path.join(self.folder, _FACTS)
        if not file_io.exists(path):
            return None
        try:
            facts: FitFacts = json.loads(file_io.read_text(path))
        except ValueError:
            raise DamagedError(f"{_FACTS} is not JSON") from None
        if not isinstance(facts, dict) or not facts.keys() >= FitFacts.__required_keys__:
            raise DamagedError(f"{_FACTS} lacks a part of the state")
        return facts

    def save(
        self,
        model: keras.Model,
        history: keras.callbacks.History,
        call: Mapping[str, object],
        callbacks: Sequence[keras.callbacks.Callback],
        before: Sequence[Mapping[str, callback_state._Attribute]],
        weights: str,
        **facts: int,
    ) -> None:
        """Saves the state of a model whose fit has ended.

        Args:
          model: The model.
          history: The History that `fit` returned.
          call: The call, as returned by `fit_call.describe`.
          callbacks: The callbacks that the module passed.
          before: The callbacks' `attributes` before the fit.
          weights: Path of an existing checkpoint of this state; "" to write one.
          **facts: Further JSON values to store.

        Raises:
          NotSavedError: If weights are NaN or infinite, a callback has attributes that cannot be stored, or there is
            not enough free disk space.
          CheckpointError: If the checkpoint cannot be written.
        """
        _require_finite(model)
        try:
            values, arrays = callback_state.changes(callbacks, before)
        except callback_state.NotPlainError as error:
            raise NotSavedError(str(error)) from None
        state = state_of(model)
        shapes = shapes_of(state, model)
        file_io.makedirs(self.folder)
        if weights:
            self._link(weights)
        else:
            self._require_free_space(sum(math.prod(shape) for shape in shapes.values()) * 4)
            with AsyncCheckpoints(state, self.folder, 1, _WEIGHTS) as checkpoints:
                weights = checkpoints.save(0)
        if arrays:
            written = io.BytesIO()
            np.savez(written, *arrays)
            with tf.io.gfile.GFile(os.path.join(self.folder, _ARRAYS), "wb") as file:
                file.write(written.getvalue())
        files = [self._copy_files(number, one) for number, one in enumerate(callbacks)]
        content = {
            **facts,
            "call": call,
            "history": {name: list(series) for name, series in history.history.items()},
            "epochs": list(history.epoch),
            "params": {name: value for name, value in history.params.items() if isinstance(value, (int, type(None)))},
            "weights": os.path.basename(weights),
            "shapes": shapes,
            "stopped": bool(model.stop_training),
            "callbacks": values,
            "files": files,
        }
        durable.sync_tree(self.folder)  # before `fit.json`, which marks the state as complete
        file_io.write_text(os.path.join(self.folder, _FACTS), json.dumps(content, default=_number) + "\n")

    def end_weights(self) -> frozenset[str]:
        """Returns the fingerprints of the variables at the end; empty if the state is missing or damaged."""
        with contextlib.suppress(DamagedError):
            if (facts := self.facts()) and not damage_of(path := os.path.join(self.folder, facts["weights"])):
                return of_checkpoint(path)
        return frozenset()

    def restore(self, model: keras.Model, callbacks: Sequence[keras.callbacks.Callback]) -> keras.callbacks.History:
        """Restores a built model and its fit's callbacks; returns the fit's History.

        Raises:
          CheckpointError: If the model's variables differ from the saved ones, or a file is damaged (`DamagedError`).
            The model is not changed then.
        """
        facts = self.facts()
        assert facts is not None
        state = state_of(model)
        if (current := shapes_of(state, model)) != facts["shapes"]:
            saved = facts["shapes"]
            odd = sorted(name for name in {*current, *saved} if current.get(name) != saved.get(name))
            raise CheckpointError(
                f"the variables in {self.folder} differ from those of the model: {', '.join(odd[:3])}"
            )
        weights, arrays = os.path.join(self.folder, facts["weights"]), self._arrays()
        for number, (callback, names) in enumerate(zip(callbacks, facts["files"], strict=True)):
            self._restore_files(number, callback, names)
        if problem := damage_of(weights):
            raise DamagedError(f"of its checkpoint {facts['weights']}, {problem}")
        callback_state.restore(callbacks, facts["callbacks"], arrays)
        checkpoint_restoring.restore(state, weights).expect_partial()
        return self._history(model, facts)

    def _arrays(self) -> list[np.ndarray]:
        path = os.path.join(self.folder, _ARRAYS)
        return list(read_arrays(path).values()) if file_io.exists(path) else []

    def _history(self, model: keras.Model, facts: FitFacts) -> keras.callbacks.History:
        history = keras_of(model).callbacks.History()
        history.set_model(model)
        history.set_params(dict(facts["params"]))
        history.epoch = list(facts["epochs"])
        history.history = {name: list(series) for name, series in facts["history"].items()}
        model.history = history
        model.stop_training = facts["stopped"]
        return history

    def _link(self, checkpoint: str) -> None:
        """Adds a checkpoint's files to this folder, as hard links if the file system supports them."""
        for path in file_io.glob(f"{glob.escape(checkpoint)}.*"):
            target = os.path.join(self.folder, os.path.basename(path))
            try:
                os.link(path, target)
            except OSError:  # another file system, one without hard links, or a remote one
                _copy(path, target)

    def _copy_files(self, number: int, callback: keras.callbacks.Callback) -> list[str]:
        """Copies the files that a callback wrote, because the folders of a failed run may be deleted."""
        paths = callback_state.files_of(callback)
        for path in paths:
            _copy(path, os.path.join(self.folder, _FILES, str(number), os.path.basename(path)))
        return [os.path.basename(path) for path in paths]

    def _restore_files(self, number: int, callback: keras.callbacks.Callback, names: Sequence[str]) -> None:
        for name in names:
            source = os.path.join(self.folder, _FILES, str(number), name)
            target = os.path.join(os.path.dirname(os.fspath(callback.filepath)), name)
            if not file_io.exists(source):
                raise DamagedError(f"the file {name} of a callback is missing")
            if not file_io.exists(target):
                _copy(source, target)

    def _require_free_space(self, size: int) -> None:
        if file_io.is_remote(self.folder):
            return
        if (free := shutil.disk_usage(self.folder).free) < _FREE_SPACE_FACTOR * size:
            raise NotSavedError(f"{self.folder} has {free} bytes of free disk space, and the state needs about {size}")


def _copy(source: str, target: str) -> None:
    if file_io.isdir(source):
        file_io.copytree(source, target)
    else:
        file_io.makedirs(file_io.parent(target))
        file_io.file_system(target).copy(source, target, overwrite=True)


def _require_finite(model: keras.Model) -> None:
    for variable in model.weights:
        if not hasattr(variable, "dtype"):  # Keras 2 lists lookup tables among the weights
            continue
        value = tf.convert_to_tensor(variable)
        if value.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(value))):
            raise NotSavedError(f"the weights of {variable.name} are NaN or infinite")


def _number(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else np.asarray(value).tolist()
