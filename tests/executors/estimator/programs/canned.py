"""The ready-made Estimators of both APIs, with heads, warm start and every kind of feature column."""

from __future__ import annotations

import os
from typing import Any

import lifecycle
import numpy as np
import people
import tensorflow as tf

v1 = tf.compat.v1


def _columns() -> list[Any]:
    return [*people.numeric(), people.city()]


def _dense_columns() -> list[Any]:
    return [*people.numeric(), tf.feature_column.indicator_column(people.city())]


def linear_classifier(folder: str) -> dict[str, float]:
    return lifecycle.live(tf.estimator.LinearClassifier(_columns(), config=lifecycle.config(folder)), people.OLD)


def linear_regressor(folder: str) -> dict[str, float]:
    return lifecycle.live(tf.estimator.LinearRegressor(_columns(), config=lifecycle.config(folder)), people.INCOME)


def linear_classifier_v1(folder: str) -> dict[str, float]:
    return lifecycle.live(
        v1.estimator.LinearClassifier(
            _columns(), optimizer=v1.train.FtrlOptimizer(0.1), config=lifecycle.config(folder)
        ),
        people.OLD,
    )


def linear_regressor_v1(folder: str) -> dict[str, float]:
    return lifecycle.live(v1.estimator.LinearRegressor(_columns(), config=lifecycle.config(folder)), people.INCOME)


def dnn_classifier(folder: str) -> dict[str, float]:
    estimator = tf.estimator.DNNClassifier(
        [8, 4], _dense_columns(), n_classes=3, dropout=0.1, batch_norm=True, config=lifecycle.config(folder)
    )
    return lifecycle.live(estimator, people.AGE_GROUP)


def dnn_regressor(folder: str) -> dict[str, float]:
    estimator = tf.estimator.DNNRegressor(
        [8, 4], _dense_columns(), dropout=0.1, batch_norm=True, config=lifecycle.config(folder)
    )
    return lifecycle.live(estimator, people.INCOME)


def dnn_classifier_v1(folder: str) -> dict[str, float]:
    estimator = v1.estimator.DNNClassifier(
        [8, 4],
        _dense_columns(),
        dropout=0.1,
        batch_norm=True,
        optimizer=v1.train.AdamOptimizer(0.05),
        config=lifecycle.config(folder),
    )
    return lifecycle.live(estimator, people.OLD)


def dnn_regressor_v1(folder: str) -> dict[str, float]:
    return lifecycle.live(
        v1.estimator.DNNRegressor([8], _dense_columns(), config=lifecycle.config(folder)), people.INCOME
    )


def dnn_linear_combined_classifier(folder: str) -> dict[str, float]:
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=_columns(),
        dnn_feature_columns=_dense_columns(),
        dnn_hidden_units=[8],
        dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.05),
        config=lifecycle.config(folder),
    )
    return lifecycle.live(estimator, people.OLD)


def dnn_linear_combined_regressor(folder: str) -> dict[str, float]:
    estimator = tf.estimator.DNNLinearCombinedRegressor(
        linear_feature_columns=_columns(),
        dnn_feature_columns=_dense_columns(),
        dnn_hidden_units=[8],
        config=lifecycle.config(folder),
    )
    return lifecycle.live(estimator, people.INCOME)


def dnn_linear_combined_classifier_v1(folder: str) -> dict[str, float]:
    estimator = v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=_columns(),
        dnn_feature_columns=_dense_columns(),
        dnn_hidden_units=[8],
        config=lifecycle.config(folder),
    )
    return lifecycle.live(estimator, people.OLD)


def dnn_linear_combined_regressor_v1(folder: str) -> dict[str, float]:
    estimator = v1.estimator.DNNLinearCombinedRegressor(
        linear_feature_columns=_columns(),
        dnn_feature_columns=_dense_columns(),
        dnn_hidden_units=[8],
        config=lifecycle.config(folder),
    )
    return lifecycle.live(estimator, people.INCOME)


def dnn_estimator_with_a_head(folder: str) -> dict[str, float]:
    estimator = tf.estimator.DNNEstimator(
        tf.estimator.MultiClassHead(3), [8], _dense_columns(), config=lifecycle.config(folder)
    )
    return lifecycle.live(estimator, people.AGE_GROUP)


