"""DLRover confs in TFX: as the training module of a pipeline, and with raw examples."""

from __future__ import annotations

import csv
import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
Module = Callable[..., str]

# A conf with an adaptor around a ready-made classifier, as in DLRover's example of DeepFM. Its columns are in another
# order than in the file, which has one more; ExampleGen reads `pages` and `shop` as int64, which are other types here.
# save_steps gives a single evaluation, so the last one is also that of the best model, which is exported.
CONF = """
    import tensorflow as tf
    from dlrover.trainer.tensorflow.util.column_info import Column


    class WideAndDeepAdaptor(tf.estimator.Estimator):
        def __init__(self, model_dir, config=None, params=None):
            self.run_config = config
            super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

        def model_fn(self, features, labels, mode, params):
            numbers = [
                tf.feature_column.numeric_column("pages", normalizer_fn=lambda pages: pages / 10 - 1),
                tf.feature_column.numeric_column("minutes", normalizer_fn=lambda minutes: minutes / 5 - 1),
            ]
            words = [tf.feature_column.categorical_column_with_hash_bucket(name, 100) for name in ("shop", "country")]
            estimator = tf.estimator.DNNLinearCombinedClassifier(
                linear_feature_columns=[*numbers, *words],
                linear_optimizer=lambda: tf.keras.optimizers.legacy.Ftrl(params["learning_rate"]),
                dnn_feature_columns=numbers,
                dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(params["learning_rate"]),
                dnn_hidden_units=params["hidden_units"],
            )
            if labels is not None:
                labels = tf.reshape(labels, [-1, 1])
            return estimator._model_fn(features, labels, mode, self.run_config)


    def column(name, dtype, is_label=False):
        return Column.create(name=name, dtype=dtype, is_label=is_label)


    class TrainConf:
        classifier_class = WideAndDeepAdaptor
        params = {"learning_rate": 0.2, "hidden_units": [16]}
        batch_size = 50
        epoch = 5
        save_steps = 1000
        train_set = {
            "path": "file://not-there.csv",
            "columns": (
                column("bought", "int32", is_label=True),
                column("pages", "float32"),
                column("minutes", "float32"),
                column("shop", "string"),
                column("country", "string"),
            ),
        }
        eval_set = train_set
"""


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a CSV of 3,000 visits to shops, one minute in twenty missing."""
    random = np.random.default_rng(0)
    countries = {"ch": 2.0, "de": 0.0, "fr": -2.0}
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["visit", "country", "shop", "pages", "minutes", "bought"])
        for visit in range(3000):
            country = random.choice(list(countries))
            shop, pages, minutes = random.integers(8000, 8004), random.integers(1, 21), random.exponential(5)
            logit = countries[country] + (shop - 8001.5) + (pages - 10) / 4 + (minutes - 5) / 5
            shown = "" if random.random() < 0.05 else f"{minutes:.2f}"
            rows.writerow([visit, country, shop, pages, shown, int(random.logistic() < logit)])
    return path.parent


def metrics_in(output: str) -> dict[str, float]:
    """Reads the indented lines below "Eval metrics:"."""
    lines = output.partition("Eval metrics:\n")[2].split("\n")
    return {name: float(value) for name, value in (line.split() for line in lines if line.startswith("  "))}


def run_in(root: pathlib.Path) -> dict[str, Any]:
    [run] = (root / "Trainer" / "model_run").iterdir()
    return json.loads((run / "run.json").read_text())


@pytest.mark.thorough
@pytest.mark.slow
def test_a_conf_is_trained_evaluated_blessed_and_pushed(
    command: Command, module: Module, visits: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    root = tmp_path / "root"
    line = ["run", "--data", visits, "--module-file", module(CONF, "conf.py"), "--label", "bought", "--seed", 1]
    done = command(*line, "--no-check", "--pipeline-root", root)
    assert done.returncode == 0, done.stderr[-3000:]
    run = run_in(root)
    assert run["dialect"] == {"name": "dlrover", "reason": "it contains the conf TrainConf"}
    trained, evaluated = run["metrics"]["eval"], metrics_in(done.stdout)
    assert trained["auc"] > 0.85  # that of the logits from which the labels were drawn: 0.89
    # The Evaluator reads the raw examples itself and passes them to the pushed model.
    assert evaluated["auc"] == pytest.approx(trained["auc"], abs=2e-3)
    assert evaluated["binary_crossentropy"] == pytest.approx(trained["average_loss"], rel=1e-3)

    [pushed] = (root / "serving").iterdir()
    loaded = tf.saved_model.load(str(pushed))
    files = sorted(map(str, root.glob("CsvExampleGen/examples/*/Split-eval/*")))
    examples = next(iter(tf.data.TFRecordDataset(files, "GZIP").batch(20)))
    parsed = tf.io.parse_example(
        examples,
        {
            "pages": tf.io.FixedLenFeature([], tf.int64),
            "shop": tf.io.FixedLenFeature([], tf.int64),
            "minutes": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
            "country": tf.io.FixedLenFeature([], tf.string),
        },
    )
    by_columns = loaded.signatures["columns:predict"](
        pages=tf.cast(parsed["pages"], tf.float32),
        shop=tf.strings.as_string(parsed["shop"]),
        minutes=parsed["minutes"][:, 0],
        country=parsed["country"],
    )
    by_examples = loaded.signatures["predict"](examples)
    assert by_examples["logistic"].shape == (20, 1)
    assert np.ptp(by_examples["logistic"]) > 0.3
    assert by_columns["logistic"].numpy() == pytest.approx(by_examples["logistic"].numpy())
    assert list(loaded.signatures["serving_default"].structured_input_signature[1]) == ["inputs"]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_conf_and_a_run_fn_made_of_it_train_on_a_csv_with_a_header(
    command: Command, module: Module, visits: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = module(CONF, "conf.py")
    records = []
    for out in (tmp_path / "before", tmp_path / "after"):
        data = ["--train-files", visits / "*.csv", "--eval-files", visits / "*.csv"]
        done = command("train", path, *data, "--output", out, "--seed", 1, "--train-steps", 200)
        assert done.returncode == 0, done.stderr[-3000:]
        records.append(json.loads((out / "model_run" / "run.json").read_text()))
        if out.name == "before":
            assert command("convert", path, "--write").returncode == 0
    assert [record["dialect"]["name"] for record in records] == ["dlrover", "run_fn"]
    # The same weights; threads add up the losses of an evaluation's batches in any order.
    assert records[0]["metrics"]["eval"] == pytest.approx(records[1]["metrics"]["eval"], rel=1e-6)
    assert records[0]["metrics"]["eval"]["auc"] > 0.85
    predicted = command("predict", "--model", tmp_path / "after", "--examples", visits / "*.csv", "--output", "-")
    assert predicted.returncode == 0, predicted.stderr[-3000:]
    answers = [json.loads(line)["logistic"][0] for line in predicted.stdout.splitlines()]
    assert len(answers) == 3000
    mean = records[1]["metrics"]["eval"]["prediction/mean"]
    assert np.mean(answers) == pytest.approx(mean, rel=1e-4)  # missing values are 0 in both


READY_MADE = """
    import tensorflow as tf
    from dlrover.trainer.tensorflow.util.column_info import Column

    NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")


    class TrainConf:
        classifier_class = tf.estimator.DNNClassifier
        params = {
            "hidden_units": [8],
            "feature_columns": [tf.feature_column.numeric_column(name) for name in NAMES],
            "n_classes": 3,
            "optimizer": lambda: tf.keras.optimizers.legacy.Adam(0.05),
        }
        train_set = {
            "columns": [
                *(Column.create(name=name, dtype="float32") for name in NAMES),
                Column.create(name="variety", dtype="int64", is_label=True),
            ],
            "batch_size": 20,
            "epoch": 50,
        }
        eval_set = {**train_set, "epoch": 1}
        save_steps = 1000
