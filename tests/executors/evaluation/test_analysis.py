"""Models that are evaluated by a plan: TFMA's metrics equal those that NumPy computes from the same answers."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import auc as area
from sklearn.metrics import roc_auc_score

from generic_trainer import InputError
from generic_trainer.executors.compat.beam import IN_PROCESS
from generic_trainer.executors.evaluation.analysis import Analysis, AnalysisResult, Candidate, analyze
from generic_trainer.executors.evaluation.blessing import missed_thresholds
from generic_trainer.executors.evaluation.plan import (
    BINARY,
    LOGITS,
    MARGINS,
    MULTICLASS,
    MULTILABEL,
    PROBABILITIES,
    REGRESSION,
    SET_BY_OPTION,
    EvaluationPlan,
    OutputPlan,
)
from generic_trainer.executors.evaluation.plots import OutputPlots
from generic_trainer.executors.evaluation.scores import ScoresError
from generic_trainer.executors.evaluation.trivial_comparison import comparisons_in
from generic_trainer.executors.inputs.example_kinds import RAW
from generic_trainer.pipelines.history.evaluation_plots import read_plots
from generic_trainer.pipelines.history.evaluation_results import ALL, read_evaluation

from .served_models import COUNT, features, save_model, write_examples

Answer = Callable[[Any], dict[str, Any]]
FEATURES = features()
X = FEATURES["x"]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_examples(FEATURES, tmp_path_factory.mktemp("Split-eval"))


def run(analysis: Analysis, output: pathlib.Path, mode: str = "in_memory") -> AnalysisResult:
    arguments = [IN_PROCESS, f"--direct_running_mode={mode}", "--direct_num_workers=3", "--sdk_container_image=none"]
    return analyze(analysis, beam.Pipeline(argv=arguments), str(output))


def evaluated(
    examples: str,
    answer: Answer,
    outputs: Sequence[OutputPlan],
    folder: pathlib.Path,
    *,
    named: bool = False,
    slice_by: Sequence[str] = (),
) -> tuple[dict[str, dict[str, float]], EvaluationPlan]:
    """Returns {slice: {metric: value}}, and the plan as the answers corrected it."""
    model = save_model(answer, folder / "model", named=named)
    plan = EvaluationPlan("serving_default", RAW, named, tuple(outputs))
    done = run(Analysis([examples], Candidate(model, plan), slice_by=slice_by), folder / "evaluation")
    slices = read_evaluation(str(folder / "evaluation")).slices
    return {name: {key: one.value for key, one in found.items()} for name, found in slices.items()}, done.plan


def assert_ranges(plots: OutputPlots, predictions: Any, labels: Any) -> None:
    """Checks a calibration plot's ranges by the predictions and labels in each."""
    assert len(plots.ranges) == 10
    for one in plots.ranges:
        inside = (predictions >= one.low) & (predictions < one.high)
        assert (one.examples, one.prediction, one.label) == pytest.approx(
            (inside.sum(), predictions[inside].mean(), labels[inside].mean())
        )
        assert COUNT / 15 < one.examples < COUNT / 7


def auc(labels: Any, scores: Any) -> float:
    """The share of pairs that are ranked the right way."""
    difference = np.subtract.outer(scores[labels > 0], scores[labels <= 0])
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)


def cross_entropy(labels: Any, p: Any) -> float:
    return float(-np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p)))


def of_binary(labels: Any, p: Any) -> dict[str, float]:
    return {
        "example_count": COUNT,
        "binary_accuracy": ((p > 0.5) == labels).mean(),
        "binary_crossentropy": cross_entropy(labels, p),
        "calibration": p.mean() / labels.mean(),
    }


