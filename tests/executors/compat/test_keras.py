"""Every private name of Keras that is used, called on something small, with Keras 2 and Keras 3."""

from __future__ import annotations

import importlib.util
import pathlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.compat import keras as compat
from generic_trainer.executors.compat import keras_source

pytestmark = pytest.mark.legacy

X, Y = np.arange(12.0, dtype="float32").reshape(6, 2), np.ones((6, 1), "float32")


@pytest.fixture(params=["keras", "tf_keras"])
def keras(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


@pytest.fixture
def keras_2() -> ModuleType:
    return pytest.importorskip("tf_keras")


@pytest.fixture
def keras_3() -> ModuleType:
    keras = pytest.importorskip("keras")
    if keras.__version__ < "3":
        pytest.skip("Keras 2 is the only one here.")
    return keras


def _model(keras: ModuleType, **options: Any) -> Any:
    dropout = keras.layers.Dropout(0.5, seed=1)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3), dropout, keras.layers.Dense(1)])
    model.compile("sgd", "mse", **options)
    return model


def test_keras_2_and_3_are_told_apart(keras: ModuleType) -> None:
    assert compat.is_keras_2(_model(keras)) == (keras.__version__ < "3")


def test_a_fit_begins_at_an_epoch_and_the_next_one_at_its_own(keras: ModuleType) -> None:
    epochs: list[int] = []
    begin_at: list[int | None] = [2]

    class Later(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            compat.set_first_epoch(self.model, begin_at[0])

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            epochs.append(epoch)

    model = _model(keras)
    model.fit(X, Y, epochs=4, callbacks=[Later()], verbose=0)
    assert epochs == [2, 3]
    begin_at[0] = None
    model.fit(X, Y, epochs=2, callbacks=[Later()], verbose=0)
    assert epochs == [2, 3, 0, 1]


def test_steps_per_execution_is_a_variable_of_keras_2_only(keras: ModuleType) -> None:
    model = _model(keras, steps_per_execution=3)
    found = compat.steps_per_execution(model)
    if compat.is_keras_2(model):
        assert vars(model)[compat.STEPS_PER_EXECUTION] is found
        assert found.numpy() == 3
    else:
        assert not hasattr(found, "numpy")
        assert model.steps_per_execution == 3


def test_the_train_counter_counts_the_steps_of_keras_2(keras: ModuleType) -> None:
    model = _model(keras)
    model.fit(X, Y, batch_size=2, verbose=0)
    counter = compat.train_counter(model)
    assert (counter is not None) == compat.is_keras_2(model)
    assert counter is None or int(counter.numpy()) == 3


def test_what_is_built_is_known(keras: ModuleType) -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    assert not compat.is_built(model.optimizer)
    model.fit(X, Y, verbose=0)
    assert compat.is_built(model.optimizer)


def test_a_variable_of_keras_3_has_one_of_tensorflow(keras: ModuleType) -> None:
    model = _model(keras)
    found = compat.tensor_variable(model.variables[0])
    if compat.is_keras_2(model):
        assert found is None
    else:
        assert isinstance(found, tf.Variable)
        assert np.array_equal(found.numpy(), model.variables[0].numpy())


def test_layers_of_a_model_are_those_of_all_levels(keras: ModuleType) -> None:
    inner = _model(keras)
    outer = keras.Sequential([keras.layers.Input((2,)), inner, keras.layers.Dense(1)])
    found = {id(layer) for layer in compat.layers_of(outer)}
    assert {id(layer) for layer in (outer, inner, *inner.layers, *outer.layers)} <= found
    assert compat.layers_of(object()) == []


def test_seed_generators_are_those_that_keras_2_draws_from(keras_2: ModuleType) -> None:
    keras_2.utils.set_random_seed(3)
    generators = compat.seed_generators()
    assert generators
    before = [generator.getstate() for generator in generators]
    keras_2.Sequential([keras_2.layers.Input((2,)), keras_2.layers.Dense(3)])
    assert [generator.getstate() for generator in generators] != before


def test_the_seeds_of_layers_are_restored(keras_2: ModuleType) -> None:
    model = _model(keras_2)
    seeds = compat.layer_seeds(model)
    assert seeds
    before = [seed for _, seed in seeds]
    tf.function(lambda x: model(x, training=True))(tf.constant(X))
    assert [seed for _, seed in compat.layer_seeds(model)] != before
    compat.restore_layer_seeds(seeds)
    assert [seed for _, seed in compat.layer_seeds(model)] == before


def test_what_keras_sets_on_a_callback_is_listed(keras: ModuleType) -> None:
    class Mine(keras.callbacks.Callback):
        pass

    callback = Mine()
    _model(keras).fit(X, Y, callbacks=[callback], verbose=0)
    assert {name for name in vars(callback) if name.startswith("_")} <= set(compat.CALLBACK_ATTRIBUTES)


def test_tensorboard_knows_whether_it_profiles_batches(keras: ModuleType, tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    callbacks = [keras.callbacks.TensorBoard(folder, profile_batch=batch) for batch in (0, 2)]
    assert [getattr(callback, compat.TENSORBOARD_TRACES) for callback in callbacks] == [False, True]


def test_the_names_of_keras_3s_implementation_are_there(keras_3: ModuleType) -> None:
    assert importlib.util.find_spec(f"keras.{keras_source._IMPLEMENTATION[0]}") is not None
    assert keras_3.Model.__module__.split(".")[1] in keras_source._IMPLEMENTATION


def test_deferrable_modules_are_there(keras_3: ModuleType) -> None:
    del keras_3
    assert [name for name in compat.DEFERRABLE if importlib.util.find_spec(name) is None] == []
