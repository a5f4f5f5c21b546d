"""Parquet in blocks of batches: the same tensors, rows and errors as batch by batch."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.bad_records import skipping
from generic_trainer.executors.inputs.parquet.format import Parquet
from generic_trainer.executors.inputs.tables import datasets
from generic_trainer.executors.inputs.tables.tensors import arrow_schema

REQUIRED = "presence { min_fraction: 1 min_count: 1 } shape { dim { size: %d } }"
SCHEMA = f"""
    feature {{ name: "id" type: INT {REQUIRED % 1} }}
    feature {{ name: "point" type: FLOAT {REQUIRED % 2} }}
    feature {{ name: "fare" type: FLOAT }}
    feature {{ name: "company" type: BYTES }}
    feature {{ name: "tags" type: BYTES }}
    feature {{ name: "scores" type: FLOAT }}
    feature {{ name: "filled" type: INT }}
    tensor_representation_group {{ key: "" value {{
      tensor_representation {{ key: "scores" value {{
        ragged_tensor {{ feature_path {{ step: "scores" }} row_partition_dtype: INT32 }} }} }}
      tensor_representation {{ key: "filled" value {{
        dense_tensor {{ column_name: "filled" shape {{ dim {{ size: 1 }} }} default_value {{ int_value: -1 }} }} }} }}
    }} }}
"""


def schema_of(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def options(batch_size: int, **others: Any) -> TensorFlowDatasetOptions:
    return TensorFlowDatasetOptions(batch_size, **{"num_epochs": 1, "shuffle": False, **others})


def write(path: pathlib.Path, first: int, count: int, vectors: Any) -> None:
    """Writes rows with their numbers from `first` on: flat columns with gaps, lists of no to three values, vectors."""
    ids = range(first, first + count)
    columns = {
        "id": pa.array(ids),
        "point": pa.array([[i, i + 0.5] for i in ids], vectors),
        "fare": pa.array([None if i % 7 == 0 else float(i) for i in ids]),
        "company": pa.array([None if i < 40 else f"c{i}" for i in ids]),  # a whole batch without any
        "tags": pa.array([None if i % 11 == 0 else ["t"] * (i % 4) for i in ids], pa.list_(pa.string())),
        "scores": pa.array([[float(i)] * (i % 3) for i in ids], pa.list_(pa.float32())),
        "filled": pa.array([None if i % 3 == 0 else i for i in ids]),
    }
    pq.write_table(pa.table(columns), path, row_group_size=1000)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file that is read in several steps, and one with lists where the first one has vectors."""
    folder = tmp_path_factory.mktemp("parquet")
    write(folder / "a.parquet", 0, 5000, pa.list_(pa.float64(), 2))
    write(folder / "b.parquet", 5000, 333, pa.list_(pa.float32()))
    return f"{folder}/*"


def same(one: Any, other: Any) -> bool:
    tf.nest.assert_same_structure(one, other, expand_composites=True)
    parts = (tf.nest.flatten(tensors, expand_composites=True) for tensors in (one, other))
    return all(
        a.dtype == b.dtype and a.shape == b.shape and bool((a.numpy() == b.numpy()).all())
        for a, b in zip(*parts, strict=True)
    )