@pytest.mark.thorough_but("logits-binary-logits-<lambda>")
@pytest.mark.parametrize(
    ("name", "label", "scores", "answer"),
    [
        ("logits", "binary", LOGITS, lambda x: {"score": 1.5 * x[:, :1]}),
        ("logits_of_rank_1", "binary", LOGITS, lambda x: {"score": 1.5 * x[:, 0]}),
        ("probabilities", "binary", PROBABILITIES, lambda x: {"score": tf.sigmoid(1.5 * x[:, :1])}),
        ("margins", "margin", MARGINS, lambda x: {"score": 1.5 * x[:, :1]}),
        ("two_classes", "binary", LOGITS, lambda x: {"score": tf.concat([x[:, :1] * 0, 1.5 * x[:, :1]], 1)}),
    ],
)
def test_a_binary_task(
    name: str, label: str, scores: str, answer: Answer, examples: str, tmp_path: pathlib.Path
) -> None:
    plan = OutputPlan("score", BINARY, label, scores=scores)
    slices, _ = evaluated(examples, answer, [plan], tmp_path)
    p = sigmoid(1.5 * X[:, 0].astype(float))
    expected = of_binary(FEATURES["binary"], p)
    assert slices[ALL] == pytest.approx({**expected, "auc": auc(FEATURES["binary"], p)}, abs=1e-3)
    assert {key: slices[ALL][key] for key in expected} == pytest.approx(expected, rel=1e-5)
    [plots] = read_plots(str(tmp_path / "evaluation"))
    assert_ranges(plots, p, FEATURES["binary"])
    for one in plots.thresholds[1::200]:
        found = {(y, z): ((FEATURES["binary"] == y) & ((p > one.threshold) == z)).sum() for y in (0, 1) for z in (0, 1)}
        assert one.confusion == found
        assert one.recall == pytest.approx(found[1, 1] / (found[1, 0] + found[1, 1]))
        assert one.false_positive_rate == pytest.approx(found[0, 1] / (found[0, 0] + found[0, 1]))


def test_a_label_that_the_module_converts(examples: str, tmp_path: pathlib.Path) -> None:
    plan = OutputPlan("score", BINARY, "word", scores=LOGITS, label_values=(("yes", 0), ("no", 1)))
    model = save_model(lambda x: {"score": -1.5 * x[:, :1]}, tmp_path / "model")
    done = run(
        Analysis([examples], Candidate(model, EvaluationPlan("serving_default", outputs=(plan,)))),
        tmp_path / "evaluation",
    )
    found = {key: one.value for key, one in read_evaluation(str(tmp_path / "evaluation")).slices[ALL].items()}
    expected = of_binary(1 - FEATURES["binary"], sigmoid(-1.5 * X[:, 0].astype(float)))
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-5)
    assert done.class_names == {"score": {"0": "yes", "1": "no"}}


def test_values_that_the_training_did_not_convert_are_skipped(examples: str, tmp_path: pathlib.Path) -> None:
    plan = OutputPlan("score", MULTICLASS, "third", classes=3, scores=LOGITS, label_values=((0, 2), (1, 0)))
    model = save_model(lambda x: {"score": x}, tmp_path / "model")
    done = run(
        Analysis([examples], Candidate(model, EvaluationPlan("serving_default", outputs=(plan,)))),
        tmp_path / "evaluation",
    )
    [note] = done.notes
    assert note.startswith("The evaluation skipped 200 of 600 examples: label third has the value 2, which")


@pytest.mark.thorough
def test_numbers_outside_of_0_to_1_are_never_probabilities(examples: str, tmp_path: pathlib.Path) -> None:
    plan = OutputPlan("score", BINARY, "binary", scores=PROBABILITIES)
    slices, corrected = evaluated(examples, lambda x: {"score": 1.5 * x[:, :1]}, [plan], tmp_path)
    assert corrected.outputs[0].scores == LOGITS
    expected = of_binary(FEATURES["binary"], sigmoid(1.5 * X[:, 0].astype(float)))
    assert {key: slices[ALL][key] for key in expected} == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("task", [BINARY, REGRESSION])
def test_a_model_that_returns_nan_is_named(task: str, examples: str, tmp_path: pathlib.Path) -> None:
    model = save_model(lambda x: {"score": tf.math.log(x[:, :1])}, tmp_path / "model")
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", task, "binary", scores=LOGITS),))
    with pytest.raises(ScoresError, match=rf"output score is NaN for {(X[:512, 0] < 0).sum()} of 512 examples"):
        run(Analysis([examples], Candidate(model, plan)), tmp_path / "evaluation")


