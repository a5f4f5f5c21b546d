"""Predicted classes beside scores."""

from __future__ import annotations

import numpy as np
import pytest

from generic_trainer.executors.saved_models.prediction.classes import PredictedClasses

SOFTMAX = np.array([[0.2, 0.7, 0.1], [0.5, 0.2, 0.3]], np.float32)


@pytest.mark.parametrize(
    ("outputs", "thresholds", "classes"),
    [
        ({"p": SOFTMAX}, None, {"predicted_class": [1, 0]}),
        ({"p": SOFTMAX.astype(np.float16)}, None, {"predicted_class": [1, 0]}),
        ({"p": SOFTMAX * 2}, None, {}),  # no distribution
        ({"p": SOFTMAX - 0.5}, {"p": 0.0}, {"predicted_class": [1, 0]}),  # logits, by the evaluation plan
        ({"p": SOFTMAX}, {}, {}),  # a regression, by the evaluation plan
        ({"p": SOFTMAX, "q": SOFTMAX[::-1]}, None, {"predicted_class_p": [1, 0], "predicted_class_q": [0, 1]}),
        ({"p": np.array([[0.4], [0.6]])}, {"p": 0.5}, {"predicted_class": [0, 1]}),
        ({"p": np.array([0.4, -0.1])}, {"p": 0.0}, {"predicted_class": [1, 0]}),
        ({"p": np.array([[0.4], [1.0]])}, None, {}),  # the task is unknown
        ({"p": SOFTMAX, "class": np.array([b"b", b"a"], object)}, None, {}),  # the model returns the class
        ({"p": SOFTMAX, "class_id": np.array([[1], [0]])}, None, {}),
        ({"p": SOFTMAX, "names": np.array([[b"a", b"b", b"c"]] * 2, object)}, None, {"predicted_class": [b"b", b"a"]}),
    ],
)
def test_classes(outputs: dict[str, np.ndarray], thresholds: dict[str, float] | None, classes: dict[str, list]) -> None:
    found = PredictedClasses(thresholds).of(outputs)
    assert {name: values.tolist() for name, values in found.items()} == classes


def test_the_first_batch_determines_the_columns() -> None:
    classes = PredictedClasses(None)
    assert list(classes.of({"p": SOFTMAX})) == ["predicted_class"]
    assert list(classes.of({"p": SOFTMAX * np.nan})) == ["predicted_class"]


@pytest.mark.parametrize(
    ("scores", "names", "expected"),
    [
        (SOFTMAX, {"0": "no", "1": "yes", "2": "?"}, [b"yes", b"no"]),
        (SOFTMAX, {"1": "yes"}, [b"yes", b"0"]),  # several values of the label are class 0
        (SOFTMAX, {"0": 10, "1": 30, "2": 20}, [30, 10]),
        (np.array([[0.9], [0.2]]), {"0": "ham", "1": "spam"}, [b"spam", b"ham"]),
    ],
)
def test_a_class_has_the_value_of_the_label(scores: np.ndarray, names: dict[str, str], expected: list) -> None:
    classes = PredictedClasses({"p": 0.5}, {"p": names})
    assert classes.of({"p": scores})["predicted_class"].tolist() == expected
