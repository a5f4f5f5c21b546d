"""An Estimator's whole life: train, evaluate, predict, export, and load the export again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import people
import tensorflow as tf


def config(folder: str, **options: Any) -> Any:
    return tf.estimator.RunConfig(model_dir=os.path.join(folder, "model"), tf_random_seed=1, **options)


def live(
    estimator: Any,
    labels: Any,
    *,
    steps: int = 40,
    receiver: Callable[[], Any] | None = None,
) -> dict[str, Any]:
    """Runs through all of it and returns the metrics of the evaluation; the export answers what `predict` says."""
    estimator.train(people.batches(labels), steps=steps)
    metrics = estimator.evaluate(people.batches(labels, epochs=1))
    assert metrics["global_step"] == steps
    predictions = list(estimator.predict(people.batches(labels, epochs=1)))
    assert len(predictions) == people.COUNT
    export = estimator.export_saved_model(
        os.path.join(os.path.dirname(estimator.model_dir), "export"), receiver or people.receiver()
    )
    same_answers(export, predictions)
    return numbers(metrics)


def same_answers(export: bytes | str, predictions: list[dict[Any, Any]]) -> None:
    """Asserts that the export's `predict` signature answers as the Estimator did."""
    answers = serve(export)
    compared = 0
    for name in answers:
        if name in predictions[0]:
            expected = np.stack([np.asarray(prediction[name]) for prediction in predictions])
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(answers[name].reshape(expected.shape), expected, rtol=1e-4, atol=1e-6)
            else:
                np.testing.assert_array_equal(answers[name].reshape(expected.shape).astype(expected.dtype), expected)
            compared += 1
    assert compared, (sorted(answers), sorted(map(str, predictions[0])))


def serve(export: bytes | str, signature: str = "predict") -> dict[str, Any]:
    """Loads an export as a server does and asks it about all the people."""
    loaded = tf.saved_model.load(os.fsdecode(export), tags=["serve"])
    function = loaded.signatures[signature]
    (argument,) = function.structured_input_signature[1]
    outputs = function(**{argument: tf.constant(people.serialized())})
    return {name: value.numpy() for name, value in outputs.items()}


def numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Returns metrics as JSON can hold them."""
    return {str(name): float(value) for name, value in metrics.items()}
