"""Estimators with a custom model_fn, most of them as in the notes of seed 002."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import events
import lifecycle
import numpy as np
import people
import tensorflow as tf

v1 = tf.compat.v1
Mode = tf.estimator.ModeKeys
export = tf.estimator.export

_IMAGES = np.random.RandomState(0).rand(32, 8, 8).astype("float32")
_DIGITS = (_IMAGES[:, :4].mean((1, 2)) > _IMAGES[:, 4:].mean((1, 2))).astype("int32")


def _images(epochs: int | None = None) -> Callable[[], Any]:
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": _IMAGES}, _DIGITS)).repeat(epochs).batch(8).prefetch(1)


def _image_receiver() -> Any:
    pixels = v1.placeholder(tf.float32, [None, 8, 8], name="pixels")
    return export.ServingInputReceiver({"x": pixels}, {"x": pixels})


def _cnn_model_fn(features: Any, labels: Any, mode: str) -> Any:
    training = mode == Mode.TRAIN
    net = tf.reshape(features["x"], [-1, 8, 8, 1])
    net = v1.layers.conv2d(net, filters=4, kernel_size=[3, 3], padding="same", activation=tf.nn.relu)
    net = v1.layers.max_pooling2d(net, pool_size=[2, 2], strides=2)
    net = v1.layers.batch_normalization(net, training=training)
    net = v1.layers.dense(v1.layers.flatten(net), units=16, activation=tf.nn.relu)
    net = v1.layers.dropout(net, rate=0.4, training=training)
    logits = v1.layers.dense(net, units=2)
    predictions = {"classes": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits, name="softmax_tensor")}
    if mode == Mode.PREDICT:
        outputs = {"serving_default": export.PredictOutput(predictions), "predict": export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if training:
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
    metrics = {"accuracy": v1.metrics.accuracy(labels=labels, predictions=predictions["classes"])}
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


def _cnn(estimator_class: Any, folder: str) -> dict[str, float]:
    estimator = estimator_class(_cnn_model_fn, config=lifecycle.config(folder))
    hook = v1.train.LoggingTensorHook({"probabilities": "softmax_tensor"}, every_n_iter=10)
    estimator.train(_images(), steps=40, hooks=[hook])
    metrics = estimator.evaluate(_images(1))
    predictions = list(estimator.predict(_images(1)))
    folder = estimator.export_saved_model(os.path.join(folder, "export"), _image_receiver)
    served = tf.saved_model.load(os.fsdecode(folder)).signatures["serving_default"](tf.constant(_IMAGES))
    np.testing.assert_allclose(
        served["probabilities"], np.stack([prediction["probabilities"] for prediction in predictions]), rtol=1e-4
    )
    assert any("moving_mean" in name for name in estimator.get_variable_names())
    return lifecycle.numbers(metrics)


def cnn_of_v1_layers(folder: str) -> dict[str, float]:
    return _cnn(tf.estimator.Estimator, folder)


def cnn_of_v1_layers_in_the_v1_estimator(folder: str) -> dict[str, float]:
    return _cnn(v1.estimator.Estimator, folder)


def _logits(features: Any, units: int) -> Any:
    columns = [*people.numeric(), tf.feature_column.indicator_column(people.city())]
    return v1.layers.dense(v1.feature_column.input_layer(features, columns), units)


def _binary_model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    logits = _logits(features, 1)
    probability = tf.sigmoid(logits)
    outputs = {
        "serving_default": export.ClassificationOutput(
            scores=tf.concat([1 - probability, probability], 1),
            classes=tf.tile(tf.constant([["young", "old"]]), [tf.shape(logits)[0], 1]),
        ),
        "score": export.RegressionOutput(probability),
        "predict": export.PredictOutput({"probability": probability}),
    }
    if mode == Mode.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"probability": probability}, export_outputs=outputs)
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    optimizer = v1.train.AdamOptimizer(params["learning_rate"])
    return tf.estimator.EstimatorSpec(
        mode,
        predictions={"probability": probability},
        loss=loss,
        train_op=optimizer.minimize(loss, v1.train.get_global_step()),
        eval_metric_ops={"auc": v1.metrics.auc(labels, probability)},
    )


def _binary(folder: str, model_fn: Callable[..., Any] = _binary_model_fn) -> Any:
    return tf.estimator.Estimator(model_fn, config=lifecycle.config(folder), params={"learning_rate": 0.05})


def input_layer_and_every_export_output(folder: str) -> dict[str, float]:
    estimator = _binary(folder)
    metrics = lifecycle.live(estimator, people.OLD)
    (stamp,) = os.listdir(os.path.join(folder, "export"))
    path = os.path.join(folder, "export", stamp)
    probability = lifecycle.serve(path)["probability"]
    classified = lifecycle.serve(path, "serving_default")
    np.testing.assert_allclose(classified["scores"][:, 1:], probability, rtol=1e-6)
    assert classified["classes"][0].tolist() == [b"young", b"old"]
    np.testing.assert_allclose(lifecycle.serve(path, "score")["outputs"], probability, rtol=1e-6)
    return metrics


def _keras_model_fn(features: Any, labels: Any, mode: str) -> Any:
    training = mode == Mode.TRAIN
    layers = tf.keras.layers
    net = tf.concat([features["age"], features["hours"]], 1)
    model = tf.keras.Sequential(
        [
            # A bias before a batch normalization has no gradient but rounding noise, to which Adam adapts.
            layers.Dense(8, "relu", use_bias=False, input_shape=(2,)),
            layers.BatchNormalization(),
            layers.Dropout(0.1, seed=1),
            layers.Dense(1),
        ]
    )
    logits = model(net, training=training)
    predictions = {"probability": tf.sigmoid(logits)}
    if mode == Mode.PREDICT:
        outputs = {"predict": export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)(labels, logits)
    if mode == Mode.EVAL:
        accuracy = tf.keras.metrics.BinaryAccuracy("accuracy")
        accuracy.update_state(labels, predictions["probability"])
        return tf.estimator.EstimatorSpec(mode, predictions, loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = tf.keras.optimizers.legacy.Adam(0.05)
    optimizer.iterations = v1.train.get_or_create_global_step()
    updates = optimizer.get_updates(loss, model.trainable_variables)
    return tf.estimator.EstimatorSpec(mode, predictions, loss, tf.group(*updates, *model.get_updates_for(None)))


def keras_layers_and_metrics(folder: str) -> dict[str, float]:
    return lifecycle.live(tf.estimator.Estimator(_keras_model_fn, config=lifecycle.config(folder)), people.OLD)


def adaptor_around_another_estimator(folder: str) -> dict[str, float]:
    """DLRover's pattern: a model_fn that returns the spec of a ready-made Estimator."""
    inner = tf.estimator.LinearClassifier([*people.numeric(), people.city()])

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        return inner._model_fn(features, labels, mode, config)

    return lifecycle.live(tf.estimator.Estimator(model_fn, config=lifecycle.config(folder)), people.OLD)


