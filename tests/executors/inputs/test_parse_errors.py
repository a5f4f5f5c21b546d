"""A run's errors name its own bad files, and none of another run."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.parse_errors import locate_bad_records, tracking_parsers

from ...world.records import write_examples

SCHEMA = text_format.Parse(
    'feature { name: "x" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 1 } } }', schema_pb2.Schema()
)


def written(path: pathlib.Path, *values: float | None) -> str:
    return write_examples(path, ({"x": np.array([] if value is None else [value])} for value in values))


def read(path: str) -> list[float]:
    options = TensorFlowDatasetOptions(1, num_epochs=1, shuffle=False)
    data = DataAccessor.for_format(ExamplesFormat()).tf_dataset_factory([path], options, SCHEMA)
    return [float(batch["x"].numpy()[0, 0]) for batch in data]


def refused(path: str) -> tf.errors.InvalidArgumentError:
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        read(path)
    return error.value


def test_the_error_of_a_run_does_not_name_files_of_another_run(tmp_path: pathlib.Path) -> None:
    first, second = written(tmp_path / "first", 1.0, None), written(tmp_path / "second", 1.0, 2.0, None)
    with tracking_parsers():
        refused(first)
    with tracking_parsers():
        (found,) = locate_bad_records(refused(second))
    assert found.startswith(f"{second}: the record at byte ")
    assert "record 3, cannot be parsed" in found


def test_outside_of_a_run_nothing_is_tracked(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "a", None)
    assert list(locate_bad_records(refused(path))) == []


def test_a_file_that_was_damaged_since_is_reported_as_well(tmp_path: pathlib.Path) -> None:
    """The search for the bad file must not raise and hide the module's exception."""
    good, bad = written(tmp_path / "good", 1.0), written(tmp_path / "bad", None)
    with tracking_parsers():
        assert read(good) == [1.0]
        error = refused(bad)
        pathlib.Path(good).write_bytes(b"x" * 100)
        found = list(locate_bad_records(error))
    assert [line.partition(" ")[0].rstrip(":") for line in found] == [good, bad]


def test_a_misspelled_feature_is_named_with_the_one_in_the_record(tmp_path: pathlib.Path) -> None:
    path = write_examples(tmp_path / "a", [{"X": 1.0}])
    with tracking_parsers():
        (found,) = locate_bad_records(refused(path))
    assert "record 1, cannot be parsed: " in found
    assert "Did you mean 'X'?" in found
