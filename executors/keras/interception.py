"""Observers of the Keras calls in a run: `Model.fit`, `evaluate`, `train_on_batch` and `test_on_batch`.

A feature that monitors or changes trainings is implemented as an observer. Its methods wrap those of the model, like
middleware: the observer that was entered first is the outermost.

    class Verbose(KerasObserver):
        def fit(self, call: KerasCall, proceed: Callable[[], History]) -> History:
            call.arguments["verbose"] = 1
            return proceed()

    with observed_by(Verbose()):
        run_fn(fn_args)

The methods of Keras are patched once, when the first observer is entered, and each call's arguments are bound once.
The Model class of `tf.keras` and those of other imported Keras packages are patched.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..compat.keras_losses import output_losses_corrected
from ..compat.patching import replaced
from ..modules.keras_version import KERAS_PACKAGES
from ..runtime.observers import ObservedCall, Observer, call_through, observers_of

if TYPE_CHECKING:
    import keras

_SPLITS = {"train_on_batch": "train", "test_on_batch": "eval"}


class KerasCall(ObservedCall):
    """A call of a model's `fit` or `evaluate`.

    Attributes:
      model: The model.
      is_nested: Whether another `fit` of the run is in progress, for example one whose callback makes this call.
    """

    def __init__(self, original: Callable[..., object], bound: inspect.BoundArguments, is_nested: bool) -> None:
        super().__init__(original, bound, is_nested)
        self.model: keras.Model = bound.args[0]
        self._added: list[keras.callbacks.Callback] = []

    @property
    def has_callback_list(self) -> bool:
        """Whether the callbacks are a `keras.callbacks.CallbackList`, as in the `evaluate` call within `fit`."""
        return isinstance(getattr(self.arguments.get("callbacks"), "callbacks", None), list)

    @property
    def callbacks(self) -> list[keras.callbacks.Callback]:
        """A copy of the callbacks as a list."""
        given: Any = self.arguments.get("callbacks")
        if self.has_callback_list:
            return list(given.callbacks)
        if given is None:
            return []
        return list(given) if isinstance(given, (list, tuple)) else [given]

    def begins_training(self, fits: int) -> bool:
        """Whether this fit is a training of its own, after a number of others; with `initial_epoch`, it continues."""
        return not fits or not self.arguments.get("initial_epoch")

    def add_callback(self, callback: keras.callbacks.Callback, first: bool = False) -> None:
        """Adds a callback for this call, after the other callbacks, or before them if `first` is True."""
        self._added.append(callback)
        if self.has_callback_list:
            given: keras.callbacks.CallbackList = self.arguments["callbacks"]
            callback.set_model(self.model)
            callback.set_params(getattr(given, "params", None) or {})
            given.callbacks.insert(0 if first else len(given.callbacks), callback)
        else:
            self.arguments["callbacks"] = [callback, *self.callbacks] if first else [*self.callbacks, callback]

    def remove_callbacks(self) -> None:
        """Removes the added callbacks from a `CallbackList`, because the module may reuse it in its next `fit`."""
        if self.has_callback_list:
            given: keras.callbacks.CallbackList = self.arguments["callbacks"]
            given.callbacks[:] = [item for item in given.callbacks if not any(item is added for added in self._added)]


class KerasObserver(Observer):
    """Base class of observers of Keras; its methods change nothing."""

    @staticmethod
    def interception() -> contextlib.AbstractContextManager[None]:
        """Patches the imported Keras packages."""
        return _intercepted()

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Called around each `fit`.

        Args:
          call: The call; its arguments can be changed before `proceed` is called.
          proceed: Calls the next observer; the last one calls Keras.

        Returns:
          The History object that `fit` returns to the module.
        """
        return proceed()

    def evaluate(self, call: KerasCall, proceed: Callable[[], object]) -> object:
        """Called around each `evaluate`, including the validation within `fit`."""
        return proceed()

    def note_batch(self, split: str, model: keras.Model, returned: object) -> None:
        """Called after each `train_on_batch` and `test_on_batch`; must be cheap.

        Args:
          split: "train" for `train_on_batch`, "eval" for `test_on_batch`.
          model: The model.
          returned: Return value of the method.
        """

    def note_call(self, layer: keras.layers.Layer, result: object) -> None:
        """Called after each call of a layer or model, also by Keras; must be cheap.

        Args:
          layer: The layer or model.
          result: The tensors that it returned: symbolic ones where a function is traced.
        """


