"""Keeps the state at the end of each `fit` of a run, and restores it instead of repeating the same call.

The states are kept until the run's model is published. When a run that published no model is repeated, the same `fit`
calls restore their states and return the same History. The first call that differs, and all calls after it, are
trained. The module's code that runs before the end of a fit must be unchanged (`TrainingCode`), so the export can be
fixed without training again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from ...checkpoints.damage import DamagedError, set_aside
from ...compat.keras import is_keras_2
from ...errors import StorageError
from ...keras.interception import KerasCall, KerasObserver
from ...keras.step_count import iterations_of
from ...keras.weight_fingerprints import of_weights
from ...modules.keras_version import backend_in_use
from ...monitoring.progress import reported_step, skip_to
from ...runtime.files import file_io
from . import fit_call
from .callback_state import CallbackState
from .stored_fit import FitFacts, StoredFit
from .training_code import TrainingCode

if TYPE_CHECKING:
    import keras

_PACKAGE = __name__.partition(".")[0]
_RESUMES_ITSELF = "resumes_by_its_own_checkpoints"  # attribute of models that resume from their own checkpoints


class _ChangedError(Exception):
    """A stored fit must not be restored; the message gives the reason."""


class FitKeeper(KerasObserver):
    """Keeps and restores completed fits. Must be the innermost observer: a restored fit does not call `proceed`.

    Args:
      folder: Folder for the states, the same in all attempts of the run.
      code: The module's code.
    """

    def __init__(self, folder: str, code: TrainingCode) -> None:
        self._folder, self._code = folder, code
        self._thread = threading.get_ident()
        self._fits = 0
        self._trains = False  # True from the first fit without a matching state

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Restores the fit if it was completed in an earlier attempt; otherwise runs it and keeps its final state."""
        if not self._is_kept(call):
            return proceed()
        self._fits += 1
        callbacks = [kept for kept in call.callbacks if type(kept).__module__.partition(".")[0] != _PACKAGE]
        description = {
            **fit_call.describe(call.bound, call.model, callbacks),
            "code that runs before its end": self._code.digest(),
            "iterations of the optimizer when it begins": iterations_of(call.model),
        }
        stored = StoredFit(os.path.join(self._folder, str(self._fits)))
        if not self._trains:
            if history := self._restored(call, stored, description, callbacks):
                return history
            self._trains = True
            for later in self._stored_from_here():  # they were trained from different states
                file_io.rmtree(later.folder)
        states = [CallbackState(callback) for callback in callbacks]
        history = proceed()
        backup = _backup(call)
        try:
            checkpoint = backup.end if backup is not None else ""
            stored.save(call.model, description, history, states, checkpoint, reported_step())
        except Exception as error:  # including models that TensorFlow cannot save; must not end the run
            file_io.rmtree(stored.folder)
            logging.warning(
                "The final state of fit %d was not saved: %s. If this run fails later, the next run trains it again.",
                self._fits, str(error).rstrip(".") or type(error).__name__,
            )  # fmt: skip
        return history

    def _is_kept(self, call: KerasCall) -> bool:
        # The order of fits in other threads, or in callbacks of another fit, is not deterministic.
        is_in_order = threading.get_ident() == self._thread and not call.is_nested
        # TensorFlow's checkpoints hold no models of other backends.
        is_of_tensorflow = is_keras_2(call.model) or backend_in_use() == "tensorflow"
        resumes_itself = call.has_callback_list or getattr(call.model, _RESUMES_ITSELF, False)
        return is_in_order and is_of_tensorflow and not resumes_itself

    def _restored(
        self,
        call: KerasCall,
        stored: StoredFit,
        description: Mapping[str, object],
        callbacks: list[keras.callbacks.Callback],
    ) -> keras.callbacks.History | None:
        """Restores a fit of an earlier attempt and returns its History; None if it must be trained."""
        facts = stored.facts()
        if facts is None:
            return None
        try:
            if differences := fit_call.differences(description, facts.call):
                raise _ChangedError("; ".join(differences))
            _build(call)
            if later := self._later_state(call.model):
                skip_to(later.reported)
                raise _ChangedError("the module has restored the weights of a later step itself")
            history = stored.restore(facts, call.model, callbacks)
        except DamagedError as error:
            set_aside(stored.folder, str(error), f"fit {self._fits} resumes from its last checkpoint, if any")
            return None
        except StorageError:
            raise
        except Exception as error:  # if the call itself is invalid, fit raises the error again
            logging.warning(
                "Fit %d of this run was completed in an earlier attempt, but has changed and is trained again: %s.",
                self._fits, str(error).rstrip(".") or type(error).__name__,
            )  # fmt: skip
            return None
        if backup := _backup(call):
            backup.skip_completed_fit()
        skip_to(facts.reported)
        logging.info(
            "Fit %d of this run was completed in an earlier attempt that published no model. Restored its weights, "
            "optimizer and history from %s instead of training it again. To train it again, delete that folder.",
            self._fits, stored.folder,
        )  # fmt: skip
        return history

    def _later_state(self, model: keras.Model) -> FitFacts | None:
        """Returns the facts of this fit or a later one if the model has the weights of its end already."""
        weights = list(of_weights(model.weights))
        states = (stored.facts() for stored in self._stored_from_here())
        return next((facts for facts in states if facts and facts.fingerprints == weights), None)

    def _stored_from_here(self) -> Iterator[StoredFit]:
        """Yields the states of this fit and of all later ones."""
        for name in file_io.listdir(self._folder) if file_io.isdir(self._folder) else []:
            if name.isdigit() and int(name) >= self._fits:
                yield StoredFit(os.path.join(self._folder, name))


def _backup(call: KerasCall) -> Any:
    """Returns the first callback of `callbacks(fn_args)`, or None."""
    return next((callback for callback in call.callbacks if hasattr(callback, "skip_completed_fit")), None)


def _build(call: KerasCall) -> None:
    """Creates the model's variables in the same way as `fit`."""
    if not is_keras_2(call.model):  # Keras 2 requires an epoch
        arguments: dict[str, Any] = {name: value for name, value in call.arguments.items() if value is not call.model}
        arguments |= {"callbacks": None, "validation_data": None, "validation_split": 0.0, "verbose": 0}
        call.original(call.model, **{**arguments, "epochs": arguments.get("initial_epoch", 0)})
    if not call.model.built:
        call.model(_features(call.arguments["x"]), training=False)


def _features(x: Any) -> object:
    """Returns the features of the first batch of the data passed to `fit`."""
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not hasattr(x, "shape"):
        batch = x[0]  # a Sequence
    elif hasattr(x, "shape") or isinstance(x, dict):
        return tf.nest.map_structure(lambda array: tf.convert_to_tensor(array[:1]), x)
    else:
        batch = next(iter(x))
    return batch[0] if isinstance(batch, tuple) else batch
