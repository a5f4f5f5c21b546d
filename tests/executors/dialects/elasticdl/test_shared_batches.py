"""Batches divided among replicas: every record counts once, and no replica gets an empty part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from generic_trainer.executors.dialects.needs import choose_keras

PROGRAM = """
    import json
    from types import ModuleType

    import tensorflow as tf

    from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
    from generic_trainer.executors.dialects.elasticdl.parts import Parts
    from generic_trainer.executors.dialects.elasticdl.data import batched
    from generic_trainer.executors.dialects.elasticdl.evaluation import evaluator
    from generic_trainer.executors.dialects.elasticdl.job import make_job
    from generic_trainer.executors.dialects.elasticdl.shared_batches import share, take_part

    replicas, rows = 3, 2
    devices = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])

    def record(number):
        repeated = tf.repeat(number, number % 3)  # 0 to 2 values
        dense = tf.pad(repeated, [[0, 3 - tf.size(repeated)]])
        ragged = tf.RaggedTensor.from_row_lengths(repeated, [tf.size(repeated)])
        text = tf.strings.as_string(number)
        return {"text": text, "sparse": tf.sparse.from_dense(dense), "ragged": ragged}, number

    def counts(number):
        parts = share(batched(tf.data.Dataset.range(number).map(record), replicas * rows), replicas, rows)
        for batch in strategy.experimental_distribute_dataset(parts):
            features, labels, own = strategy.run(tf.function(take_part), (batch,))
            for replica in range(replicas):
                label, count = (strategy.experimental_local_results(one)[replica] for one in (labels, own))
                local = {key: strategy.experimental_local_results(one)[replica] for key, one in features.items()}
                text = [int(one) for one in local["text"].numpy()]
                sparse = tf.math.count_nonzero(tf.sparse.to_dense(local["sparse"]), 1).numpy().tolist()
                ragged = local["ragged"].row_lengths(2).flat_values.numpy().tolist()
                yield [int(count), label.numpy().tolist(), text, sparse, ragged]

    def trained_loss(number):
        module = ModuleType("module")
        module.__file__ = "module.py"

        def custom_model():
            image = tf.keras.Input((4, 4, 1))
            normal = tf.keras.layers.BatchNormalization(momentum=0.5)(tf.keras.layers.Conv2D(2, 2)(image))
            return tf.keras.Model(image, tf.keras.layers.Dense(3)(tf.keras.layers.Flatten()(normal)))

        module.custom_model = custom_model
        module.loss = lambda labels, predictions: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions)
        )
        images, labels = tf.random.stateless_normal((number, 4, 4, 1), (1, 2)), tf.range(number) % 3
        dataset = batched(tf.data.Dataset.from_tensor_slices((images, labels)), replicas * rows)
        with strategy.scope():
            job = make_job(Parts(module, None, ElasticDLOptions()), next(iter(dataset)))
            job.compile(optimizer=tf.keras.optimizers.SGD(0.1))
        parts = share(dataset, replicas, rows)
        job.fit(parts, epochs=2, verbose=0)
        moving = [bool(tf.reduce_all(tf.math.is_finite(weight))) for weight in job.inner.weights]
        loss = evaluator(job, ElasticDLOptions(minibatch_size=rows), dataset)()["loss"]
        return [all(moving), loss, float(module.loss(labels, job.inner(images, training=False)))]

    print(json.dumps({number: list(counts(number)) for number in (6, 7, 9)}))
    print(json.dumps({number: trained_loss(number) for number in (7, 8)}))
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_no_replica_gets_an_empty_part(program: Callable[..., str]) -> None:
    divided, trained = map(
        json.loads, program(PROGRAM, env={**os.environ, **choose_keras("2", []).environment()}).splitlines()
    )
    for number, parts in divided.items():
        own = [value for count, labels, *_ in parts for value in labels[:count]]
        assert own == list(range(int(number)))
        assert all(labels for _, labels, *_ in parts)
        for _, labels, text, sparse, ragged in parts:
            assert text == labels
            assert sparse == [label % 3 if label else 0 for label in labels]
            assert ragged == [label % 3 for label in labels]
    assert [count for count, *_ in divided["7"]] == [2, 2, 2, 0, 0, 1]
    for is_finite, loss, expected in trained.values():
        assert is_finite
        assert loss == pytest.approx(expected, rel=1e-4)
