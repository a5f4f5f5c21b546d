"""Names of a signature's inputs: a feature's own where TensorFlow accepts it, else one close to it."""

from __future__ import annotations

import pytest

from generic_trainer.executors.saved_models.input_names import argument_names, feature_for, is_usable


def test_a_feature_keeps_its_name_where_tensorflow_accepts_it() -> None:
    names = ["age", "capital-gain", "class", "1st", "a b", "sepal.length", "self", "_x", "é", "", "match", "Upper_2"]
    found = argument_names(names)
    assert list(found) == names
    assert [found[name] for name in ("age", "match", "Upper_2")] == ["age", "match", "Upper_2"]
    assert found["capital-gain"] == "capital_gain"
    assert found["class"] == "class_"
    assert found["1st"] == "arg_1st"
    assert all(map(is_usable, found.values()))


def test_names_that_become_the_same_are_numbered_in_any_order() -> None:
    names = ["x y", "x.y", "x_y", "X_Y", "x_y_1"]
    found = argument_names(names)
    assert found["x_y_1"] == "x_y_1"
    assert found["X_Y"] == "X_Y"  # first in order; TensorFlow does not tell names by case
    assert len({name.lower() for name in found.values()}) == len(names)
    assert argument_names(reversed(names)) == found
    assert [feature_for(name, names) for name in found.values()][-1] == "x_y_1"


@pytest.mark.parametrize(
    ("name", "features", "found"),
    [
        ("age", ["age", "a.ge"], "age"),
        ("capital_gain", ["label", "capital-gain"], "capital-gain"),
        ("x_y", ["x-y", "x.y"], "x-y"),
        ("x_y_1", ["x-y", "x.y"], "x.y"),
        ("b", ["a"], None),
        ("b", [], None),
    ],
)
def test_the_feature_of_an_input(name: str, features: list[str], found: str | None) -> None:
    assert feature_for(name, features) == found
