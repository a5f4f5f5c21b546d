"""The state at the end of one `fit`, stored in a folder: weights, optimizer, history, and the callbacks' state.

Usage:

    stored = StoredFit(folder)
    stored.save(model, call, history, callbacks, weights="", reported=100)
    ...                                  # in the next run
    if facts := stored.facts():
        history = stored.restore(facts, model, callbacks)
"""

from __future__ import annotations

import dataclasses
import glob
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from ...checkpoints.damage import DamagedError, read_sidecar
from ...checkpoints.fallback import damage_of
from ...checkpoints.restore import mismatch_of, restore, variables_of
from ...errors import CheckpointError
from ...keras.interception import keras_of
from ...keras.model_state import state_of
from ...keras.weight_fingerprints import of_weights
from ...runtime.files import durable, file_io
from . import callback_state
from .callback_state import CallbackState, NotSavedError

if TYPE_CHECKING:
    import keras

_FACTS, _WEIGHTS, _FILES = "fit.json", "end", "files"
_FREE_SPACE_FACTOR = 3  # required free space as a multiple of the state's size, because the export also needs space


@dataclasses.dataclass(frozen=True)
class FitFacts:
    """Content of `fit.json`: the call, and the final state except weights.

    Attributes:
      call: The call, as returned by `fit_call.describe`.
      history, epochs, params: Those of the History that `fit` returned.
      stopped: Whether the model's `stop_training` was set.
      weights: Name of the checkpoint.
      fingerprints: Those of the model's weights.
      callbacks: The attributes that the fit has changed in each of the module's callbacks.
      reported: The reported steps of the run.
    """

    call: Mapping[str, object]
    history: dict[str, list[float]]
    epochs: list[int]
    params: dict[str, int | None]
    stopped: bool
    weights: str
    fingerprints: Sequence[str]
    callbacks: list[dict[str, object]]
    reported: int


class StoredFit:
    """The stored state at the end of one `fit`.

    Args:
      folder: Folder of this fit's state. The state is complete if it contains `fit.json`, which is written last.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._path = os.path.join(folder, _FACTS)

    def facts(self) -> FitFacts | None:
        """Returns the content of `fit.json`; None if the state is missing, incomplete or damaged."""
        names = [field.name for field in dataclasses.fields(FitFacts)]
        content = read_sidecar(self._path, names, "the fit resumes from its last checkpoint, if any")
        return FitFacts(**{name: content[name] for name in names}) if content else None

    def save(
        self,
        model: keras.Model,
        call: Mapping[str, object],
        history: keras.callbacks.History,
        callbacks: Sequence[CallbackState],
        weights: str,
        reported: int,
    ) -> None:
        """Saves the state of a model whose fit has ended.

        Args:
          model: The model.
          call: The call, as returned by `fit_call.describe`.
          history: The History that `fit` returned.
          callbacks: The states before the fit of the callbacks that the module passed.
          weights: Path of an existing checkpoint of this state; "" to write one.
          reported: The reported steps of the run.

        Raises:
          NotSavedError: If weights are NaN or infinite, a callback has attributes that cannot be stored, or there is
            not enough free disk space.
        """
        _require_finite(model)
        changes = [callback.changes() for callback in callbacks]
        file_io.makedirs(self.folder)
        if weights:
            self._link(weights)
        else:
            state = state_of(model)
            self._require_free_space(state)
            weights = state.save(os.path.join(self.folder, _WEIGHTS))
        for number, callback in enumerate(callbacks):
            for name, path in callback.files().items():
                file_io.copy(path, os.path.join(self._files(number), name))
        facts = FitFacts(
            call=call,
            history=history.history,
            epochs=history.epoch,
            params={name: value for name, value in history.params.items() if isinstance(value, (int, type(None)))},
            stopped=bool(model.stop_training),
            weights=os.path.basename(weights),
            fingerprints=of_weights(model.weights),
            callbacks=changes,
            reported=reported,
        )
        durable.sync_tree(self.folder)  # before `fit.json`, which marks the state as complete
        text = json.dumps(vars(facts), default=lambda value: np.asarray(value).tolist())
        file_io.write_text(self._path, text + "\n")

    def restore(
        self, facts: FitFacts, model: keras.Model, callbacks: Sequence[keras.callbacks.Callback]
    ) -> keras.callbacks.History:
        """Restores a built model and its fit's callbacks; returns the fit's History.

        Raises:
          CheckpointError: If the model's variables differ from the saved ones, or a file is damaged (`DamagedError`).
            The model is not changed then.
        """
        state, path = state_of(model), os.path.join(self.folder, facts.weights)
        if problem := damage_of(path):
            raise DamagedError(f"of its checkpoint {facts.weights}, {problem}")
        if problem := mismatch_of(state, path):
            raise CheckpointError(f"of {path}, {problem}")
        for number, (callback, changes) in enumerate(zip(callbacks, facts.callbacks, strict=True)):
            callback_state.restore(callback, changes, self._files(number))
        restore(state, path).expect_partial()
        history = keras_of(model).callbacks.History()
        history.set_model(model)
        history.set_params(facts.params)
        history.history, history.epoch = facts.history, facts.epochs
        model.history, model.stop_training = history, facts.stopped
        return history

    def _files(self, number: int) -> str:
        return os.path.join(self.folder, _FILES, str(number))

    def _link(self, checkpoint: str) -> None:
        """Adds a checkpoint's files to this folder, as hard links if the file system supports them."""
        for path in file_io.glob(f"{glob.escape(checkpoint)}.*"):
            target = os.path.join(self.folder, os.path.basename(path))
            try:
                os.link(path, target)
            except OSError:  # another file system, one without hard links, or a remote one
                file_io.copy(path, target)

    def _require_free_space(self, state: tf.train.Checkpoint) -> None:
        needed = _FREE_SPACE_FACTOR * 4 * sum(math.prod(shape) for _, shape, _ in variables_of(state).values())
        if not file_io.is_remote(self.folder) and (free := shutil.disk_usage(self.folder).free) < needed:
            raise NotSavedError(f"{self.folder} has {free} bytes of free disk space; {needed} are required")


def _require_finite(model: keras.Model) -> None:
    for variable in model.weights:
        if not hasattr(variable, "dtype"):  # Keras 2 lists lookup tables among the weights
            continue
        value = tf.convert_to_tensor(variable)
        if value.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(value))):
            raise NotSavedError(f"the weights of {variable.name} are NaN or infinite")