def linear_estimator_with_each_head(folder: str) -> dict[str, float]:
    """BinaryClass, LogisticRegression, Poisson, Regression and MultiLabel; the losses by the head's name."""
    two_labels = np.concatenate([people.OLD, 1 - people.OLD], axis=1)
    heads = {
        "binary": (tf.estimator.BinaryClassHead(), people.OLD),
        "logistic": (tf.estimator.LogisticRegressionHead(), people.OLD.astype("float32")),
        "poisson": (tf.estimator.PoissonRegressionHead(), people.INCOME),
        "regression": (tf.estimator.RegressionHead(), people.INCOME),
        "multi_label": (tf.estimator.MultiLabelHead(2), two_labels),
    }
    losses = {}
    for name, (head, labels) in heads.items():
        below = lifecycle.config(os.path.join(folder, name))
        estimator = tf.estimator.LinearEstimator(head, _columns(), config=below)
        estimator.train(people.batches(labels), steps=40)
        losses[name] = float(estimator.evaluate(people.batches(labels, epochs=1))["loss"])
    return losses


def multi_head(folder: str) -> dict[str, float]:
    head = tf.estimator.MultiHead(
        [tf.estimator.BinaryClassHead(name="old"), tf.estimator.RegressionHead(name="income")], head_weights=[1.0, 0.5]
    )
    estimator = tf.estimator.DNNEstimator(head, [8], _dense_columns(), config=lifecycle.config(folder))
    labels = {"old": people.OLD, "income": people.INCOME}
    estimator.train(people.batches(labels), steps=40)
    metrics = estimator.evaluate(people.batches(labels, epochs=1))
    prediction = next(estimator.predict(people.batches(labels, epochs=1)))
    assert {("old", "logistic"), ("income", "predictions")} <= set(prediction)
    export = estimator.export_saved_model(os.path.join(folder, "export"), people.receiver())
    served = lifecycle.serve(export, "old/predict")
    np.testing.assert_allclose(served["logistic"][0], prediction["old", "logistic"], rtol=1e-5)
    assert {"accuracy/old", "average_loss/income"} <= set(metrics)
    return lifecycle.numbers(metrics)


def dnn_linear_combined_estimator_with_a_head(folder: str) -> dict[str, float]:
    estimator = tf.estimator.DNNLinearCombinedEstimator(
        tf.estimator.BinaryClassHead(),
        linear_feature_columns=_columns(),
        dnn_feature_columns=_dense_columns(),
        dnn_hidden_units=[8],
        config=lifecycle.config(folder),
    )
    return lifecycle.live(estimator, people.OLD)


def _baseline(estimator: Any, labels: Any, names: tuple[str, ...]) -> dict[str, float]:
    features = {name: people.FEATURES[name] for name in names}
    estimator.train(people.batches(labels, features), steps=40)
    metrics = estimator.evaluate(people.batches(labels, features, epochs=1))
    predictions = list(estimator.predict(people.batches(labels, features, epochs=1)))
    spec = {name: people.SPEC[name] for name in names}
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    export = estimator.export_saved_model(os.path.join(os.path.dirname(estimator.model_dir), "export"), receiver)
    lifecycle.same_answers(export, predictions)
    return lifecycle.numbers(metrics)


def baseline_classifier(folder: str) -> dict[str, float]:
    return _baseline(tf.estimator.BaselineClassifier(config=lifecycle.config(folder)), people.OLD, ("age",))


def baseline_regressor(folder: str) -> dict[str, float]:
    return _baseline(tf.estimator.BaselineRegressor(config=lifecycle.config(folder)), people.INCOME, ("age",))


def baseline_estimator(folder: str) -> dict[str, float]:
    estimator = tf.estimator.BaselineEstimator(tf.estimator.MultiClassHead(3), config=lifecycle.config(folder))
    return _baseline(estimator, people.AGE_GROUP, ("age",))


def baseline_classifier_v1(folder: str) -> dict[str, float]:
    estimator = v1.estimator.BaselineClassifier(config=lifecycle.config(folder))
    return _baseline(estimator, people.OLD, ("age", "hours", "city"))


def baseline_with_two_features_fails_as_on_2_15(folder: str) -> None:
    """The wheel makes the bias depend on the check that all features have one batch size, so on the input itself.

    With one feature there is no such check.
    """
    estimator = tf.estimator.BaselineClassifier(config=lifecycle.config(folder))
    try:
        estimator.train(people.batches(people.OLD), steps=4)
    except tf.errors.FailedPreconditionError as error:
        assert "iterator has not been initialized" in str(error)  # noqa: PT017 (this is not pytest's process)
    else:
        raise AssertionError("it trains")