@pytest.mark.legacy
@pytest.mark.parametrize(
    "others",
    [
        {"batch_size": 32},
        {"batch_size": 5333},
        {"batch_size": 4000, "drop_final_batch": True},
        {"batch_size": 32, "num_epochs": 2, "shuffle": True, "shuffle_seed": 3},
    ],
)
def test_batches_are_what_tfxs_adapter_makes_of_each_alone(pattern: str, others: dict[str, Any]) -> None:
    schema = schema_of(SCHEMA)
    representations = tensor_representation_util.InferTensorRepresentationsFromMixedSchema(schema)
    adapter = tensor_adapter.TensorAdapter(tensor_adapter.TensorAdapterConfig(arrow_schema(schema), representations))

    dataset = datasets.tf_dataset(Parquet(), [pattern], options(**others), schema)

    assert dataset.element_spec == adapter.TypeSpecs()
    batches = list(dataset)
    expected = [
        adapter.ToBatchTensors(batch)
        for batch in datasets.record_batches(Parquet(), [pattern], options(**others), schema)
    ]
    assert len(batches) == len(expected) > 0
    assert all(map(same, batches, expected))
    rows = sum(len(batch["id"]) for batch in batches)
    assert rows == 4000 if others.get("drop_final_batch") else rows == 5333 * others.get("num_epochs", 1)
    if not others.get("shuffle"):
        assert batches[0]["id"].numpy().ravel().tolist() == list(range(others["batch_size"]))
        assert batches[0]["company"].dense_shape.numpy().tolist() == (
            [32, 0] if others["batch_size"] == 32 else [others["batch_size"], 1]
        )


def test_the_order_of_a_seed_is_that_of_its_permutations(pattern: str) -> None:
    """The files' order, then a buffer's as soon as it holds enough; it is filled by 4096 rows of a file at a time."""
    settings = options(1000, num_epochs=2, shuffle=True, shuffle_seed=5, shuffle_buffer_size=4200)
    random = np.random.default_rng(5)
    expected: list[int] = []
    for _ in range(2):
        # Either the first file comes first: its 4096 and 904 rows are enough; or the second one: its 333 with 4096.
        first = [range(0, 5000), range(5000, 5333)]
        second = [[*range(5000, 5333), *range(0, 4096)], range(4096, 5000)]
        for buffer in first if random.permutation(2)[0] == 0 else second:
            expected += np.asarray(buffer)[random.permutation(len(buffer))].tolist()

    dataset = datasets.tf_dataset(
        Parquet(), [pattern], settings, schema_of('feature { name: "id" type: INT ' + REQUIRED % 1 + "}")
    )

    assert [row for batch in dataset for row in batch["id"].numpy().ravel().tolist()] == expected


def test_a_row_without_a_required_value_is_named(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"id": [0, 1, 2, 3, None, 5, 6, 7]}), tmp_path / "x.parquet")
    dataset = datasets.tf_dataset(
        Parquet(), [f"{tmp_path}/*"], options(2), schema_of('feature { name: "id" type: INT ' + REQUIRED % 1 + "}")
    )

    with pytest.raises(
        tf.errors.OpError, match=r"x\.parquet, row 5: column 'id' has no value, but the schema requires 1 in each row"
    ):
        next(iter(dataset))


def test_a_column_of_another_type_is_named_with_its_file(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"id": [0.5]}), tmp_path / "x.parquet")
    batches = datasets.record_batches(
        Parquet(), [f"{tmp_path}/*"], options(1), schema_of('feature { name: "id" type: INT }')
    )

    with pytest.raises(
        ValueError, match=r"x\.parquet, row 1: column 'id' is double, which cannot be converted to the schema's int64"
    ):
        next(batches)
    with pytest.raises(
        ValueError, match="feature 'id' has the type STRUCT; the supported types are INT, FLOAT and BYTES"
    ):
        datasets.tf_dataset(Parquet(), [f"{tmp_path}/*"], options(1), schema_of('feature { name: "id" type: STRUCT }'))


def test_a_type_without_a_cast_is_an_error_of_the_file_also_when_rows_are_skipped(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"id": [{"a": 1}, {"a": 2}]}), tmp_path / "x.parquet")
    schema = schema_of('feature { name: "id" type: INT }')
    expected = rf"^{tmp_path}/x\.parquet: column 'id' is struct<a: int64>, which cannot be .* int64: (?!.*bad-records)"

    for limit in (None, 5):
        with skipping(limit) as bad, pytest.raises(InputError, match=expected):
            next(datasets.record_batches(Parquet(), [f"{tmp_path}/*"], options(1), schema))
        assert bad is None or bad.count == 0


def test_beam_is_not_imported() -> None:
    program = "import sys, generic_trainer.executors.inputs.tables.datasets; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=300).returncode == 0