def test_scores_set_by_the_user_are_not_changed(examples: str, tmp_path: pathlib.Path) -> None:
    model = save_model(lambda x: {"score": x[:, :1]}, tmp_path / "model")
    output = OutputPlan("score", BINARY, "binary", scores=PROBABILITIES)
    plan = EvaluationPlan("serving_default", outputs=(output,), reasons={"scores": SET_BY_OPTION})
    with pytest.raises(ScoresError, match=r"values from -.* to .*, which are not probabilities. Set --scores logits"):
        run(Analysis([examples], Candidate(model, plan)), tmp_path / "evaluation")


@pytest.mark.thorough_but("species-logits-<lambda>")
@pytest.mark.parametrize(
    ("label", "scores", "answer"),
    [
        ("species", LOGITS, lambda x: {"score": 2.0 * x}),
        ("one_hot", LOGITS, lambda x: {"score": 2.0 * x}),
        ("one_hot", PROBABILITIES, lambda x: {"score": tf.nn.softmax(2.0 * x)}),
    ],
)
def test_several_classes(label: str, scores: str, answer: Answer, examples: str, tmp_path: pathlib.Path) -> None:
    slices, _ = evaluated(examples, answer, [OutputPlan("score", MULTICLASS, label, scores=scores)], tmp_path)
    p, species = softmax(2.0 * X.astype(float)), FEATURES["species"]
    expected = {
        "example_count": COUNT,
        "sparse_categorical_accuracy": (p.argmax(axis=1) == species).mean(),
        "sparse_categorical_crossentropy": -np.log(p[np.arange(COUNT), species]).mean(),
    }
    assert slices[ALL] == pytest.approx(expected, rel=1e-5)
    [plots] = read_plots(str(tmp_path / "evaluation"))
    assert plots.confusion == collections.Counter(zip(species.tolist(), p.argmax(axis=1).tolist(), strict=True))


@pytest.mark.thorough_but("logits")
@pytest.mark.parametrize("scores", [LOGITS, PROBABILITIES])
def test_several_labels(scores: str, examples: str, tmp_path: pathlib.Path) -> None:
    def answer(x: Any) -> dict[str, Any]:
        return {"score": x if scores == LOGITS else tf.sigmoid(x)}

    slices, _ = evaluated(examples, answer, [OutputPlan("score", MULTILABEL, "tags", scores=scores)], tmp_path)
    p, tags = sigmoid(X.astype(float)), FEATURES["tags"]
    assert slices[ALL]["binary_accuracy"] == pytest.approx(((p > 0.5) == tags).mean(), rel=1e-6)
    assert slices[ALL]["auc"] == pytest.approx(auc(tags.ravel(), p.ravel()), abs=1e-3)


def test_regression_with_any_loss(examples: str, tmp_path: pathlib.Path) -> None:
    plan = OutputPlan("score", REGRESSION, "price", loss="huber")
    slices, _ = evaluated(examples, lambda x: {"score": 3.0 * x[:, :1] + 9.5}, [plan], tmp_path)
    error = 3.0 * X[:, 0].astype(float) + 9.5 - FEATURES["price"]
    expected = {
        "example_count": COUNT,
        "mean_squared_error": (error**2).mean(),
        "mean_absolute_error": np.abs(error).mean(),
    }
    assert slices[ALL] == pytest.approx(expected, rel=1e-5)
    [plots] = read_plots(str(tmp_path / "evaluation"))
    assert_ranges(plots, 3.0 * X[:, 0].astype(float) + 9.5, FEATURES["price"])


