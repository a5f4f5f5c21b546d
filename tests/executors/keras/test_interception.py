"""Observers see each Keras call of a run once, in order, and what they change holds; of Keras 2 and 3."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import generic_trainer
from generic_trainer.executors.estimator.run_goals import RunGoals
from generic_trainer.executors.evaluation import evidence
from generic_trainer.executors.features.early_stopping.goal_callback import GoalObserver
from generic_trainer.executors.goals import Goal
from generic_trainer.executors.keras import evaluations, fit_progress
from generic_trainer.executors.keras.attempt_log import AttemptLog
from generic_trainer.executors.keras.evaluated_weights import Evaluated
from generic_trainer.executors.keras.interception import KerasCall, KerasObserver
from generic_trainer.executors.keras.step_count import EpochLog
from generic_trainer.executors.monitoring import progress
from generic_trainer.executors.preflight.loops import Loops
from generic_trainer.executors.preflight.watch import Watch
from generic_trainer.executors.runtime.observers import observed_by

pytestmark = pytest.mark.legacy
NATIVE = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 16)
X = np.ones((8, 2), "float32")


@pytest.fixture(params=["keras"] if NATIVE else ["keras", "tf_keras"])
def keras(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


def compiled(keras: Any) -> Any:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


class Noting(KerasObserver):
    """Notes what it sees, with its name."""

    def __init__(self, name: str, seen: list[Any]) -> None:
        self._name, self._seen = name, seen

    def fit(self, call: KerasCall, proceed: Callable[[], Any]) -> Any:
        self._seen.append((self._name, "fit", call.arguments.get("epochs"), call.is_nested))
        call.arguments["epochs"] = call.arguments.get("epochs", 1) + 1
        history = proceed()
        self._seen.append((self._name, "epochs done", len(history.epoch)))
        return history

    def evaluate(self, call: KerasCall, proceed: Callable[[], Any]) -> Any:
        self._seen.append((self._name, "evaluate", call.has_callback_list))
        return proceed()

    def note_batch(self, split: str, model: Any, returned: Any) -> None:
        self._seen.append((self._name, split))


def test_each_call_is_seen_from_the_outermost_observer_inwards(keras: Any) -> None:
    seen: list[Any] = []
    model, before = compiled(keras), keras.Model.fit
    with observed_by(Noting("a", seen)), observed_by(Noting("b", seen)):
        model.fit(X, X[:, :1], verbose=0, validation_data=(X, X[:, :1]), validation_freq=3)
        model.evaluate(X, X[:, :1], verbose=0)
        model.train_on_batch(X, X[:, :1])
        model.test_on_batch(X, X[:, :1])
    model.fit(X, X[:, :1], verbose=0)
    assert keras.Model.fit is before
    assert seen == [
        *[("a", "fit", None, False), ("b", "fit", 2, False)],
        *[("a", "evaluate", True), ("b", "evaluate", True)],  # in the third epoch
        *[("b", "epochs done", 3), ("a", "epochs done", 3)],
        *[("a", "evaluate", False), ("b", "evaluate", False)],
        *[("a", "train"), ("b", "train"), ("a", "eval"), ("b", "eval")],
    ]


def test_a_fit_within_a_fit_is_nested_also_in_a_thread_of_the_run(keras: Any) -> None:
    seen: list[Any] = []
    inner = compiled(keras)
    within = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: inner.fit(X, X[:, :1], verbose=0))
    with observed_by(Noting("a", seen)):
        compiled(keras).fit(X, X[:, :1], verbose=0, callbacks=[within], epochs=0)
        thread = threading.Thread(target=lambda: inner.fit(X, X[:, :1], verbose=0))
        thread.start()
        thread.join()
    fits = [one[2:] for one in seen if one[1] == "fit"]
    assert fits == [(0, False), (None, True), (None, False)]


def test_a_callback_is_added_to_what_the_module_gives(keras: Any) -> None:
    ended: list[str] = []

    def ending(name: str) -> Any:
        return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ended.append(name))

    class Adding(KerasObserver):
        def fit(self, call: KerasCall, proceed: Callable[[], Any]) -> Any:
            call.add_callback(ending("first"), first=True)
            call.add_callback(ending("last"))
            return proceed()

    model = compiled(keras)
    theirs: list[Any] = [None, [ending("own")], (ending("own"),), ending("own")]
    if keras.__version__ < "3":
        theirs.pop()  # Keras 2 takes a list only
    theirs.append(keras.callbacks.CallbackList([ending("own")], model=model, add_history=True))
    with observed_by(Adding()):
        for callbacks in theirs:
            ended.clear()
            model.fit(X, X[:, :1], verbose=0, callbacks=callbacks)
            assert ended == (["first", "last"] if callbacks is None else ["first", "own", "last"])


def test_a_callback_list_that_is_used_again_is_as_before(keras: Any) -> None:
    ended: list[str] = []

    class Adding(KerasObserver):
        def fit(self, call: KerasCall, proceed: Callable[[], Any]) -> Any:
            call.add_callback(keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ended.append("added")))
            return proceed()

    model = compiled(keras)
    callbacks = keras.callbacks.CallbackList([], model=model, add_history=True)
    before = list(callbacks.callbacks)
    with observed_by(Adding()):
        for _ in range(2):
            model.fit(X, X[:, :1], verbose=0, callbacks=callbacks)
    assert ended == ["added", "added"]
    assert callbacks.callbacks == before


def test_wrong_arguments_are_refused_by_keras(keras: Any) -> None:
    with (
        observed_by(Noting("a", [])),
        pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'wrong'"),
    ):
        compiled(keras).fit(X, X[:, :1], wrong=1)


def observers() -> dict[str, Callable[[], Any]]:
    """Returns what enters each of the package's observers that adds callbacks, by class."""
    goal = Goal("val_loss", 3, "min")
    return {
        "goal_callback.GoalObserver": lambda: observed_by(GoalObserver(RunGoals(goal, goal), True, "", True)),
        "evaluations.KerasEvaluations": lambda: evaluations.observed([], AttemptLog(Evaluated)),
        "fit_progress._Progress": lambda: fit_progress.fit_progress_reported([], EpochLog()),
        "loops.Loops": lambda: observed_by(Loops(Watch([], lambda seen: None))),
        "evidence.Observer": lambda: evidence.observed([]),
    }


