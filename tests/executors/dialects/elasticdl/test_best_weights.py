"""The best weights are those at the last call of `keep`, in memory or in a file."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl import best_weights
from generic_trainer.executors.dialects.elasticdl.best_weights import BestWeights


def trained(model: tf.keras.Model) -> None:
    """Trains an embedding, whose rows are updated one by one, and a dense layer."""
    model.fit(tf.constant([[1], [2]]), tf.constant([[3.0], [5.0]]), epochs=2, verbose=0)


@pytest.mark.parametrize("most", [1 << 20, 0], ids=["in memory", "in a file"])
def test_weights_are_those_when_they_were_kept(
    most: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_weights, "_MAX_BYTES", most)
    layers = [tf.keras.layers.Embedding(4, 2), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input((1,), dtype="int32"), *layers])
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    best = BestWeights(model, str(tmp_path / "best" / "weights"))
    best.keep()
    trained(model)
    best.keep()
    expected = model.get_weights()
    assert (tmp_path / "best" / "weights.index").exists() == (most == 0)
    trained(model)
    assert not np.array_equal(model.get_weights()[0], expected[0])
    path = best.save()
    tf.train.Checkpoint(model=model).read(path).assert_consumed()
    for found, kept in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(found, kept)
    assert best.save() == path
