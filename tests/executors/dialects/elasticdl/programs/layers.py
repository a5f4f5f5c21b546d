"""Rows on the layers. Most numbers are those of ElasticDL's own unit tests (elasticdl_preprocessing/tests)."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from elasticdl.python.elasticdl.layers.embedding import Embedding
from elasticdl_preprocessing import layers


def same(layer: Any, inputs: Any, expected: Any, dtype: Any = tf.int64) -> None:
    """Holds a layer against the values expected for a ragged list: ragged, sparse, and dense row by row."""
    for again in (layer, type(layer).from_config(layer.get_config())):
        ragged = tf.ragged.constant(inputs)
        wanted = tf.ragged.constant(expected, dtype=dtype)
        assert again(ragged).to_list() == wanted.to_list()
        sparse = again(ragged.to_sparse())
        assert sparse.dtype == dtype
        assert sparse.values.numpy().tolist() == wanted.flat_values.numpy().tolist()
        assert sparse.indices.numpy().tolist() == wanted.to_sparse().indices.numpy().tolist()
        dense = again(ragged.flat_values[:, tf.newaxis])
        assert dense.dtype == dtype
        assert dense.numpy().tolist() == wanted.flat_values[:, tf.newaxis].numpy().tolist()


def saved(model: Any, folder: pathlib.Path, *values: Any) -> list[Any]:
    """Returns what a model says after it was exported and loaded; it says the same when loaded by Keras."""
    expected = model(values[0] if len(values) == 1 else list(values)).numpy().tolist()
    tf.saved_model.save(model, str(folder / "exported"))
    signature = tf.saved_model.load(str(folder / "exported")).signatures["serving_default"]
    names = [tensor.name.partition(":")[0] for tensor in model.inputs]
    (served,) = signature(**dict(zip(names, values, strict=True))).values()
    assert served.numpy().tolist() == expected
    model.save(str(folder / "model.keras"))
    loaded = tf.keras.models.load_model(str(folder / "model.keras"))
    assert loaded(values[0] if len(values) == 1 else list(values)).numpy().tolist() == expected
    return expected


def normalizer(unused: pathlib.Path) -> None:
    # (x - 1) / 2
    same(layers.Normalizer(1.0, 2.0), [[3.0, 5.0], [7.0]], [[1.0, 2.0], [3.0]], tf.float32)
    same(layers.Normalizer(1, 2), [[3, 4], [7]], [[1.0, 1.5], [3.0]], tf.float32)
    with pytest.raises(ValueError, match="divisor is 0"):
        layers.Normalizer(1.0, 0)


def discretization(unused: pathlib.Path) -> None:
    layer = layers.Discretization(bins=[1, 5, 10])
    same(layer, [[0.2, 1.6, 4.2], [6.1], [10.9]], [[0, 1, 1], [2], [3]])
    same(layer, [[1, 5], [10]], [[1, 2], [3]])  # a boundary belongs to the bucket above
    assert layer.num_bins() == 4


def round_identity(unused: pathlib.Path) -> None:
    same(layers.RoundIdentity(num_buckets=10), [[1.2, 1.6, 0.2], [3.1, 4.9]], [[1, 2, 0], [3, 5]])
    same(layers.RoundIdentity(5, default_value=2), [[0.5, 1.5, 4.5], [-1.0, 5.0, float("nan")]], [[0, 2, 4], [2, 2, 2]])


def log_round(unused: pathlib.Path) -> None:
    # log2: 0.1, 1.8; 10.0 / minus infinity, 1.4, -2.3, 1.6, 10
    same(layers.LogRound(num_bins=20, base=2), [[1.1, 3.4], [1025.0]], [[0, 2], [10]])
    same(layers.LogRound(20, base=2), [[0.0, 2.6, 0.2, 3.1, 1024.0]], [[0, 1, 0, 2, 10]])
    # ln 20 = 3.0; ln 100 = 4.6 is out of range, as is what has no logarithm
    same(layers.LogRound(4, default_value=3), [[20.0, 2.0], [100.0, -1.0]], [[3, 1], [3, 3]])


def hashing(unused: pathlib.Path) -> None:
    layer = layers.Hashing(num_bins=3)
    same(layer, [["A", "B"], ["C", "D"], ["E"], []], [[1, 0], [1, 1], [2], []])
    by_text = layer(tf.constant([["12"], ["-7"]])).numpy().tolist()
    for dtype in (tf.int32, tf.int64):
        assert layer(tf.constant([[12], [-7]], dtype)).numpy().tolist() == by_text
    with pytest.raises(ValueError, match="num_bins is 0"):
        layers.Hashing(0)


def index_lookup(folder: pathlib.Path) -> None:
    same(layers.IndexLookup(["A", "B", "C"]), [["A", "B", "C"], ["D", "E"]], [[0, 1, 2], [3, 3]])
    same(layers.IndexLookup(["A"], num_oov_tokens=0), [["A", "B"]], [[0, -1]])
    (folder / "words").write_text("A\nB\nC\n")
    layer = layers.IndexLookup(str(folder / "words"), num_oov_tokens=2)
    assert layer.vocab_size() == 5
    # Out of the vocabulary: len(vocabulary) + hash % 2
    hashes = tf.strings.to_hash_bucket_fast(["D", "E"], 2).numpy().tolist()
    same(layer, [["A", "B", "C"], ["D", "E"]], [[0, 1, 2], [3 + hashes[0], 3 + hashes[1]]])
    (folder / "words").write_text("A\nB\nA\n")
    with pytest.raises(ValueError, match=r"words has duplicate terms: \['A'\]"):
        layers.IndexLookup(str(folder / "words"))
    with pytest.raises(ValueError, match="vocabulary is empty"):
        layers.IndexLookup(None)


def concatenate_with_offset(unused: pathlib.Path) -> None:
    layer = layers.ConcatenateWithOffset.from_config(layers.ConcatenateWithOffset([0, 10], axis=1).get_config())
    dense = layer([tf.constant([[1], [1], [1]]), tf.constant([[2], [2], [2]])])
    assert dense.numpy().tolist() == [[1, 12], [1, 12], [1, 12]]
    ragged = [tf.ragged.constant([[1], [], [1]]), tf.ragged.constant([[2], [2], []])]
    assert layer(ragged).to_list() == [[1, 12], [12], [1]]
    assert layer([one.to_sparse() for one in ragged]).values.numpy().tolist() == [1, 12, 12, 1]
    assert layers.ConcatenateWithOffset(None)([tf.constant([[1]]), tf.constant([[2]])]).numpy().tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="received 3 tensors for 2 offsets"):
        layer.call([tf.constant([[1]])] * 3)


def to_number(unused: pathlib.Path) -> None:
    same(layers.ToNumber(tf.int32, -1), [["123", ""], ["456", "-789"]], [[123, -1], [456, -789]], tf.int32)
    same(layers.ToNumber(tf.float32, 0.0), [["123.5", ""], ["-7.25"]], [[123.5, 0.0], [-7.25]], tf.float32)
    same(layers.ToNumber(tf.int64, 0), [[1, 2], [3]], [[1, 2], [3]])
    with pytest.raises(ValueError, match="out_type is string"):
        layers.ToNumber(tf.string, 0)


def to_ragged(unused: pathlib.Path) -> None:
    layer = layers.ToRagged.from_config(layers.ToRagged().get_config())
    assert layer(tf.constant([[1], [-1], [4]], tf.int64)).to_list() == [[1], [], [4]]
    assert layer(tf.constant([["1,2,3"], ["4,5"], [""]])).to_list() == [[b"1", b"2", b"3"], [b"4", b"5"], []]
    split = tf.ragged.constant([["1", "2", "3"], ["4", "5"], [""]])
    assert layer(split).to_list() == [[b"1", b"2", b"3"], [b"4", b"5"], []]
    assert layer(tf.constant([[0.0, -1.0]])).to_list() == [[0.0, -1.0]]
    assert layers.ToRagged(sep="|", ignore_value="x")(tf.constant([["a|x|b"]])).to_list() == [[b"a", b"b"]]
    with pytest.raises(TypeError, match="not sparse ones"):
        layer.call(tf.sparse.from_dense([[1]]))


def to_sparse(unused: pathlib.Path) -> None:
    layer = layers.ToSparse.from_config(layers.ToSparse().get_config())
    places = [[0, 0], [1, 0], [1, 1]]
    for inputs, values in (
        (tf.constant([["A", ""], ["B", "C"]]), [b"A", b"B", b"C"]),
        (tf.constant([[12, -1], [45, 78]], tf.int64), [12, 45, 78]),
        (tf.constant([[1.0, 0.0], [-1.0, 2.0]]), [1.0, -1.0, 2.0]),
    ):
        sparse = layer(inputs)
        assert sparse.indices.numpy().tolist() == places
        assert sparse.values.numpy().tolist() == values
        assert sparse.dense_shape.numpy().tolist() == [2, 2]
    assert layers.ToSparse(ignore_value=0)(tf.constant([[0, -1]])).values.numpy().tolist() == [-1]


def sparse_embedding(unused: pathlib.Path) -> None:
    ids = tf.ragged.constant([[1, 2], [], [3]])
    vectors = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    # By the square root of the two ids: 3 / sqrt(2) and 30 / sqrt(2)
    for combiner, first in (("sum", [3.0, 30.0]), ("mean", [1.5, 15.0]), ("sqrtn", [2.1213203, 21.213203])):
        layer = layers.SparseEmbedding(4, 2, combiner=combiner)
        layer = layers.SparseEmbedding.from_config(layer.get_config())
        layer.build(None)
        layer.set_weights([vectors])
        for inputs in (ids.to_sparse(), ids, ids.to_tensor()):
            assert layer(inputs).numpy() == pytest.approx(np.array([first, [0.0, 0.0], [3.0, 30.0]]))
    with pytest.raises(ValueError, match="combiner is None"):
        layers.SparseEmbedding(4, 2, combiner=None)


def a_model_of_all_layers_is_saved(folder: pathlib.Path) -> None:
    word = tf.keras.Input((1,), dtype=tf.string, name="word")
    number = tf.keras.Input((1,), name="number")
    lookup = layers.IndexLookup(["A", "B"])
    ids = [
        lookup(layers.ToSparse()(word)),
        layers.Hashing(5)(layers.ToSparse()(word)),
        layers.Discretization([1.0, 2.0])(layers.ToSparse()(number)),
        layers.RoundIdentity(4)(layers.ToSparse()(number)),
        layers.LogRound(4)(layers.ToSparse()(number)),
    ]
    joined = layers.ConcatenateWithOffset([0, 3, 8, 11, 15])(ids)
    vectors = layers.SparseEmbedding(19, 4)(joined)
    both = tf.keras.layers.Concatenate()([vectors, layers.Normalizer(1.0, 2.0)(number)])
    model = tf.keras.Model([word, number], tf.keras.layers.Dense(1)(both))
    saved(model, folder, tf.constant([["A"], ["?"], [""]]), tf.constant([[1.5], [9.0], [0.0]]))


def embedding_with_input_dim(folder: pathlib.Path) -> None:
    layer = Embedding(2, input_dim=3, input_length=2, mask_zero=True, name="words")
    layer.set_lookup_embedding_func(lambda name, ids: pytest.fail("it was called"))
    model = tf.keras.Sequential([layer, tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
    assert layer.output_shape == (None, 2, 2)
    layer.set_weights([np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])])
    assert layer(tf.constant([[1, 2]])).numpy().tolist() == [[[1.0, 10.0], [2.0, 20.0]]]
    assert layer(tf.constant([[1.0, 2.0]])).numpy().tolist() == [[[1.0, 10.0], [2.0, 20.0]]]
    assert layer.compute_mask(tf.constant([[0, 2]])).numpy().tolist() == [[False, True]]
    saved(model, folder, tf.constant([[1.0, 2.0], [0.0, 1.0]]))


def embedding_combines(unused: pathlib.Path) -> None:
    vectors = [np.array([[5.0], [1.0], [2.0], [3.0]])]
    ids = tf.ragged.constant([[1, 2], [], [3]])
    # By the square root of the two ids: 3 / sqrt(2)
    for combiner, first in (("sum", 3.0), ("mean", 1.5), ("sqrtn", 2.1213203)):
        layer = Embedding.from_config(Embedding(1, input_dim=4, combiner=combiner).get_config())
        layer.build(None)
        layer.set_weights(vectors)
        for inputs in (ids.to_sparse(), ids):
            assert layer(inputs).numpy() == pytest.approx(np.array([[first], [0.0], [3.0]]))
        assert layer(tf.constant([[1, 2]])).numpy() == pytest.approx(np.array([[first]]))
    masked = Embedding(1, input_dim=4, combiner="mean", mask_zero=True)
    masked.build(None)
    masked.set_weights(vectors)
    assert masked(tf.constant([[1, 0], [0, 0]])).numpy().tolist() == [[1.0], [0.0]]  # 0 counts for nothing
    with pytest.raises(ValueError, match="which requires a combiner"):
        Embedding(1, input_dim=4).call(ids)
    with pytest.raises(ValueError, match="which requires mask_zero=False"):
        masked.call(ids)
    with pytest.raises(ValueError, match="combiner is 'max'"):
        Embedding(1, combiner="max")


def embedding_without_input_dim(folder: pathlib.Path) -> None:
    ids = np.array([[7, 10**15], [-3, 7], [0, 0]])
    inputs = tf.keras.Input((2,), dtype=tf.int64, name="ids")
    layer = Embedding(4)
    model = tf.keras.Model(inputs, tf.reduce_sum(layer(inputs), axis=[1, 2]))
    assert model.predict(ids, verbose=0).tolist() == [0.0, 0.0, 0.0]  # nothing is learned while predicting
    model.compile(tf.keras.optimizers.Adam(0.1), "mse")
    model.fit(ids, np.array([1.0, 2.0, 3.0]), epochs=100, verbose=0)
    assert model.predict(ids, verbose=0) == pytest.approx([1.0, 2.0, 3.0], abs=0.02)
    assert layer.known_ids.numpy()[:5].tolist() == [-3, 0, 7, 10**15, tf.int64.max]
    assert sorted(layer.known_rows.numpy()[:5].tolist()) == [-1, 0, 1, 2, 3]
    assert model.predict(np.array([[8, 8]]), verbose=0).tolist() == [0.0]
    seven = model(tf.constant([[7, 7]], tf.int64)).numpy()[0] / 2
    assert saved(model, folder, tf.constant([*ids.tolist(), [8, 7]], tf.int64))[-1] == pytest.approx(seven)
    assert layer.known_ids.numpy()[:5].tolist() == [-3, 0, 7, 10**15, tf.int64.max]


def embedding_without_input_dim_by_rows_of_any_length(unused: pathlib.Path) -> None:
    layer = Embedding(2, combiner="sum")
    first = layer(tf.ragged.constant([[5, 10**12], [], [5]], dtype=tf.int64), training=True).numpy()
    assert first[1].tolist() == [0.0, 0.0]
    assert first[2].tolist() == layer.embeddings.numpy()[0].tolist()  # the id that came first has the first row
    assert first[0] == pytest.approx(layer.embeddings.numpy()[:2].sum(axis=0))
    assert layer(tf.constant([[10**12, 9]]), training=False).numpy()[0] == pytest.approx(layer.embeddings.numpy()[1])


def embedding_with_more_ids_than_rows_asks_for_input_dim(unused: pathlib.Path) -> None:
    layer = Embedding(1, name="users")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'users' has no input_dim.*output_dim=1, input_dim=N"):
        layer(tf.range(200_000, dtype=tf.int64)[tf.newaxis], training=True)