def test_several_outputs_and_named_tensors_and_slices(examples: str, tmp_path: pathlib.Path) -> None:
    outputs = [
        OutputPlan("click", BINARY, "binary", scores=LOGITS),
        OutputPlan("price", REGRESSION, "price"),
    ]

    def answer(x: Any) -> dict[str, Any]:
        return {"price": 3.0 * x[:, :1] + 10.0, "click": x[:, :1], "key": tf.strings.as_string(x[:, 0])}

    slices, _ = evaluated(examples, answer, outputs, tmp_path, named=True, slice_by=["third"])
    p, error = sigmoid(X[:, 0].astype(float)), 3.0 * X[:, 0].astype(float) + 10.0 - FEATURES["price"]
    for name, rows in {ALL: slice(None), "third=1": slice(1, None, 3)}.items():
        found, labels = slices[name], FEATURES["binary"][rows]
        assert found["example_count"] == len(labels)
        assert found["click/binary_crossentropy"] == pytest.approx(cross_entropy(labels, p[rows]), rel=1e-5)
        assert found["click/auc"] == pytest.approx(auc(labels, p[rows]), abs=1e-3)
        assert found["price/mean_squared_error"] == pytest.approx((error[rows] ** 2).mean(), rel=1e-5)
    plots = {one.output: one for one in read_plots(str(tmp_path / "evaluation"))}  # none of the slices
    assert sum(plots["click"].thresholds[0].confusion.values()) == COUNT
    assert sum(one.examples for one in plots["price"].ranges) == COUNT


def missed(analysis: Analysis, output: pathlib.Path) -> list[str]:
    config = run(analysis, output).config
    return missed_thresholds(str(output), comparisons_in(str(output), config))


def test_a_model_is_not_blessed_if_it_is_trivial_or_below_the_baseline(examples: str, tmp_path: pathlib.Path) -> None:
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", BINARY, "binary", scores=LOGITS),))
    good = Candidate(save_model(lambda x: {"score": x[:, :1]}, tmp_path / "good"), plan)
    poor = Candidate(save_model(lambda x: {"score": x[:, :1] + 3 * x[:, 1:2]}, tmp_path / "poor"), plan)
    wrong = Candidate(save_model(lambda x: {"score": -x[:, :1]}, tmp_path / "wrong"), plan)
    [text] = missed(Analysis([examples], wrong), tmp_path / "1")
    assert text.startswith("auc is 0.")
    assert ", and 0.5 for a model that always predicts the base rate: the model is not better than that" in text
    assert missed(Analysis([examples], wrong, allow_trivial=True), tmp_path / "allowed") == []
    [text] = missed(Analysis([examples], poor, good), tmp_path / "2")
    assert text.startswith("auc differs from the baseline model's by -0.")
    assert missed(Analysis([examples], poor, good, max_degradation=0.5), tmp_path / "3") == []
    assert "auc_diff" in read_evaluation(str(tmp_path / "3")).slices[ALL]
    [plots] = read_plots(str(tmp_path / "3"))  # the candidate's
    assert plots.ranges[-1].prediction == pytest.approx(np.sort(sigmoid(X[:, 0] + 3 * X[:, 1]))[-60:].mean(), abs=0.01)


@pytest.mark.thorough
def test_a_baseline_that_cannot_be_evaluated_is_excluded(examples: str, tmp_path: pathlib.Path) -> None:
    def fails(x: Any) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_less(x, -100.0, "too large")]):
            return {"score": tf.identity(x[:, :1])}

    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", BINARY, "binary", scores=LOGITS),))
    candidate = Candidate(save_model(lambda x: {"score": x[:, :1]}, tmp_path / "model"), plan)
    broken = Candidate(save_model(fails, tmp_path / "broken"), plan)
    done = run(Analysis([examples], candidate, broken), tmp_path / "evaluation")
    [note] = done.notes
    assert note.startswith("The baseline model was excluded from the comparison: ")
    assert "too large" in note
    assert "auc" in read_evaluation(str(tmp_path / "evaluation")).slices[ALL]


