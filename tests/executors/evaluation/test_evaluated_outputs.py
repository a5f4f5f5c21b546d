"""Which output of a model is evaluated: the one that was fitted, found by what the program did, not by its name."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import FnArgs, train
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.evaluation.evidence import TrainingEvidence, observed
from generic_trainer.executors.evaluation.plan import EvaluationPlan, Overrides
from generic_trainer.executors.evaluation.planning import plan_of
from generic_trainer.executors.evaluation.scores import in_units_of_labels

from ...world.models import save_model

tf_keras = pytest.importorskip("tf_keras")

PACKAGES = pytest.mark.parametrize("package", [tf_keras, keras], ids=["keras 2", "keras 3"])
X = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
Y = 2 * X + 1
SCHEMA = "".join(
    f'feature {{ name: "{name}" type: FLOAT shape {{ dim {{ size: 1 }} }} }}\n' for name in ("x", "y", "other", "rate")
)


def plan(
    folder: pathlib.Path, answer: Callable[[Any], Any], run: Callable[[], Any], label: str = "y"
) -> EvaluationPlan:
    """Trains with `run`, exports `answer` of the feature x, and returns the plan by what was observed."""
    (folder / "schema.pbtxt").write_text(SCHEMA)
    with observed(()) as seen:
        tracked = run()
        save_model(lambda features: answer(features["x"]), folder / "model", tracked=tracked)
    evidence = seen.evidence()
    if evidence is not None:
        assert TrainingEvidence.from_json(evidence.to_json()) == evidence
    return plan_of(str(folder / "model"), evidence, str(folder / "schema.pbtxt"), None, Overrides({"": label}))


def dense(package: Any) -> Any:
    model = package.Sequential([package.Input((1,)), package.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


ANSWERS = {
    "interval": (lambda y: {"level": y, "high": y + 1.0, "low": y - 1.0}, "level"),
    "reshaped": (lambda y: {"upper": y * 1.1, "median_price": tf.squeeze(y, 1)}, "median_price"),
    "scaled scores": (lambda y: {"probabilities": y / 2.0, "predictions": y - 3.0, "raw": tf.identity(y)}, "raw"),
    "the complement": (lambda y: {"no": 1.0 - y, "yes": y}, "yes"),
    "limited": (lambda y: {"a": tf.abs(y), "b": tf.clip_by_value(y, 0.01, 0.99)}, "b"),
    "the label's name is preferred": (lambda y: {"raw": y, "y": tf.exp(y)}, "y"),
}


@PACKAGES
@pytest.mark.parametrize("case", ANSWERS)
def test_the_output_that_the_fitted_model_computes(package: Any, case: str, tmp_path: pathlib.Path) -> None:
    answers, expected = ANSWERS[case]
    model = dense(package)

    def run() -> Any:
        model.fit(X, Y, verbose=0)
        return model

    made = plan(tmp_path, lambda x: answers(model(x)), run)
    assert ([one.output for one in made.outputs], made.is_guess) == ([expected], False)
    assert made.reasons["output"] in (
        "the fitted model computes it",
        "it has the name of the label or of the model's output",
    )


@PACKAGES
def test_the_inner_model_of_a_fitted_one(package: Any, tmp_path: pathlib.Path) -> None:
    inner = dense(package)

    class Outer(package.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner_model = inner

        def call(self, x: Any, training: bool = False) -> Any:
            return self.inner_model(x)

    outer = Outer()

    def run() -> Any:
        outer.compile("sgd", "mse")
        outer.fit(X, Y, verbose=0)
        return outer

    made = plan(tmp_path, lambda x: {"a": inner(x) - 1.0, "b": inner(x), "c": tf.exp(inner(x))}, run)
    assert ([one.output for one in made.outputs], made.is_guess) == (["b"], False)


@PACKAGES
def test_outputs_under_other_names_are_not_swapped(package: Any, tmp_path: pathlib.Path) -> None:
    inputs = package.Input((1,))
    heads = {name: package.layers.Dense(1, name=name)(inputs) for name in ("rate", "other")}
    model = package.Model(inputs, heads)

    def run() -> Any:
        model.compile("sgd", loss={"rate": "mse", "other": "mae"})
        model.fit(X, {"rate": Y, "other": -Y}, verbose=0)
        return model

    def answer(x: Any) -> Any:
        both = model(x)
        return {"a": both["rate"], "b": both["other"], "c": both["rate"] + both["other"]}

    made = plan(tmp_path, answer, run, label="rate")
    assert {(one.output, one.label) for one in made.outputs} == {("a", "rate"), ("b", "other")}
    assert not made.is_guess


def built_again(package: Any, fitted: Any) -> Any:
    other = dense(package)
    other.set_weights(fitted.get_weights())
    return other


def loaded_again(package: Any, fitted: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(f"{folder}/model.keras")
        return package.models.load_model(f"{folder}/model.keras")


def of_shared_layers(package: Any, fitted: Any) -> Any:
    return package.Model(fitted.inputs, package.layers.Activation("linear")(fitted.outputs[0]))


@PACKAGES
@pytest.mark.parametrize("exported", [built_again, loaded_again, of_shared_layers])
def test_another_model_is_exported(package: Any, exported: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    fitted, models = dense(package), []

    def run() -> Any:
        fitted.fit(X, Y, verbose=0)
        models.append(exported(package, fitted))
        return models[0]

    def answer(x: Any) -> Any:
        level = models[0](x)
        return {"high": level + 1.0, "level": level, "low": level - 1.0}

    made = plan(tmp_path, answer, run)
    assert ([one.output for one in made.outputs], made.is_guess) == (["level"], False)


@pytest.mark.parametrize(
    ("convert", "back", "bias"),
    [
        (lambda y: tf.math.log1p(y), lambda z: tf.math.expm1(z), 3.0),
        (lambda y: (y - 100.0) / 70.0, lambda z: z * 70.0 + 100.0, 0.0),
        (lambda y: -y, lambda z: -z, -50.0),
    ],
    ids=["logarithm", "standard deviations", "negative"],
)
def test_a_label_in_other_units_is_compared_with_the_output_in_its_own(
    convert: Callable[[Any], Any], back: Callable[[Any], Any], bias: float, tmp_path: pathlib.Path
) -> None:
    rows = tf.data.Dataset.from_tensor_slices({"x": np.tile(X, (4, 1)), "y": np.linspace(0.1, 300, 64)[:, None]})
    model = dense(keras)

    def run() -> Any:
        model.fit(rows.batch(8).map(lambda row: (row["x"], convert(row["y"]))), verbose=0)
        model.set_weights([np.array([[1.0]]), np.array([bias])])
        return model

    def answer(x: Any) -> Any:
        z = model(x)
        copy = tf.cast(tf.squeeze(back(z), 1), tf.float64)
        return {"a_score": z, "amount": back(z), "amount_again": copy, "ceiling": back(z) + 20.0}

    made = plan(tmp_path, answer, run)
    fitted = model(X).numpy()
    answers = {name: np.asarray(values) for name, values in answer(tf.constant(X)).items()}
    [output] = in_units_of_labels(EvaluationPlan.from_json(made.to_json()), answers).outputs
    assert (made.outputs[0].output, output.output, output.label) == ("a_score", "amount", "y")
    with pytest.raises(InputError, match=r"the training converts label y to other units, such as .* output a_score"):
        in_units_of_labels(made, {"a_score": fitted})
    with pytest.raises(InputError, match=r"the outputs amount, nearly may be in those of the label"):
        in_units_of_labels(made, {"a_score": fitted, "amount": answers["amount"], "nearly": answers["amount"] * 1.0001})


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (lambda x, z: {"rating": z * 1.5 + 3.0}, "y"),
        (lambda x, z: {"twice": x * 2.0}, ""),  # in the same function, but not computed from the fitted output
    ],
)
def test_the_export_converts_the_fitted_output_back_to_few_different_labels(
    answer: Callable[[Any, Any], Any], label: str, tmp_path: pathlib.Path
) -> None:
    rows = tf.data.Dataset.from_tensor_slices({"x": np.tile(X, (4, 1)), "y": np.arange(64.0)[:, None] % 5})
    model = dense(keras)

    def run() -> Any:
        model.fit(rows.batch(8).map(lambda row: (row["x"], (row["y"] - 3.0) / 1.5)), verbose=0)
        return model

    assert plan(tmp_path, lambda x: answer(x, model(x)), run).outputs[0].label == label


@pytest.mark.parametrize(
    ("answer", "is_guess"),
    [(lambda p: tf.maximum(p, 1 - p), True), (lambda p: tf.abs(p - 0.5), True), (lambda p: tf.sigmoid(3 * p), False)],
    ids=["confidence", "margin", "calibrated"],
)
def test_the_only_output_is_not_the_score_of_a_class(
    answer: Callable[[Any], Any], is_guess: bool, tmp_path: pathlib.Path
) -> None:
    model = dense(keras)

    def run() -> Any:
        model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
        model.fit(X, (X > 0).astype(int), verbose=0)
        return model

    made = plan(tmp_path, lambda x: {"value": answer(tf.sigmoid(model(x)))}, run)
    assert made.is_guess == is_guess


def test_a_vocabulary_of_the_model_can_be_saved_while_it_is_observed(tmp_path: pathlib.Path) -> None:
    words = np.array([["a b"], ["b c"]] * 4)
    vocabulary = tf_keras.layers.TextVectorization(output_sequence_length=2)
    vocabulary.adapt(words)
    layers = [tf_keras.Input((1,), dtype=tf.string), vocabulary, tf_keras.layers.Embedding(9, 1)]
    model = tf_keras.Sequential([*layers, tf_keras.layers.Flatten(), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with observed(()) as seen:
        model.fit(words, np.ones(8), verbose=0)
        model.save(tmp_path / "model", save_format="tf")
    evidence = seen.evidence()
    assert evidence is not None
    assert all(output.tensors for output in evidence.outputs)
    np.testing.assert_allclose(tf_keras.models.load_model(tmp_path / "model")(words), model(words))


@PACKAGES
def test_two_fitted_models_are_exported(package: Any, tmp_path: pathlib.Path) -> None:
    main, reference = dense(package), dense(package)

    def run() -> Any:
        for model in (main, reference):
            model.fit(X, Y, verbose=0)
        return [main, reference]

    made = plan(tmp_path, lambda x: {"main": main(x), "reference": reference(x)}, run)
    assert made.is_guess


@PACKAGES
@pytest.mark.parametrize(("loss", "expected"), [({"level": "mse"}, "b"), (None, None)], ids=["by its loss", "no loss"])
def test_a_model_with_more_outputs_than_labels(
    package: Any, loss: Any, expected: str | None, tmp_path: pathlib.Path
) -> None:
    class Model(package.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.heads = {name: package.layers.Dense(1) for name in ("extra", "level", "width")}

        def call(self, x: Any, training: bool = False) -> Any:
            return {name: head(x) for name, head in self.heads.items()}

        def train_step(self, data: Any) -> Any:
            if loss:
                return super().train_step(data)
            self(data[0])
            return {"loss": tf.constant(0.0)}

    model = Model()

    def run() -> Any:
        model.compile("sgd", loss=loss)
        model.fit(X, {"level": Y} if loss else Y, verbose=0)
        return model

    def answer(x: Any) -> Any:
        answers = model(x)
        return {"a": answers["extra"], "b": answers["level"], "c": answers["width"]}

    made = plan(tmp_path, answer, run)
    assert made.is_guess if expected is None else ([one.output for one in made.outputs] == [expected])


@PACKAGES
def test_an_output_without_a_loss_is_not_evaluated(package: Any, tmp_path: pathlib.Path) -> None:
    inputs = package.Input((1,))
    model = package.Model(inputs, [package.layers.Dense(1)(inputs), package.layers.Dense(1)(inputs)])

    def run() -> Any:
        model.compile("sgd", loss=[None, "mse"])
        model.fit(X, [Y, Y], verbose=0)
        return model

    def answer(x: Any) -> Any:
        extra, level = model(x)
        return {"extra": extra, "level": level}

    made = plan(tmp_path, answer, run)
    assert ([one.output for one in made.outputs], made.is_guess) == (["level"], False)


@PACKAGES
def test_the_model_of_a_loop_of_its_own(package: Any, tmp_path: pathlib.Path) -> None:
    model = dense(package)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, gradient in zip(model.trainable_variables, gradients):  # noqa: B905
            variable.assign_sub(0.1 * gradient)

    def run() -> Any:
        step(tf.constant(X), tf.constant(Y))
        return model

    made = plan(tmp_path, lambda x: {"level": model(x), "high": model(x) + 1.0, "low": model(x) - 1.0}, run)
    assert ([one.output for one in made.outputs], made.is_guess) == (["level"], False)


@pytest.mark.parametrize("count", [0, 2], ids=["plain variables", "two models"])
def test_nothing_shows_it(count: int, tmp_path: pathlib.Path) -> None:
    models, weight = [dense(keras) for _ in range(count)], tf.Variable(2.0)

    def answer(x: Any) -> Any:
        values = [model(x) for model in models] or [x * weight, x * weight + 1.0]
        return {"low": values[0], "level": values[1]}

    made = plan(tmp_path, answer, lambda: [*models, weight])
    assert made.is_guess
    text = "a guess: nothing shows which of the outputs level, low the training fitted; set --eval-output"
    assert made.reasons["output"] == text
    assert made.line().endswith(text)


def test_logits_and_probabilities_are_one_output(tmp_path: pathlib.Path) -> None:
    weights = tf.Variable(tf.ones([1, 1]))

    def answer(x: Any) -> Any:
        logits = tf.matmul(x, weights)
        p = tf.sigmoid(logits)
        both = tf.nn.softmax(tf.concat([tf.zeros_like(logits), logits], 1))
        return {"margin": logits, "p": p, "both": both, "pair": tf.concat([1 - p, p], 1), "flat": tf.reshape(p, [-1])}

    made = plan(tmp_path, answer, lambda: weights)
    assert (made.is_guess, made.outputs[0].scores) == (False, "probabilities")


ESTIMATOR = """
    import shutil
    import tempfile

    import numpy as np
    import tensorflow as tf

    x = np.linspace(-1, 1, 16, dtype="float32")

    def model_fn(features, labels, mode):
        level = tf.compat.v1.layers.dense(features["x"][:, None], 1, name="level")
        predictions = {"high": level + 1.0, "level": tf.squeeze(level, 1), "low": level - 1.0, "inputs": features["x"]}
        if mode == tf.estimator.ModeKeys.PREDICT:
            exports = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
            return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=exports)
        loss = tf.reduce_mean(tf.square(labels[:, None] - level))
        step = tf.compat.v1.train.get_global_step()
        train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, predictions, loss, train)

    def run_fn(fn_args):
        folder = tempfile.mkdtemp()
        estimator = tf.estimator.Estimator(model_fn, folder)
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(8).repeat(), steps=3)
        def receiver():
            x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
            return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})
        shutil.copytree(estimator.export_saved_model(folder + "/export", receiver).decode(), fn_args.serving_model_dir)
        shutil.rmtree(folder)
"""


@pytest.mark.legacy
@pytest.mark.slow
def test_the_prediction_that_the_loss_of_an_estimator_is_computed_from(
    tmp_path: pathlib.Path, module: Callable[..., str]
) -> None:
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    done = train(
        module(ESTIMATOR),
        FnArgs(
            serving_model_dir=str(tmp_path / "model"),
            model_run_dir=str(tmp_path / "run"),
            schema_path=str(tmp_path / "schema.pbtxt"),
        ),
    )
    evidence = TrainingEvidence.from_json(done.parts["evaluation_evidence"])
    assert evidence.loss_keys == ("level",)
    made = plan_of(str(tmp_path / "model"), evidence, str(tmp_path / "schema.pbtxt"), None, Overrides({"": "y"}))
    assert ([one.output for one in made.outputs], made.is_guess) == (["level"], False)
