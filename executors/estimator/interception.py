"""Observers of the Estimator calls in a run, including those of `train_and_evaluate`.

    class Print(EstimatorObserver):
        def evaluate(self, call: EstimatorCall, proceed: Callable[[], Metrics]) -> Metrics:
            metrics = proceed()
            print(metrics)
            return metrics

    with observed_by(Print()):
        run_fn(fn_args)

All Estimators derive from one class. It is patched when the first observer is added, or when `tf.estimator` is restored
later in the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import run_context
from ..compat import tensorflow_estimator as compat
from ..compat.patching import replaced
from ..runtime.observers import ObservedCall, Observer, call_through, observers_of
from .runtime import RestorationListener

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    Results: TypeAlias = Mapping[str, np.generic]


class EstimatorCall(ObservedCall):
    """A call of a method of an Estimator."""

    @property
    def estimator(self) -> tf.estimator.Estimator:
        """The Estimator; for `train_and_evaluate`, the object that runs it."""
        return self.bound.args[0]


class EstimatorObserver(Observer):
    """Base class of observers of Estimators; its methods change nothing.

    Each is called around a call, whose arguments can be changed before `proceed`, and returns its result.
    """

    @staticmethod
    def interception() -> contextlib.AbstractContextManager[None]:
        """Patches the Estimator class now, or when `tf.estimator` is restored."""
        return _intercepted()

    def train_and_evaluate(self, call: EstimatorCall, proceed: Callable[[], None]) -> None:
        """Called when `train_and_evaluate` begins, with the arguments `train_spec` and `eval_spec`."""
        proceed()

    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        """Called around each `train`."""
        return proceed()

    def training_loop(self, call: EstimatorCall, proceed: Callable[[], object]) -> object:
        """Called around the loop within `train`, which returns the loss of the last step."""
        return proceed()

    def evaluate(self, call: EstimatorCall, proceed: Callable[[], Results]) -> Results:
        """Called around each `evaluate`."""
        return proceed()

    def call_model_fn(
        self, call: EstimatorCall, proceed: Callable[[], tf.estimator.EstimatorSpec]
    ) -> tf.estimator.EstimatorSpec:
        """Called around each call of `model_fn`, while its graph is open."""
        return proceed()

    def export(self, call: EstimatorCall, proceed: Callable[[], object]) -> object:
        """Called around each export of a SavedModel; its folder is the argument `export_dir_base`."""
        return proceed()


@contextlib.contextmanager
def _intercepted() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if compat.estimator_class() is not None:
            _patch(stack)
        else:
            stack.enter_context(run_context.extended(RestorationListener(lambda: _patch(stack))))
        yield


def _patch(stack: contextlib.ExitStack) -> None:
    estimator_class, executor_class = compat.estimator_class(), compat.executor_class()
    if executor_class is not None:
        stack.enter_context(replaced(executor_class, "__init__", _train_and_evaluate))
    if estimator_class is not None:
        stack.enter_context(replaced(estimator_class, "train", _train))
        stack.enter_context(replaced(estimator_class, "evaluate", _evaluate))
        stack.enter_context(replaced(estimator_class, compat.TRAINING_LOOP, _training_loop))
        stack.enter_context(replaced(estimator_class, compat.MODEL_FN_CALL, _call_model_fn))
        stack.enter_context(replaced(estimator_class, compat.EXPORT, _export))


def _through(
    method_of: Callable[[EstimatorObserver], Callable[[EstimatorCall, Callable[[], Any]], object]],
) -> Callable[..., object]:
    """Returns the replacement of a method: it calls the method of each observer."""

    def called(original: Callable[..., object], *args: object, **options: object) -> object:
        call = EstimatorCall.of(original, args, options)
        if call is None:
            return original(*args, **options)
        return call_through([method_of(observer) for observer in observers_of(EstimatorObserver)], call)

    return called


_train_and_evaluate = _through(lambda observer: observer.train_and_evaluate)
_train = _through(lambda observer: observer.train)
_training_loop = _through(lambda observer: observer.training_loop)
_evaluate = _through(lambda observer: observer.evaluate)
_call_model_fn = _through(lambda observer: observer.call_model_fn)
_export = _through(lambda observer: observer.export)
