"""Keeps the state at the end of each `fit` of a run, and restores it instead of repeating the same call."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from ..checkpoints.damage import DamagedError, set_aside
from ..checkpoints.directory import FINISHED_FITS, UNPUBLISHED
from ..compat.keras import is_keras_2
from ..errors import StorageError
from ..modules.keras_version import backend_in_use
from ..monitoring.progress import reported_step, skip_to
from ..runtime.files import file_io
from . import callback_state, fit_call
from .fit_state import FitFacts, FitState
from .interception import KerasCall, KerasObserver
from .replay import replay
from .step_count import iterations_of
from .weight_fingerprints import of_weights

if TYPE_CHECKING:
    import keras

    from ..fn_args import FnArgs
    from ..modules.training_code import TrainingCode

RESUMES_ITSELF = "resumes_by_its_own_checkpoints"  # attribute of models that resume from their own checkpoints
_PACKAGE = __name__.partition(".")[0]


class FitKeeper(KerasObserver):
    """Keeps and restores completed fits. Must be the innermost observer: a restored fit does not call `proceed`."""

    def __init__(self, fn_args: FnArgs, code: TrainingCode) -> None:
        self._code = code
        self._folder = os.path.join(fn_args.checkpoint_dir, UNPUBLISHED, FINISHED_FITS)
        self._thread = threading.get_ident()
        self._fits = 0
        self._trains = False  # True from the first fit without a matching state

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Restores the fit if it was completed in an earlier attempt; otherwise runs it and keeps its final state."""
        # The order of fits in other threads, or in callbacks of another fit, is not deterministic.
        in_order = threading.get_ident() == self._thread and not call.is_nested
        is_kept = is_keras_2(call.model) or backend_in_use() == "tensorflow"  # checkpoints hold no models of others
        if not in_order or not is_kept or call.has_callback_list or getattr(call.model, RESUMES_ITSELF, False):
            return proceed()
        return self._restore_or_run(call, proceed)

    def _restore_or_run(
        self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]
    ) -> keras.callbacks.History:
        self._fits += 1
        model, callbacks = call.model, call.callbacks
        state = FitState(os.path.join(self._folder, str(self._fits)))
        user_callbacks = [one for one in callbacks if type(one).__module__.partition(".")[0] != _PACKAGE]
        facts = {
            **fit_call.describe(call.bound, model, user_callbacks),
            "code that runs before its end": self._code.digest(),
            "iterations of the optimizer when it begins": iterations_of(model),
        }
        if not self._trains:
            history = self._restore(call, state, facts, user_callbacks)
            if history is not None:
                return history
            self._trains = True
            self._delete_from(self._fits)
        before = callback_state.attributes(user_callbacks)
        history = proceed()
        self._keep(state, model, history, facts, user_callbacks, before, callbacks)
        return history

    def _restore(
        self,
        call: KerasCall,
        state: FitState,
        described: Mapping[str, object],
        user_callbacks: list[keras.callbacks.Callback],
    ) -> Any:
        """Restores a fit that was completed in an earlier attempt and returns its History; None if there is none."""
        try:
            facts = state.facts()
            if facts is None:
                return None
            if differs := fit_call.differences(described, facts["call"]):
                return self._log_difference("; ".join(differs))
            _build(call)
            if later := self._later_state(call.model):
                skip_to(later["reported"])
                return self._log_difference("the module has restored the weights of a later step itself")
            history = state.restore(call.model, user_callbacks)
        except DamagedError as error:
            return set_aside(state.folder, str(error), f"fit {self._fits} resumes from its last checkpoint, if any")
        except StorageError:
            raise
        except Exception as error:  # if the call itself is invalid, fit raises the error again
            return self._log_difference(str(error) or type(error).__name__)
        for one in call.callbacks:
            if skip_completed_fit := getattr(one, "skip_completed_fit", None):
                skip_completed_fit()
        skip_to(facts["reported"])
        replay(call.model, history, call.callbacks, call.arguments.get("validation_freq", 1))
        logging.info(
            "Fit %d of this run was completed in an earlier attempt that published no model. Restored its weights, "
            "optimizer and history from %s instead of training it again. To train it again, delete that folder.",
            self._fits, state.folder,
        )  # fmt: skip
        return history

    def _later_state(self, model: keras.Model) -> FitFacts | None:
        """Returns the facts of this fit or a later one if the model has the weights of its end already."""
        weights = set(of_weights(model.weights))
        states = [FitState(os.path.join(self._folder, name)) for name in self._from(self._fits)]
        return next((state.facts() for state in states if weights <= state.end_weights()), None)

    def _log_difference(self, reason: str) -> None:
        logging.warning(
            "Fit %d of this run was completed in an earlier attempt, but has changed and is trained again: %s.",
            self._fits, reason.rstrip("."),
        )  # fmt: skip

    def _keep(
        self,
        state: FitState,
        model: keras.Model,
        history: keras.callbacks.History,
        call: Mapping[str, object],
        user_callbacks: list[keras.callbacks.Callback],
        before: Sequence[Mapping[str, callback_state._Attribute]],
        callbacks: list[keras.callbacks.Callback],
    ) -> None:
        """Saves the state; a failure to save must not end the run."""
        weights = next((one.end for one in callbacks if hasattr(one, "skip_completed_fit")), "")
        try:
            state.save(model, history, call, user_callbacks, before, weights, reported=reported_step())
        except Exception as error:  # including models that TensorFlow cannot save
            file_io.rmtree(state.folder)
            logging.warning(
                "The final state of fit %d was not saved: %s. If this run fails later, the next run trains it again.",
                self._fits, str(error).rstrip(".") or type(error).__name__,
            )  # fmt: skip

    def _delete_from(self, number: int) -> None:
        """Deletes the states of this fit and of all later ones, which were trained from different states."""
        for name in self._from(number):
            file_io.rmtree(os.path.join(self._folder, name))

    def _from(self, number: int) -> list[str]:
        """Returns the folders of the states of this fit and of all later ones."""
        names = file_io.listdir(self._folder) if file_io.isdir(self._folder) else []
        return [name for name in names if name.isdigit() and int(name) >= number]


def _build(call: KerasCall) -> None:
    """Creates the model's variables in the same way as `fit`."""
    if not is_keras_2(call.model):
        untrained = {name: value for name, value in call.arguments.items() if value is not call.model}
        untrained |= {"callbacks": None, "validation_data": None, "validation_split": 0.0, "verbose": 0}
        call.original(call.model, **{**untrained, "epochs": untrained.get("initial_epoch", 0)})
    if not call.model.built:
        call.model(_features(call.arguments), training=False)


def _features(arguments: Mapping[str, Any]) -> object:
    """Returns the features of the first batch of the data passed to `fit`."""
    x = arguments["x"]
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not hasattr(x, "shape"):
        batch = x[0]  # a Sequence
    elif hasattr(x, "shape") or isinstance(x, dict):
        return tf.nest.map_structure(lambda array: tf.convert_to_tensor(array[:1]), x)
    else:
        batch = next(iter(x))
    return batch[0] if isinstance(batch, tuple) else batch