def test_every_observer_keeps_the_contract_for_several_workers(keras: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its callbacks are called on all workers, and no step waits for logs."""
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    added: list[Any] = []

    class Last(KerasObserver):
        def fit(self, call: KerasCall, proceed: Callable[[], Any]) -> Any:
            added.extend(call.callbacks)
            return proceed()

    with contextlib.ExitStack() as stack:
        for enter in observers().values():
            stack.enter_context(enter())
        with observed_by(Last()):
            compiled(keras).fit(X, X[:, :1], validation_data=(X, X[:, :1]), verbose=0)
    assert len(added) == 7
    for callback in added:
        assert type(callback).__mro__[1].__qualname__ == "callback_class.<locals>.ObserverCallback", type(callback)
        assert callback._supports_tf_logs
        assert callback._chief_worker_only is False


def test_no_observer_is_missing_above() -> None:
    for module in pkgutil.walk_packages(generic_trainer.__path__, "generic_trainer."):
        if ".executors." in module.name and re.search(r"keras|\.features\.", module.name):
            importlib.import_module(module.name)
    without_callbacks = {"completed_fits.FitKeeper", "backups._Repair", "search._QuietTrials"}
    found = {
        f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        for kind in KerasObserver.__subclasses__()
        if kind.__module__.startswith("generic_trainer.")
    }
    assert found - without_callbacks == set(observers())