def test_models_are_compared_on_the_examples_that_both_support(tmp_path: pathlib.Path) -> None:
    """The baseline fails on an example of the second batch, after the first one has been tried."""

    def fails(x: Any) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_less(x, 50.0, "too large")]):
            return {"score": tf.identity(x[:, :1])}

    x = X.copy()
    x[550, 1] = 99.0
    examples = write_examples({**FEATURES, "x": x}, tmp_path)
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", BINARY, "binary", scores=LOGITS),))
    candidate = Candidate(save_model(lambda x: {"score": x[:, :1]}, tmp_path / "model"), plan)
    baseline = Candidate(save_model(fails, tmp_path / "baseline"), plan)
    done = run(Analysis([examples], candidate, baseline), tmp_path / "evaluation")
    metrics = read_evaluation(str(tmp_path / "evaluation")).slices[ALL]
    assert (metrics["example_count"].value, metrics["auc_diff"].value) == (COUNT - 1, 0.0)
    [note] = done.notes
    assert note.startswith(f"The evaluation skipped 1 of {COUNT} examples: ")
    assert "too large" in note


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (OutputPlan("score", BINARY, "word"), "label word has string values, which cannot be compared with numbers"),
        (OutputPlan("score", BINARY, "Binary"), "the raw examples have no feature 'Binary'.* Did you mean 'binary'"),
        (OutputPlan("score", BINARY, "tags"), "label tags has 3 values per example and output score has 1"),
        (OutputPlan("logits", BINARY, "binary"), "signature 'serving_default' has no output 'logits'; it has score"),
    ],
)
def test_mismatched_labels_and_outputs_are_named(
    output: OutputPlan, message: str, examples: str, tmp_path: pathlib.Path
) -> None:
    model = save_model(lambda x: {"score": x[:, :1]}, tmp_path / "model")
    plan = EvaluationPlan("serving_default", outputs=(dataclasses.replace(output, scores=LOGITS),))
    with pytest.raises(InputError, match=message):
        run(Analysis([examples], Candidate(model, plan)), tmp_path / "evaluation")


@pytest.mark.thorough
def test_examples_without_a_label_or_prediction_are_skipped_and_counted(tmp_path: pathlib.Path) -> None:
    """The model drops the rows below -1, as a boolean mask in Transform does; every tenth example has no label."""

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def serve(self, examples: Any) -> dict[str, Any]:
            x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([3], tf.float32)})["x"]
            return {"score": tf.sigmoid(tf.boolean_mask(x, x[:, 0] > -1)[:, :1])}

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures={"serving_default": model.serve})
    some = np.arange(COUNT) % 10 == 0
    partly: list[Any] = [[] if missing else [value] for missing, value in zip(some, FEATURES["binary"], strict=True)]
    column = np.empty(COUNT, object)
    column[:] = partly
    examples = write_examples({"x": X, "partly": column}, tmp_path)
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", BINARY, "partly", scores=PROBABILITIES),))
    done = run(Analysis([examples], Candidate(str(tmp_path / "model"), plan)), tmp_path / "evaluation")
    kept = (X[:, 0] > -1) & ~some
    metrics = read_evaluation(str(tmp_path / "evaluation")).slices[ALL]
    assert metrics["example_count"].value == kept.sum()
    expected = auc(FEATURES["binary"][kept], X[kept, 0])
    assert metrics["auc"].value == pytest.approx(expected, abs=1e-3)
    [note] = done.notes
    assert note.startswith(f"The evaluation skipped {COUNT - kept.sum()} of {COUNT} examples: ")
    assert "partly" in note