def module_written_for_tensorflow_1(folder: str) -> dict[str, float]:
    """With `import tensorflow.compat.v1 as tf`, all names of TensorFlow 1 code resolve, including `tf.estimator`."""
    import tensorflow.compat.v1 as tf

    def input_fn() -> Any:
        feature_spec = {"age": tf.FixedLenFeature([1], tf.float32), "hours": tf.FixedLenFeature([1], tf.float32)}
        data = tf.data.Dataset.from_tensor_slices((people.serialized(), people.INCOME))
        return data.map(lambda record, label: (tf.parse_single_example(record, feature_spec), label)).repeat().batch(16)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            value = tf.layers.dense(tf.concat([features["age"], features["hours"]], 1), 1, name="value")
        tf.summary.scalar("mean_value", tf.reduce_mean(value))
        loss = tf.losses.mean_squared_error(labels, value)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        metrics = {"rmse": tf.metrics.root_mean_squared_error(labels, value)}
        return tf.estimator.EstimatorSpec(mode, value, loss, train_op, metrics)

    config = tf.estimator.RunConfig(os.path.join(folder, "model"), 1, session_config=tf.ConfigProto())
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(input_fn, steps=40)
    metrics = estimator.evaluate(input_fn, steps=4)
    assert estimator.evaluate(input_fn, steps=4)["global_step"] == 40
    assert "mean_value" in events.tags(estimator.model_dir)
    return lifecycle.numbers(metrics)


def eval_summaries_by_a_hook(folder: str) -> None:
    """Seed 002: a SummarySaverHook in `evaluation_hooks` writes next to the metrics, in model_dir/eval."""
    model_dir = os.path.join(folder, "model")

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        spec = _binary_model_fn(features, labels, mode, params)
        with tf.name_scope("histogram_summary") as name_scope:
            v1.summary.histogram("probability", spec.predictions["probability"])
            v1.summary.scalar("mean_probability", tf.reduce_mean(spec.predictions["probability"]))
        hook = v1.train.SummarySaverHook(
            save_steps=1,
            output_dir=os.path.join(model_dir, "eval"),
            summary_op=v1.summary.merge_all(scope=name_scope),
        )
        return spec._replace(evaluation_hooks=[hook])

    estimator = _binary(folder, model_fn=model_fn)
    estimator.train(people.batches(people.OLD), steps=4)
    estimator.evaluate(people.batches(people.OLD, epochs=1))
    written = events.tags(os.path.join(model_dir, "eval"))
    assert {"histogram_summary/probability", "histogram_summary/mean_probability", "loss", "auc"} <= written, written


