"""Examples and tiny SavedModels to evaluate, with their answers known from NumPy."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

COUNT, WIDTH = 600, 3


def features() -> dict[str, Any]:
    """Features and labels of each kind, which depend on `x` and on noise."""
    random = np.random.default_rng(0)
    x = random.normal(size=(COUNT, WIDTH)).astype(np.float32)
    noisy = x + random.normal(size=(COUNT, WIDTH)).astype(np.float32)
    species = noisy.argmax(axis=1)
    return {
        "x": x,
        "binary": (noisy[:, 0] > 0).astype(np.int64),
        "margin": np.where(noisy[:, 0] > 0, 1, -1).astype(np.int64),
        "species": species.astype(np.int64),
        "one_hot": np.eye(WIDTH, dtype=np.float32)[species],
        "tags": (noisy > 0).astype(np.int64),
        "price": (3 * noisy[:, 0] + 10).astype(np.float32),
        "word": np.array([b"yes" if one > 0 else b"no" for one in noisy[:, 0]], object),
        "third": np.arange(COUNT) % 3,
    }


def write_examples(values: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Writes a gzipped TFRecord file of tf.Examples; returns its path."""
    import tensorflow as tf

    path = folder / "data_tfrecord-00000-of-00001.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for row in range(COUNT):
            example = tf.train.Example()
            for name, column in values.items():
                feature, cells = example.features.feature[name], np.ravel(column[row])
                if isinstance(column[row], list):
                    feature.int64_list.value.extend(column[row])
                elif column.dtype == object:
                    feature.bytes_list.value.extend(cells.tolist())
                elif column.dtype.kind == "f":
                    feature.float_list.value.extend(cells.tolist())
                else:
                    feature.int64_list.value.extend(cells.tolist())
            writer.write(example.SerializeToString())
    return str(path)


def save_model(answer: Callable[[Any], dict[str, Any]], folder: pathlib.Path, *, named: bool = False) -> str:
    """Saves a model that answers `x`, in serialized tf.Examples or as a tensor of this name; returns its folder."""
    import tensorflow as tf

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def of_examples(self, examples: Any) -> dict[str, Any]:
            spec = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32)}
            return answer(tf.io.parse_example(examples, spec)["x"])

        @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32, "x")])
        def of_tensors(self, x: Any) -> dict[str, Any]:
            return answer(x)

    model = Model()
    served = model.of_tensors if named else model.of_examples
    tf.saved_model.save(model, str(folder), signatures={"serving_default": served})
    return str(folder)