"""
BARE = """
    import tensorflow.compat.v1 as tf
    from dlrover.trainer.tensorflow.util.column_info import Column


    class Width(tf.estimator.Estimator):
        def model_fn(self, features, labels, mode):
            prediction = tf.get_variable("w", []) * features["petal_length"] + tf.get_variable("b", [])
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, predictions=prediction)
            loss = tf.losses.mean_squared_error(labels, prediction)
            train_op = tf.train.AdamOptimizer(0.05).minimize(loss, tf.train.get_global_step())
            metrics = {"mse": tf.metrics.mean_squared_error(labels, prediction)}
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


    class TrainConf:
        classifier_class = Width
        train_set = {
            "columns": [
                Column.create(name="petal_length", dtype="float32"),
                Column.create(name="petal_width", dtype="float32", is_label=True),
            ],
            "batch_size": 20,
            "epoch": 50,
        }
        eval_set = {**train_set, "epoch": 1}
        save_steps = 1000
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "label", "trained", "evaluated"),
    [
        (READY_MADE, "variety", "accuracy", "sparse_categorical_accuracy"),
        (BARE, "petal_width", "mse", "mean_squared_error"),
    ],
)
def test_the_right_output_is_evaluated(
    source: str,
    label: str,
    trained: str,
    evaluated: str,
    command: Command,
    module: Module,
    iris: Any,
    tmp_path: pathlib.Path,
) -> None:
    """A classifier that the conf only names, with the number of classes in params; and one unnamed prediction."""
    data, root = pathlib.Path(iris.schema).parent, tmp_path / "root"
    line = ["run", "--data", data, "--module-file", module(source, "conf.py"), "--label", label, "--runner", "local"]
    done = command(*line, "--no-check", "--schema", iris.schema, "--pipeline-root", root, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = run_in(root)["metrics"]["eval"][trained]
    assert metrics_in(done.stdout)[evaluated] == pytest.approx(expected, rel=1e-4)
    assert expected > 0.9 if trained == "accuracy" else expected < 0.1
    assert "Pushed model:" in done.stdout
