"""Plans for models with only a graph, as Estimators and custom loops export them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from generic_trainer.executors.evaluation.plan import Overrides
from generic_trainer.executors.evaluation.planning import plan_of
from generic_trainer.executors.saved_models.signatures import signatures_of

v1 = tf.compat.v1
Answers = Callable[[Any], dict[str, dict[str, Any]]]


def exported(folder: pathlib.Path, units: int, answers: Answers) -> str:
    """Exports a TensorFlow 1 graph with signatures over serialized examples, as an Estimator does."""
    target = str(folder / "model")
    with tf.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None], name="input_example_tensor")
        x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        weights = v1.get_variable("weights", [1, units], use_resource=True)
        logits = tf.nn.bias_add(tf.matmul(x, weights), tf.zeros([units]))
        session.run(v1.global_variables_initializer())
        signatures = {
            name: v1.saved_model.predict_signature_def({"inputs": examples}, outputs)
            for name, outputs in answers(logits).items()
        }
        builder = v1.saved_model.builder.SavedModelBuilder(target)
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return target


def schema(folder: pathlib.Path, label: str = "INT", most: int = 1) -> str:
    domain = f"int_domain {{ min: 0 max: {most} }}" if label == "INT" else ""
    text = 'feature { name: "x" type: FLOAT shape { dim { size: 1 } } }\n'
    text += f'feature {{ name: "y" type: {label} {domain} shape {{ dim {{ size: 1 }} }} }}\n'
    (folder / "schema.pbtxt").write_text(text)
    return str(folder / "schema.pbtxt")


def classifier(logits: Any) -> dict[str, dict[str, Any]]:
    two = tf.concat([tf.zeros_like(logits), logits], 1)
    probabilities = tf.nn.softmax(two)
    ids = tf.expand_dims(tf.argmax(two, 1), 1)
    classes = tf.as_string(ids)
    return {
        "serving_default": {"classes": classes, "scores": probabilities},
        "predict": {
            "all_classes": tf.tile(tf.constant([["0", "1"]]), [tf.shape(logits)[0], 1]),
            "class_ids": ids,
            "classes": classes,
            "logistic": tf.sigmoid(logits),
            "logits": logits,
            "probabilities": probabilities,
        },
    }


def regressor(logits: Any) -> dict[str, dict[str, Any]]:
    return {"serving_default": {"outputs": logits}, "predict": {"predictions": logits}}


@pytest.mark.parametrize(
    ("answers", "units", "label", "most", "expected"),
    [
        (classifier, 1, "INT", 1, ("predict", "logistic", "binary", "probabilities", 0)),
        (
            lambda logits: {
                "serving_default": {"classes": tf.as_string(tf.argmax(logits, 1)), "scores": tf.nn.softmax(logits)},
                "predict": {"class_ids": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)},
            },
            3, "INT", 2, ("predict", "probabilities", "multiclass", "probabilities", 3),
        ),
        (regressor, 1, "FLOAT", 0, ("serving_default", "outputs", "regression", "values", 0)),
        (
            lambda logits: {"serving_default": {"id": tf.argmax(logits, 1), "prob": tf.nn.softmax(logits)}},
            4, "INT", 3, ("serving_default", "prob", "multiclass", "probabilities", 4),
        ),
        (
            lambda logits: {"serving_default": {"logits": logits}},
            1, "INT", 1, ("serving_default", "logits", "binary", "logits", 0),
        ),
    ],
    ids=["binary classifier", "multi-class classifier", "regressor", "model_fn of its own", "logits alone"],
)  # fmt: skip
def test_outputs_and_label_show_the_task(
    answers: Answers, units: int, label: str, most: int, expected: Any, tmp_path: pathlib.Path
) -> None:
    model = exported(tmp_path, units, answers)
    plan = plan_of(model, None, schema(tmp_path, label, most), None, Overrides({"": "y"}))
    [one] = plan.outputs
    assert (plan.signature, one.output, one.task, one.scores, one.classes) == expected, plan.reasons
    assert (one.label, plan.examples, plan.takes_tensors) == ("y", "raw", False)


def test_an_ambiguous_task_stays_unknown_and_names_the_option(tmp_path: pathlib.Path) -> None:
    plan = plan_of(exported(tmp_path, 1, regressor), None, schema(tmp_path), None, Overrides({"": "y"}))
    assert plan.outputs[0].task == "unknown"
    assert "set --task" in plan.line()
    assert not plan.compares


def test_a_sigmoid_is_not_compared_with_labels_beyond_one(tmp_path: pathlib.Path) -> None:
    model = exported(tmp_path, 1, classifier)
    plan = plan_of(model, None, schema(tmp_path, most=9), None, Overrides({"": "y"}))
    assert (plan.outputs[0].task, plan.compares) == ("unknown", False)
    assert "labels up to 9" in plan.reasons["task"]


def test_features_and_ops_are_found_in_functions_and_branches(tmp_path: pathlib.Path) -> None:
    class Nested(tf.Module):
        @tf.function
        def inner(self, x: Any) -> Any:
            return tf.cast(tf.reshape(tf.nn.sigmoid(x), [-1]), tf.float64), tf.argmax(x, 1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples: Any) -> Any:
            spec = {
                "dense": tf.io.FixedLenFeature([], tf.float32),
                "default": tf.io.FixedLenFeature([], tf.int64, 0),
                "sparse": tf.io.VarLenFeature(tf.string),
                "ragged": tf.io.RaggedFeature(tf.int64),
            }
            parsed = tf.io.parse_example(examples, spec)
            score, best = self.inner(tf.stack([parsed["dense"], tf.cast(parsed["default"], tf.float32)], 1))
            both = tf.cond(tf.size(best) > 0, lambda: tf.nn.sigmoid(score), lambda: score)
            return {"score": score, "best": tf.cast(best, tf.float32), "branches": both}

    module = Nested()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    [signature] = signatures_of(str(tmp_path / "model"))
    assert {one.name: (one.dtype, one.required) for one in signature.parsed or ()} == {
        "dense": ("float32", True),
        "default": ("int64", False),
        "sparse": ("string", False),
        "ragged": ("int64", False),
    }
    outputs = {one.name: one for one in signature.outputs}
    assert (outputs["score"].op, outputs["score"].is_score) == ("Sigmoid", True)
    assert (outputs["best"].op, outputs["best"].is_score) == ("ArgMax", False)
    assert outputs["branches"].op not in ("Sigmoid", "Softmax")
    assert signature.takes_examples


def test_a_damaged_model_gives_a_plan_with_a_problem(tmp_path: pathlib.Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    plan = plan_of(str(tmp_path), None, schema(tmp_path), None)
    assert "cannot be evaluated" in plan.problem