def kmeans(folder: str) -> dict[str, float]:
    points = np.float32([[0, 0], [0, 1], [10, 10], [10, 11]])
    estimator = v1.estimator.experimental.KMeans(
        2, initial_clusters=np.float32([[0, 0], [10, 10]]), use_mini_batch=False, config=lifecycle.config(folder)
    )

    def input_fn() -> Any:
        return v1.train.limit_epochs(tf.convert_to_tensor(points), num_epochs=1)

    for _ in range(3):
        estimator.train(input_fn)
    np.testing.assert_allclose(estimator.cluster_centers(), [[0, 0.5], [10, 10.5]], rtol=1e-5)
    assert list(estimator.predict_cluster_index(input_fn)) == [0, 0, 1, 1]
    distances = [float(row["all_distances"][0]) for row in estimator.predict(input_fn)]
    np.testing.assert_allclose(distances[0], 0.25, rtol=1e-5)  # 0.5 squared

    def receiver() -> Any:
        placeholder = v1.placeholder(tf.float32, [None, 2])
        return tf.estimator.export.TensorServingInputReceiver(placeholder, placeholder)

    export = estimator.export_saved_model(os.path.join(folder, "export"), receiver)
    loaded = tf.saved_model.load(os.fsdecode(export))
    served = loaded.signatures["cluster_index"](tf.constant(points))
    assert served["output"].numpy().tolist() == [0, 0, 1, 1]
    return {"score": float(estimator.score(input_fn))}


def linear_sdca(folder: str) -> dict[str, float]:
    ids = np.array([str(i).encode() for i in range(people.COUNT)])
    features = {**people.FEATURES, "id": ids}
    estimator = tf.estimator.LinearClassifier(
        _columns(),
        optimizer=tf.estimator.experimental.LinearSDCA("id", symmetric_l2_regularization=0.1),
        config=lifecycle.config(folder),
    )
    estimator.train(people.batches(people.OLD, features), steps=40)
    metrics = estimator.evaluate(people.batches(people.OLD, features, epochs=1))
    predictions = list(estimator.predict(people.batches(people.OLD, features, epochs=1)))
    lifecycle.same_answers(estimator.export_saved_model(os.path.join(folder, "export"), people.receiver()), predictions)
    return lifecycle.numbers(metrics)


_WORDS = [["good", "good", "day"], ["bad"], ["good"], ["bad", "bad", "day"]]


def _sentences(epochs: int | None = None) -> Any:
    def input_fn() -> Any:
        words = tf.ragged.constant(_WORDS).to_sparse()
        return tf.data.Dataset.from_tensor_slices(({"words": words}, [[1], [0], [1], [0]])).repeat(epochs).batch(2)

    return input_fn


def rnn_classifier(folder: str) -> dict[str, float]:
    words = tf.feature_column.sequence_categorical_column_with_vocabulary_list("words", ["good", "bad", "day"])
    column = tf.feature_column.embedding_column(
        words, 4, initializer=v1.truncated_normal_initializer(stddev=0.5, seed=1)
    )
    estimator = tf.estimator.experimental.RNNClassifier(
        [column], units=[8], cell_type="lstm", optimizer="Adam", config=lifecycle.config(folder)
    )
    estimator.train(_sentences(), steps=60)
    metrics = estimator.evaluate(_sentences(1))
    assert metrics["global_step"] == 60
    predictions = list(estimator.predict(_sentences(1)))
    assert len(predictions) == 4
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn({"words": tf.io.VarLenFeature(tf.string)})
    export = estimator.export_saved_model(os.path.join(folder, "export"), receiver)
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word.encode() for word in words]))
                }
            )
        ).SerializeToString()
        for words in _WORDS
    ]
    served = tf.saved_model.load(os.fsdecode(export)).signatures["predict"](tf.constant(examples))
    expected = np.stack([prediction["logistic"] for prediction in predictions])
    # The Estimator pads by batch of two, the server by four.
    np.testing.assert_allclose(served["logistic"], expected, rtol=1e-4)
    return lifecycle.numbers(metrics)


