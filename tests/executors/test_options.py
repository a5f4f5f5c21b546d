"""`TrainingOptions` pass through TFX's execution properties unchanged; invalid values are reported."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from generic_trainer import InputError, TrainingOptions
from generic_trainer.executors.engines.cluster_options import worker_range
from generic_trainer.executors.options import declared_options

# Every field differs from its default, but `timeout`, which needs `isolate`.
ALL = TrainingOptions(
    dialect="run_fn",
    isolate=False,
    keras="2",
    required_signatures=("serving_default", "transform"),
    skip_checks=("answers", "finite"),
    seed=2**53 + 1,
    engine="ray",
    workers="1:4",
    ps=2,
    cluster_address="ray://head:10001",
    cpus_per_worker=0.5,
    gpus_per_worker=1.0,
    memory_gb_per_worker=8.0,
    max_failures=-1,
    analysis_seconds=0.5,
    deterministic=True,
    early_stop="val_loss:3",
    best_model="val_auc:max",
    stop_on_nan=True,
    on_bad_records="skip:2",
    profile=True,
    track="none",
)


def test_defaults_need_no_properties() -> None:
    assert TrainingOptions().to_exec_properties() == {}
    assert TrainingOptions.from_exec_properties({}) == TrainingOptions()


@pytest.mark.parametrize("options", [ALL, TrainingOptions(timeout=1.5), TrainingOptions(seed=0)])
def test_properties_round_trip(options: TrainingOptions) -> None:
    assert TrainingOptions.from_exec_properties(options.to_exec_properties()) == options


@pytest.mark.parametrize("options", [ALL, TrainingOptions(timeout=1.5, isolate=True), TrainingOptions(seed=0)])
def test_properties_sent_as_strings_round_trip(options: TrainingOptions) -> None:
    strings = {name: str(value) for name, value in options.to_exec_properties().items()}

    assert TrainingOptions.from_exec_properties(strings) == options


def test_every_option_has_a_property() -> None:
    assert {*ALL.to_exec_properties(), "timeout"} == {option.name for option in declared_options()}


def test_properties_have_types_that_ml_metadata_stores() -> None:
    assert {type(value) for value in ALL.to_exec_properties().values()} == {str, int, float}
    assert ALL.to_exec_properties()["isolate"] == 0
    assert json.loads(ALL.to_exec_properties()["skip_checks"]) == ["answers", "finite"]


@pytest.mark.parametrize("nothing", [None, ""])
def test_none_and_empty_strings_mean_the_default(nothing: str | None) -> None:
    names = [field.name for field in dataclasses.fields(TrainingOptions)]

    assert TrainingOptions.from_exec_properties(dict.fromkeys(names, nothing)) == TrainingOptions()


def test_a_property_of_a_package_that_is_gone_is_an_error() -> None:
    with pytest.raises(InputError, match=r"property early_stp='val_loss': no installed .* Did you mean 'early_stop'\?"):
        TrainingOptions.from_exec_properties({"early_stp": "val_loss"})


def test_the_other_properties_of_a_trainer_are_unchanged() -> None:
    properties = {"module_file": "m.py", "train_args": "{}", "custom_config": "null", "seed": 1}

    assert TrainingOptions.from_exec_properties(properties) == TrainingOptions(seed=1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, True), ("true", True), ("True", True), ("1", True), (1.0, True), (0, False), ("false", False), (0.0, False)],
)
def test_flags_have_many_spellings(value: Any, expected: bool) -> None:
    assert TrainingOptions.from_exec_properties({"isolate": value}).isolate is expected


@pytest.mark.parametrize(("value", "expected"), [(7, 7), (7.0, 7), ("7", 7), ("7.0", 7), ("-1", -1)])
def test_a_seed_may_be_a_number_of_any_type(value: Any, expected: int) -> None:
    assert TrainingOptions.from_exec_properties({"seed": value}).seed == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolate", "maybe"),
        ("timeout", "an hour"),
        ("seed", "lucky"),
        ("seed", "7.5"),
        ("required_signatures", "serving_default"),
        ("required_signatures", '{"a": 1}'),
        ("required_signatures", "[1]"),
        ("skip_checks", "3"),
    ],
)
def test_an_invalid_value_is_reported_with_its_property(name: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        TrainingOptions.from_exec_properties({name: value})

    assert f"{name}={value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ({"engine": "locl"}, "Did you mean 'local'?"),
        ({"keras": "aut"}, "Did you mean 'auto'?"),
        ({"skip_checks": ("answer",)}, "Did you mean 'answers'?"),
    ],
)
def test_a_wrong_choice_is_reported_with_the_choices_and_the_nearest(wrong: dict[str, Any], near: str) -> None:
    with pytest.raises(InputError, match=r"choose from ") as caught:
        TrainingOptions(**wrong)

    assert near in str(caught.value)
    assert next(iter(wrong)) in str(caught.value)


def test_a_wrong_choice_in_a_property_is_rejected_too() -> None:
    with pytest.raises(InputError, match=r"keras='4': choose from auto, 2, 3\."):
        TrainingOptions.from_exec_properties({"keras": 4})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 2**70, -(2**70), 10**400, "1", True])
@pytest.mark.parametrize("name", [option.name for option in declared_options() if option.numbers])
def test_what_is_no_number_of_an_options_range_is_rejected(name: str, number: Any) -> None:
    with pytest.raises(InputError, match=rf"^{name}=.*: give an? "):
        TrainingOptions(**{"engine": "ray", name: number})


@pytest.mark.parametrize("number", [0, -1.0])
def test_a_timeout_is_above_zero(number: float) -> None:
    with pytest.raises(InputError, match=f"timeout={number}: give a number above 0"):
        TrainingOptions(timeout=number)


@pytest.mark.parametrize(("workers", "least_and_most"), [("1", (1, 1)), ("3", (3, 3)), ("2:5", (2, 5)), (4, (4, 4))])
def test_workers_are_a_number_or_a_range(workers: Any, least_and_most: tuple[int, int]) -> None:
    assert worker_range(TrainingOptions(engine="ray", workers=workers).workers) == least_and_most


@pytest.mark.parametrize("workers", ["0", "-1", "4:2", "two", "", "1:", "1:2:3", 1.5])
def test_invalid_workers_are_rejected(workers: Any) -> None:
    with pytest.raises(InputError, match="workers="):
        TrainingOptions(engine="ray", workers=workers)


@pytest.mark.parametrize(
    "wrong", [{"ps": -1}, {"cpus_per_worker": 0.0}, {"gpus_per_worker": -1.0}, {"max_failures": -2}]
)
def test_a_cluster_of_invalid_size_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        TrainingOptions(engine="ray", **wrong)


def test_cluster_options_need_a_cluster() -> None:
    with pytest.raises(InputError, match="workers='2' needs engine='ray'"):
        TrainingOptions(workers="2")


def test_a_timeout_needs_a_subprocess() -> None:
    with pytest.raises(InputError, match="timeout needs isolate=True"):
        TrainingOptions(timeout=60, isolate=False)


def test_options_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingOptions().engine = "nowhere"  # type: ignore[misc]
