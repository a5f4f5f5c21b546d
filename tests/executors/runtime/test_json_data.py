"""Dataclasses survive their JSON form; values of another type are named."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.executors.runtime.files.json_data import JsonData, from_json


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    counts: Mapping[tuple[int, int], float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Whole(JsonData):
    size: int
    share: float | None = None
    parts: tuple[Part, ...] = ()
    labels: tuple[tuple[str | int, float], ...] = ()
    first: Part | None = None
    others: dict[str, list[Part]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Derived(Whole):
    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "is_small": self.size < 2}


WHOLES = [
    Whole(1),
    Whole(2, 0.5, (Part("a", {(0, 1): 5.0}), Part("b")), (("x", 1.0), (3, 2.0)), Part("c"), {"d": [Part("e")]}),
    Derived(1),
]


@pytest.mark.parametrize("whole", WHOLES)
def test_what_is_read_equals_what_was_written(whole: Whole) -> None:
    assert type(whole).from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert type(whole).from_json(whole.to_json()) == whole


def test_missing_fields_have_their_defaults_and_newer_ones_are_ignored() -> None:
    assert Whole.from_json({"size": 3, "newer": [{}]}) == Whole(3)


def test_keys_that_are_texts_and_tuples_have_no_json_form() -> None:
    with pytest.raises(TypeError, match="tuple"):
        json.dumps(Whole(1, parts=(Part("a", {(0, 1): 5.0, "01": 2.0}),)).to_json())  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({}, "size is missing"),
        ({"size": "3"}, 'size: expected an integer, not "3"'),
        ({"size": True}, "size: expected an integer, not true"),
        ({"size": 1, "share": float("nan")}, "share: expected a number, not NaN"),
        ({"size": 1, "parts": [{"name": "a"}, {"name": 2}]}, "parts[1].name: expected a text, not 2"),
        ({"size": 1, "parts": [{"name": "a", "counts": [[0, 1]]}]}, "parts[0].counts[0]: expected 3 values, not 2"),
        ({"size": 1, "others": {"d": {}}}, "others.d: expected a list, not an object"),
        ([], "its value: expected an object, not a list"),
    ],
)
def test_a_value_of_another_type_is_named(state: object, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        from_json(Whole, state, "sizes.json")
    assert str(caught.value) == f"sizes.json: {problem}."