def warm_start(folder: str) -> None:
    """The new Estimator starts from the first one's weights; a vocabulary that grew keeps the old entries."""

    def make(name: str, cities: list[str], start: Any) -> Any:
        city = tf.feature_column.categorical_column_with_vocabulary_list("city", cities)
        return tf.estimator.LinearClassifier(
            [city],
            optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.0 if start else 0.5),
            config=lifecycle.config(os.path.join(folder, name)),
            warm_start_from=start,
        )

    first = make("first", people.CITIES, None)
    first.train(people.batches(people.OLD), steps=20)
    name = "linear/linear_model/city/weights"
    weights = first.get_variable_value(name)
    settings = tf.estimator.WarmStartSettings(first.model_dir, vars_to_warm_start=".*linear_model.*")
    for second in (make("settings", people.CITIES, settings), make("folder", people.CITIES, first.model_dir)):
        second.train(people.batches(people.OLD), steps=1)
        np.testing.assert_array_equal(second.get_variable_value(name), weights)
    files = {}
    for file, cities in (("old", people.CITIES), ("new", ["Trier", *people.CITIES])):
        files[file] = os.path.join(folder, file)
        with open(files[file], "w") as text:
            text.write("\n".join(cities))
    vocabulary = tf.estimator.VocabInfo(files["new"], 4, 0, files["old"], 3)
    grown = tf.estimator.WarmStartSettings(
        first.model_dir, vars_to_warm_start=".*city.*", var_name_to_vocab_info={name: vocabulary}
    )
    third = make("grown", ["Trier", *people.CITIES], grown)
    third.train(people.batches(people.OLD), steps=1)
    np.testing.assert_array_equal(third.get_variable_value(name)[1:], weights)


def feature_columns(folder: str) -> dict[str, float]:
    fc = tf.feature_column
    vocabulary = os.path.join(folder, "cities.txt")
    with open(vocabulary, "w") as file:
        file.write("\n".join(people.CITIES))
    age = fc.numeric_column("age", normalizer_fn=lambda x: x - 0.5)
    buckets = fc.bucketized_column(fc.numeric_column("hours"), [0.25, 0.5, 0.75])
    hashed = fc.categorical_column_with_hash_bucket("city", 8)
    from_file = fc.categorical_column_with_vocabulary_file("city", vocabulary, num_oov_buckets=1)
    crossed = fc.crossed_column([buckets, "city"], 16)
    identity = fc.categorical_column_with_identity("group", 3)
    weighted = fc.weighted_categorical_column(people.city(), "weight")

    wide = [age, buckets, hashed, crossed, identity, weighted]
    deep = [
        age,
        buckets,
        fc.indicator_column(hashed),
        fc.indicator_column(identity),
        fc.embedding_column(from_file, 4, initializer=v1.truncated_normal_initializer(stddev=0.5, seed=1)),
    ]
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[8],
        config=lifecycle.config(folder),
    )
    spec = tf.estimator.classifier_parse_example_spec([*wide, *deep], label_key="old", label_dtype=tf.int64)
    assert {"age", "hours", "city", "group", "weight", "old"} == set(spec)
    features = {**people.FEATURES, "group": people.AGE_GROUP, "weight": people.FEATURES["hours"]}
    estimator.train(people.batches(people.OLD, features), steps=40)
    metrics = estimator.evaluate(people.batches(people.OLD, features, epochs=1))
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(fc.make_parse_example_spec([*wide, *deep]))
    export = os.fsdecode(estimator.export_saved_model(os.path.join(folder, "export"), receiver))
    assert os.listdir(os.path.join(export, "assets")) == ["cities.txt"]
    return lifecycle.numbers(metrics)


def checkpoints_can_be_read(folder: str) -> None:
    estimator = tf.estimator.LinearRegressor(people.numeric(), config=lifecycle.config(folder))
    estimator.train(people.batches(people.INCOME), max_steps=3)
    estimator.train(people.batches(people.INCOME), max_steps=3)  # there already: trains nothing
    assert estimator.get_variable_value("global_step") == 3
    assert "linear/linear_model/bias_weights" in estimator.get_variable_names()
    assert estimator.latest_checkpoint().endswith("model.ckpt-3")


def boosted_trees_say_what_to_use_instead(folder: str) -> None:
    """Only where tf.estimator is restored: the wheel for TensorFlow 2.15 had dropped them already."""
    names = ("BoostedTreesClassifier", "BoostedTreesRegressor", "BoostedTreesEstimator")
    for api in (tf.estimator, v1.estimator):
        for name in names:
            assert not hasattr(api, name)
            try:
                getattr(api, name)
            except AttributeError as error:
                assert "Decision Forests" in str(error)  # noqa: PT017 (this is not pytest's process)
    try:
        tf.estimator.experimental.boosted_trees_classifier_train_in_memory  # noqa: B018 (the access is what fails)
    except AttributeError as error:
        assert "Decision Forests" in str(error)  # noqa: PT017
    else:
        raise AssertionError
    try:
        tf.estimator.Anything  # noqa: B018
    except AttributeError as error:
        assert "has no attribute 'Anything'" in str(error)  # noqa: PT017
    else:
        raise AssertionError