def metric_reset_during_training(folder: str) -> None:
    """Seed 002: the training AUC does not accumulate if its local variables are reset every tenth step.

    As in the notes, the reset and the step's own update are unordered, so the count may be off by one batch.
    """
    seen = []

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        spec = _binary_model_fn(features, labels, mode, params)
        step = v1.train.get_global_step()
        with v1.variable_scope("train_metrics_scope"):
            count = v1.metrics.mean(tf.ones_like(labels))
            auc = v1.metrics.auc(labels, spec.predictions["probability"], num_thresholds=100)
        local = [ref for ref in v1.local_variables() if "train_metrics_scope" in ref.op.name]
        with tf.control_dependencies([spec.train_op]):
            reset = tf.cond(
                tf.equal(step % 10, 0),
                lambda: tf.group([v1.assign(ref, tf.zeros_like(ref)) for ref in local]),
                lambda: tf.no_op(),
            )
        with tf.control_dependencies([reset]):
            updates = tf.group(count[1], auc[1])
        counted = next(ref for ref in local if ref.op.name.endswith("mean/count"))

        class Watch(tf.estimator.SessionRunHook):
            def after_run(self, run_context: Any, run_values: Any) -> None:
                seen.append(float(run_context.session.run(counted)))

        return spec._replace(train_op=updates, training_hooks=[Watch()])

    _binary(folder, model_fn=model_fn).train(people.batches(people.OLD), steps=25)
    assert len(seen) == 25
    assert max(seen) <= 11 * people.BATCH, seen  # at most ten batches plus the one of the reset
    assert seen[-1] < seen[8], seen


def global_step_stays_in_evaluate(folder: str) -> None:
    estimator = _binary(folder)
    estimator.train(people.batches(people.OLD), steps=7)
    for _ in range(2):
        assert estimator.evaluate(people.batches(people.OLD), steps=3)["global_step"] == 7
    assert estimator.get_variable_value("global_step") == 7


def add_metrics(folder: str) -> dict[str, float]:
    def keras_metric(labels: Any, predictions: Any) -> dict[str, Any]:
        metric = tf.keras.metrics.MeanSquaredError("brier")
        metric.update_state(labels, predictions["logistic"])
        return {"brier": metric}

    def v1_metric(labels: Any, predictions: Any, features: Any) -> dict[str, Any]:
        return {"mean_age": v1.metrics.mean(features["age"])}

    estimator = tf.estimator.LinearClassifier(people.numeric(), config=lifecycle.config(folder))
    for metric in (keras_metric, v1_metric):
        estimator = tf.estimator.add_metrics(estimator, metric)
    metrics = lifecycle.live(estimator, people.OLD)
    np.testing.assert_allclose(metrics["mean_age"], people.FEATURES["age"].mean(), rtol=1e-5)
    assert 0 < metrics["brier"] < 0.25
    return metrics


def _from_keras(folder: str, optimizer: Any) -> dict[str, float]:
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(8, "relu", input_shape=(2,), name="inside"), tf.keras.layers.Dense(1, "sigmoid")]
    )
    model.compile(optimizer, "binary_crossentropy", ["accuracy"])
    estimator = tf.keras.estimator.model_to_estimator(model, config=lifecycle.config(folder))
    features = {"inside_input": np.concatenate([people.FEATURES["age"], people.FEATURES["hours"]], 1)}
    estimator.train(people.batches(people.OLD.astype("float32"), features), steps=40)
    evaluation = people.batches(people.OLD.astype("float32"), features, epochs=1)
    metrics = estimator.evaluate(evaluation)
    assert metrics["global_step"] == 40
    predictions = np.stack([next(iter(row.values())) for row in estimator.predict(evaluation)])

    def receiver() -> Any:
        pair = v1.placeholder(tf.float32, [None, 2])
        return export.ServingInputReceiver({"inside_input": pair}, {"pair": pair})

    path = os.fsdecode(estimator.export_saved_model(os.path.join(folder, "export"), receiver))
    served = tf.saved_model.load(path).signatures["serving_default"](pair=tf.constant(features["inside_input"]))
    np.testing.assert_allclose(next(iter(served.values())), predictions, rtol=1e-4)
    return lifecycle.numbers(metrics)


def model_to_estimator_by_name(folder: str) -> dict[str, float]:
    return _from_keras(folder, "adam")


def model_to_estimator_with_a_legacy_optimizer(folder: str) -> dict[str, float]:
    return _from_keras(folder, tf.keras.optimizers.legacy.Adam(0.05))


def model_to_estimator_with_a_new_optimizer(folder: str) -> dict[str, float]:
    return _from_keras(folder, tf.keras.optimizers.Adam(0.05))
