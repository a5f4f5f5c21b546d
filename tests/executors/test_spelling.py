"""Suggestions of known names: which ones are plausible, and which are other names."""

from __future__ import annotations

import pytest

from generic_trainer.executors.errors import did_you_mean
from generic_trainer.executors.inputs.message_text import closest_names
from generic_trainer.executors.spelling import is_misspelling, nearest


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("batchsize", "batch_size"),
        ("Batch-Size", "batch_size"),
        ("save_step", "save_steps"),
        ("keep_checkpoints_max", "keep_checkpoint_max"),
        ("lable", "label"),
        ("rnu_fn", "run_fn"),
        ("run_fm", "run_fn"),
        ("trips_miles", "trip_miles"),
        ("classifer_class", "classifier_class"),
        ("trian.csv", "train.csv"),
    ],
)
def test_a_slip_is_a_misspelling(name: str, other: str) -> None:
    assert nearest(name, ["something_else", other]) == other
    assert is_misspelling(name, other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("batchsize", "minibatch_size"),
        ("model", "model_dir"),
        ("preprocess_fn", "preprocessing_fn"),
        ("loss", "val_loss"),
    ],
)
def test_a_shortened_name_is_suggested_but_may_be_another_name(name: str, other: str) -> None:
    assert nearest(name, [other]) == other
    assert not is_misspelling(name, other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("trip_miles", "trip_seconds"),
        ("dropoff_longitude", "dropoff_latitude"),
        ("dropoff_latitude", "pickup_latitude"),
        ("petal_width", "sepal_width"),
        ("classifier_type", "classifier_class"),
        ("max_steps", "save_steps"),
        ("train_files", "eval_files"),
        ("FORMAT_PARQUET", "FORMAT_PROTO"),
        ("--lable", "--dialect"),
        ("x", "y"),
        ("lr", "ls"),
        ("sex", "six"),
    ],
)
def test_another_name_is_not_suggested(name: str, other: str) -> None:
    assert nearest(name, [other]) is None
    assert did_you_mean(name, [other]) == ""


def test_the_nearest_of_several_names_is_suggested() -> None:
    assert nearest("eval_step", ["eval_set", "eval_steps", "save_steps"]) == "eval_steps"
    assert nearest("fare", ["fare", "fares"]) == "fares"  # not the name itself
    assert nearest("fare", []) is None


def test_lists_of_names_begin_with_the_nearest_one() -> None:
    names = [f"feature_{index}" for index in range(9)]
    assert closest_names([*names, "labels"], near="lable").startswith("labels, feature_0, ")
    assert closest_names(names, near="label").startswith("feature_0, feature_1, ")


def test_extremely_long_names_and_lists_are_not_compared() -> None:
    assert nearest("a" * 100_000, ["a" * 99_999 + "b"] * 1000) is None
    assert nearest("names", ["other"] * 1_000_000 + ["name"]) is None