@pytest.mark.thorough
def test_keras_models_of_both_versions(examples: str, tmp_path: pathlib.Path) -> None:
    """Two heads of a Keras 3 model, and of a Keras 2 model, as their exports name the outputs."""
    import keras
    import tf_keras

    for version, library in {"2": tf_keras, "3": keras}.items():
        inputs = library.Input([3], name="x")
        heads = {name: library.layers.Dense(1, name=name)(inputs) for name in ("click", "price")}
        model = library.Model(inputs, heads)
        answers = {name: np.asarray(value)[:, 0].astype(float) for name, value in model(X).items()}

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
        def serve(x: Any, model: Any = model) -> Mapping[str, Any]:
            return model(x)

        module = tf.Module()
        module.model, folder = model, str(tmp_path / version)
        tf.saved_model.save(model, folder, signatures={"serving_default": serve})
        outputs = (OutputPlan("click", BINARY, "binary", scores=LOGITS), OutputPlan("price", REGRESSION, "price"))
        plan = EvaluationPlan("serving_default", RAW, True, outputs)
        run(Analysis([examples], Candidate(folder, plan)), tmp_path / f"evaluation{version}")
        found = read_evaluation(str(tmp_path / f"evaluation{version}")).metrics["eval"]
        crossentropy = cross_entropy(FEATURES["binary"], sigmoid(answers["click"]))
        assert found["click/binary_crossentropy"] == pytest.approx(crossentropy, rel=1e-4)
        error = answers["price"] - FEATURES["price"]
        assert found["price/mean_squared_error"] == pytest.approx((error**2).mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("scores", "answer"),
    [
        (LOGITS, lambda x: {"score": 200.0 * x[:, :1] + 150.0}),  # a sigmoid rounds most of them to 1
        pytest.param(
            PROBABILITIES, lambda x: {"score": 1e-9 * tf.sigmoid(x[:, :1])}, marks=pytest.mark.thorough
        ),  # below each of TFMA's thresholds
        pytest.param(
            PROBABILITIES, lambda x: {"score": tf.round(3 * tf.sigmoid(x[:, :1])) / 3}, marks=pytest.mark.thorough
        ),
    ],
)
def test_auc_and_its_curve_are_by_rank(scores: str, answer: Answer, examples: str, tmp_path: pathlib.Path) -> None:
    plan = OutputPlan("score", BINARY, "binary", scores=scores)
    slices, _ = evaluated(examples, answer, [plan], tmp_path, slice_by=["third"])
    answered = answer(tf.constant(X))["score"].numpy().ravel()
    labels, groups = FEATURES["binary"], FEATURES["third"]
    expected = {f"third={one}": roc_auc_score(labels[groups == one], answered[groups == one]) for one in range(3)}
    expected[ALL] = roc_auc_score(labels, answered)
    assert {name: found["auc"] for name, found in slices.items()} == pytest.approx(expected, abs=1e-9)
    [plots] = read_plots(str(tmp_path / "evaluation"))
    rates = sorted((one.false_positive_rate, one.recall) for one in plots.thresholds)
    assert area(*np.transpose(rates)) == pytest.approx(expected[ALL], abs=0.005)


@pytest.mark.parametrize(
    ("label", "task", "metric"),
    [
        ("price", REGRESSION, "mean_squared_error"),
        pytest.param("binary", BINARY, "auc", marks=pytest.mark.thorough),
    ],
)
def test_the_results_of_several_workers_are_merged(label: str, task: str, metric: str, tmp_path: pathlib.Path) -> None:
    files = []
    for number, factor in enumerate((1.0, 2.0, 5.0)):  # the parts must differ
        (tmp_path / str(number)).mkdir()
        features = {**FEATURES, "x": (factor * X).astype(np.float32), label: FEATURES[label] + (task == REGRESSION)}
        files.append(write_examples(features, tmp_path / str(number)))
    model = save_model(lambda x: {"score": x[:, :1] + 9.0}, tmp_path / "model")
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", task, label, scores=LOGITS),))
    for mode in ("in_memory", "multi_threading"):
        run(Analysis(files, Candidate(model, plan), allow_trivial=True), tmp_path / mode, mode)
    first, second = (read_evaluation(str(tmp_path / mode)).slices[ALL] for mode in ("in_memory", "multi_threading"))
    labels = np.tile(FEATURES[label] + (task == REGRESSION), 3)
    scores = np.concatenate([factor * X[:, 0] + 9.0 for factor in (1.0, 2.0, 5.0)])
    expected = ((scores - labels) ** 2).mean() if task == REGRESSION else roc_auc_score(labels, scores)
    assert (first[metric].value, second[metric].value) == pytest.approx((expected, expected), rel=1e-5)
