"""Keeps the state in which each `fit` of a run ended, and restores it in place of the same call."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from ..checkpoints.directory import FINISHED_FITS, UNPUBLISHED
from ..compat.keras import is_keras_2
from ..monitoring.progress import report_progress, reported_step
from ..runtime.files import file_io
from . import callback_state, fit_call
from .fit_state import FitState
from .interception import listed
from .replay import replay

if TYPE_CHECKING:
    from ..fn_args import FnArgs
    from ..modules.training_code import TrainingCode

RESUMES_ITSELF = "resumes_by_its_own_checkpoints"  # an attribute of models, where that is so
_OWN = __name__.partition(".")[0]


class FitKeeper:
    """Wraps the `Model.fit` calls of a run."""

    def __init__(self, fn_args: FnArgs, code: TrainingCode) -> None:
        self._code = code
        self._folder = os.path.join(fn_args.checkpoint_dir, UNPUBLISHED, FINISHED_FITS)
        self._thread = threading.get_ident()
        self._fits = 0
        self._is_inside = False
        self._trains = False  # from the first fit on that no state was found for

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **options: Any) -> Any:
        """Is called in place of `Model.fit`."""
        bound = inspect.signature(original).bind(model, *args, **options)
        callbacks = bound.arguments.get("callbacks")
        is_listed = callbacks is None or isinstance(callbacks, (list, tuple)) or not hasattr(callbacks, "append")
        # Fits in other threads, or in another fit's callback, come in no order that could be relied on.
        in_order = threading.get_ident() == self._thread and not self._is_inside
        if not in_order or not is_listed or getattr(model, RESUMES_ITSELF, False):
            return original(model, *args, **options)
        self._is_inside = True
        try:
            return self._one(original, model, bound, listed(callbacks))
        finally:
            self._is_inside = False

    def _one(self, original: Callable[..., Any], model: Any, bound: Any, callbacks: list[Any]) -> Any:
        self._fits += 1
        state = FitState(os.path.join(self._folder, str(self._fits)))
        theirs = [one for one in callbacks if type(one).__module__.partition(".")[0] != _OWN]
        call = {**fit_call.described(bound, model, theirs), "code that runs before its end": self._code.digest()}
        if not self._trains:
            history = self._restored(original, model, bound, state, call, callbacks, theirs)
            if history is not None:
                return history
            self._trains = True
            self._forget_from(self._fits)
        before = callback_state.attributes(theirs)
        history = original(*bound.args, **bound.kwargs)
        self._keep(state, model, history, call, theirs, before, callbacks)
        return history

    def _restored(
        self, original: Any, model: Any, bound: Any, state: FitState, call: Any, callbacks: list[Any], theirs: list[Any]
    ) -> Any:
        """Returns the History of a fit that ended in an earlier try, and restores all else of it; None without."""
        facts = state.facts()
        if facts is None:
            return None
        if differs := fit_call.differences(call, facts["call"]):
            return self._say_why_not("; ".join(differs))
        try:
            self._build(original, model, bound)
            history = state.restore(model, theirs)
        except Exception as error:  # what is wrong with the call, fit itself raises again
            return self._say_why_not(str(error) or type(error).__name__)
        for one in callbacks:
            if passed_over := getattr(one, "passed_over", None):
                passed_over(facts["steps"])
        report_progress(facts["reported"], steps=0)
        replay(model, history, callbacks, bound.arguments.get("validation_freq", 1))
        logging.info(
            "Fit %d of this run ended in an earlier try, which published no model. Its weights, optimizer and history "
            "are restored from %s, and it is not trained again. To train anew, delete that folder.",
            self._fits, state.folder,
        )  # fmt: skip
        return history

    def _say_why_not(self, reason: str) -> None:
        logging.warning(
            "Fit %d of this run ended in an earlier try, but differs now, so it is trained anew: %s.",
            self._fits, reason.rstrip("."),
        )  # fmt: skip

    def _build(self, original: Any, model: Any, bound: Any) -> None:
        """Makes a model's variables as fit does before it trains."""
        if not is_keras_2(model):
            untrained = {name: value for name, value in bound.arguments.items() if value is not model}
            untrained |= {"callbacks": None, "validation_data": None, "validation_split": 0.0, "verbose": 0}
            original(model, **{**untrained, "epochs": untrained.get("initial_epoch", 0)})
        if not model.built:
            model(_features(bound.arguments), training=False)

    def _keep(
        self, state: FitState, model: Any, history: Any, call: Any, theirs: list[Any], before: Any, callbacks: list[Any]
    ) -> None:
        """Saves the state; that it cannot is no reason to end a run that has trained."""
        backups = [one for one in callbacks if hasattr(one, "passed_over")]
        facts = {"steps": sum(one.steps for one in backups), "reported": reported_step()}
        weights = next((one.end for one in backups), "")
        try:
            state.save(model, history, call, theirs, before, weights, **facts)
        except Exception as error:  # also of a model that TensorFlow cannot save
            file_io.rmtree(state.folder)
            logging.warning(
                "The state in which fit %d ended is not kept: %s. A run that fails from here on trains it again.",
                self._fits, str(error).rstrip(".") or type(error).__name__,
            )  # fmt: skip

    def _forget_from(self, number: int) -> None:
        """Deletes the states of this fit and of those behind it, which were trained on from others."""
        names = file_io.listdir(self._folder) if file_io.isdir(self._folder) else []
        for name in names:
            if name.isdigit() and int(name) >= number:
                file_io.rmtree(os.path.join(self._folder, name))


def _features(arguments: Any) -> Any:
    """Returns the features of the first batch of what fit was given."""
    x = arguments["x"]
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not hasattr(x, "shape"):
        batch = x[0]  # a Sequence
    elif hasattr(x, "shape") or isinstance(x, dict):
        return tf.nest.map_structure(lambda array: tf.convert_to_tensor(array[:1]), x)
    else:
        batch = next(iter(x))
    return batch[0] if isinstance(batch, tuple) else batch