def may_use_keras(files: Sequence[str]) -> bool:
    """Returns whether a module's source files mention Keras, or Keras is imported (TensorFlow imports Keras 3)."""
    is_imported = "tf_keras" in sys.modules or ("keras" in sys.modules and not os.environ.get("TF_USE_LEGACY_KERAS"))
    return is_imported or any(b"keras" in Path(file).read_bytes() for file in files)


def keras_of(model: keras.Model) -> ModuleType:
    """Returns the Keras package of a model, which may differ from `tf.keras`."""
    packages = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return importlib.import_module(next(package for package in packages if package in KERAS_PACKAGES))


def callback_class(model: keras.Model) -> type[keras.callbacks.Callback]:
    """Returns the base class for callbacks that observers add to a model's `fit`.

    With several workers, each worker runs the callback at the same steps with the logs of all workers. A callback must
    make the same decisions on all workers, read variables on all workers or on none, and write files on the chief only.
    """

    class ObserverCallback(keras_of(model).callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._supports_tf_logs = True  # otherwise tf-keras waits for the logs after every batch
            self._chief_worker_only = False

    return ObserverCallback


@contextlib.contextmanager
def _intercepted() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        classes = _model_classes()
        stack.enter_context(output_losses_corrected())
        for model_class in classes:
            stack.enter_context(replaced(model_class, "fit", observed_fit))
            stack.enter_context(replaced(model_class, "evaluate", _evaluate))
            for name, split in _SPLITS.items():
                stack.enter_context(replaced(model_class, name, functools.partial(_on_batch, split)))
        for layer_class in {_layer_class(model_class) for model_class in classes}:
            stack.enter_context(replaced(layer_class, "__call__", _call))
        yield


def _model_classes() -> list[type[keras.Model]]:
    import tensorflow as tf

    classes = [tf.keras.Model]
    for package in KERAS_PACKAGES:
        model_class = getattr(sys.modules.get(package), "Model", None)
        if model_class is not None and model_class not in classes:
            classes.append(model_class)
    return classes


def _layer_class(model_class: type[keras.Model]) -> type[keras.layers.Layer]:
    """Returns Keras's Layer, from which its Model inherits."""
    return [base for base in model_class.__mro__ if base.__name__ == "Layer"][-1]


def observed_fit(original: Callable[..., object], *args: object, **options: object) -> object:
    """Calls `Model.fit`, or a loop that replaces it, through the observers.

    Args:
      original: The function; its first argument is the model, and the others are named like those of `fit`.
      args: Its positional arguments.
      options: Its keyword arguments.

    Returns:
      The function's result.
    """
    call = KerasCall.of(original, args, options)
    if call is None:
        return original(*args, **options)
    try:
        with call.in_progress():
            return call_through([observer.fit for observer in observers_of(KerasObserver)], call)
    finally:
        call.remove_callbacks()


def _evaluate(original: Callable[..., object], *args: object, **options: object) -> object:
    call = KerasCall.of(original, args, options)
    if call is None:
        return original(*args, **options)
    return call_through([observer.evaluate for observer in observers_of(KerasObserver)], call)


def _call(original: Callable[..., object], layer: keras.layers.Layer, *args: object, **options: object) -> object:
    result = original(layer, *args, **options)
    for observer in observers_of(KerasObserver):
        observer.note_call(layer, result)
    return result


def _on_batch(
    split: str, original: Callable[..., object], model: keras.Model, *args: object, **options: object
) -> object:
    returned = original(model, *args, **options)
    for observer in observers_of(KerasObserver):
        observer.note_batch(split, model, returned)
    return returned
