"""Every payload format reads as TFX's own factories read it, and Parquet as the same rows in tf.Examples do."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import standard_artifacts
from tfx_bsl.coders import tf_graph_record_decoder
from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

from generic_trainer.executors.examples_format import PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE, ExamplesFormat
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.parquet.format import PARQUET

from ...world import records
from ...world.models import save_function
from ...world.records import feature

# One dense scalar, one dense vector, two of varying length; a row leaves `tags` out, another `scores`.
SCHEMA = """
    feature { name: "id" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
    feature { name: "point" type: FLOAT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 2 } } }
    feature { name: "tags" type: BYTES }
    feature { name: "scores" type: FLOAT }
"""
ROWS: list[dict[str, list]] = [
    {"id": [0], "point": [0.0, 0.5], "tags": [b"a"], "scores": [1.0]},
    {"id": [1], "point": [1.0, 1.5], "tags": [], "scores": [2.0, 2.5, 2.75]},
    {"id": [2], "point": [2.0, 2.5], "tags": [b"b", b"c"], "scores": []},
    {"id": [3], "point": [3.0, 3.5], "tags": [b"d"], "scores": [4.0]},
    {"id": [4], "point": [4.0, 4.5], "tags": [b"e"], "scores": [5.0]},
]
# The same as columns would be in a file that came from a data base: scalars are no lists there.
SCALAR_SCHEMA = """
    feature { name: "id" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
    feature { name: "fare" type: FLOAT }
    feature { name: "company" type: BYTES }
"""


def schema_of(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def dataset_options(batch_size: int = 2, **others: Any) -> TensorFlowDatasetOptions:
    return TensorFlowDatasetOptions(batch_size=batch_size, **{"num_epochs": 1, "shuffle": False, **others})


def batch_options(batch_size: int = 2, **others: Any) -> RecordBatchesOptions:
    return RecordBatchesOptions(batch_size=batch_size, **{"num_epochs": 1, "shuffle": False, **others})


def write_records(path: pathlib.Path, values: Iterable[bytes]) -> str:
    """Writes a gzipped TFRecord file and returns the pattern that finds it."""
    records.write_records(path, values, "GZIP")
    return f"{path.parent}/*"


def write_examples(folder: pathlib.Path, rows: list[dict[str, list]]) -> str:
    return write_records(folder / "part-0.gz", map(records.example, rows))


def write_parquet(path: pathlib.Path, columns: dict[str, Any], **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return f"{path.parent}/*"


def columns_of(rows: list[dict[str, list]]) -> dict[str, list]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def plain(value: Any) -> Any:
    """Returns a tensor of any kind, or a dict or tuple of them, as something that compares by ==."""
    if isinstance(value, dict):
        return {name: plain(tensor) for name, tensor in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(tensor) for tensor in value)
    if isinstance(value, tf.SparseTensor):
        parts = (value.indices, value.values, value.dense_shape)
        return ("sparse", value.dtype.name, *(part.numpy().tolist() for part in parts))
    if isinstance(value, tf.RaggedTensor):
        return ("ragged", value.dtype.name, value.to_list())
    return ("dense", value.dtype.name, value.numpy().tolist())


def batches_of(dataset: tf.data.Dataset) -> list[Any]:
    return [plain(batch) for batch in dataset]


def ids(dataset: tf.data.Dataset) -> list[list[int]]:
    return [batch["id"].numpy().ravel().tolist() for batch in dataset]


def flat(lists: Iterable[list]) -> list:
    return [*itertools.chain.from_iterable(lists)]


def tfx_accessor(payload: str, data_view: str = "") -> Any:
    """Returns the DataAccessor that TFX builds for an Examples artifact with such a payload."""
    from tfx.components.experimental.data_view import constants
    from tfx.components.trainer import fn_args_utils
    from tfx.components.util import tfxio_utils

    artifact = standard_artifacts.Examples()
    artifact.set_string_custom_property("payload_format", payload)
    if data_view:
        artifact.set_string_custom_property(constants.DATA_VIEW_URI_PROPERTY_KEY, data_view)
        artifact.set_string_custom_property(constants.DATA_VIEW_CREATE_TIME_KEY, "1")
    return fn_args_utils.DataAccessor(
        tfxio_utils.get_tf_dataset_factory_from_artifact([artifact], ["Test"]),
        tfxio_utils.get_record_batch_factory_from_artifact([artifact], ["Test"]),
        tfxio_utils.get_data_view_decode_fn_from_artifact([artifact], ["Test"]),
    )


def accessor(payload: str, data_view: str | None = None) -> DataAccessor:
    return DataAccessor.for_format(ExamplesFormat(payload, data_view))


class TestTfExamples:
    """Records of tf.Example."""

    @pytest.fixture
    def pattern(self, tmp_path: pathlib.Path) -> str:
        return write_examples(tmp_path / "examples", ROWS)

    @pytest.mark.parametrize("label_key", [None, "id", "scores"])
    def test_batches_are_those_of_tfx(self, pattern: str, label_key: str | None) -> None:
        arguments = [pattern], dataset_options(label_key=label_key), schema_of(SCHEMA)

        batches = batches_of(accessor(TF_EXAMPLE).tf_dataset_factory(*arguments))

        assert len(batches) == 3
        assert batches == batches_of(tfx_accessor(TF_EXAMPLE).tf_dataset_factory(*arguments))

    def test_dense_and_sparse_features_hold_the_rows(self, pattern: str) -> None:
        dataset = accessor(TF_EXAMPLE).tf_dataset_factory([pattern], dataset_options(3), schema_of(SCHEMA))

        first = batches_of(dataset)[0]

        assert first["point"] == ("dense", "float32", [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]])
        assert first["tags"] == ("sparse", "string", [[0, 0], [2, 0], [2, 1]], [b"a", b"b", b"c"], [3, 2])

    def test_several_patterns_are_read(self, tmp_path: pathlib.Path) -> None:
        patterns = [write_examples(tmp_path / name, rows) for name, rows in (("a", ROWS[:2]), ("b", ROWS[2:]))]

        dataset = accessor(TF_EXAMPLE).tf_dataset_factory(patterns, dataset_options(), schema_of(SCHEMA))

        assert sorted(flat(ids(dataset))) == [0, 1, 2, 3, 4]

    def test_record_batches_are_those_of_tfx(self, pattern: str) -> None:
        arguments = [pattern], batch_options(), schema_of(SCHEMA)

        ours = list(accessor(TF_EXAMPLE).record_batch_factory(*arguments))

        assert sum(batch.num_rows for batch in ours) == 5
        assert ours == list(tfx_accessor(TF_EXAMPLE).record_batch_factory(*arguments))

    def test_record_batches_need_no_schema(self, pattern: str) -> None:
        ours = list(accessor(TF_EXAMPLE).record_batch_factory([pattern], batch_options(5)))

        assert ours[0].column("id").to_pylist() == [[0], [1], [2], [3], [4]]

    def test_there_is_no_data_view(self) -> None:
        assert accessor(TF_EXAMPLE).data_view_decode_fn is None


class TestSequenceExamples:
    """Records of tf.SequenceExample: context features, and steps of which each holds a list of values."""

    SCHEMA = """
        feature { name: "id" type: INT }
        feature {
          name: "##SEQUENCE##" type: STRUCT
          struct_domain { feature { name: "words" type: BYTES } feature { name: "times" type: FLOAT } }
        }
        tensor_representation_group {
          key: ""
          value {
            tensor_representation { key: "id" value { varlen_sparse_tensor { column_name: "id" } } }
            tensor_representation {
              key: "words" value { ragged_tensor { feature_path { step: "##SEQUENCE##" step: "words" } } }
            }
            tensor_representation {
              key: "times" value { ragged_tensor { feature_path { step: "##SEQUENCE##" step: "times" } } }
            }
          }
        }
    """

    @pytest.fixture
    def pattern(self, tmp_path: pathlib.Path) -> str:
        def record(row: int) -> bytes:
            lists = {
                "words": tf.train.FeatureList(feature=[feature([b"w", b"x"][: 1 + i % 2]) for i in range(row + 1)]),
                "times": tf.train.FeatureList(feature=[feature(0.5 * i) for i in range(row + 1)]),
            }
            return tf.train.SequenceExample(
                context=tf.train.Features(feature={"id": feature(row)}),
                feature_lists=tf.train.FeatureLists(feature_list=lists),
            ).SerializeToString()

        return write_records(tmp_path / "sequences" / "part-0.gz", [record(row) for row in range(5)])

    @pytest.mark.parametrize("label_key", [None, "id"])
    def test_batches_are_those_of_tfx(self, pattern: str, label_key: str | None) -> None:
        arguments = [pattern], dataset_options(label_key=label_key), schema_of(self.SCHEMA)

        batches = batches_of(accessor(SEQUENCE_EXAMPLE).tf_dataset_factory(*arguments))

        assert len(batches) == 3
        assert batches == batches_of(tfx_accessor(SEQUENCE_EXAMPLE).tf_dataset_factory(*arguments))

    def test_steps_become_ragged(self, pattern: str) -> None:
        dataset = accessor(SEQUENCE_EXAMPLE).tf_dataset_factory([pattern], dataset_options(), schema_of(self.SCHEMA))

        assert batches_of(dataset)[0]["times"] == ("ragged", "float32", [[[0.0]], [[0.0], [0.5]]])

    def test_record_batches_are_refused_as_by_tfx_but_in_words(self, pattern: str) -> None:
        arguments = [pattern], batch_options(), schema_of(self.SCHEMA)

        with pytest.raises(NotImplementedError):
            tfx_accessor(SEQUENCE_EXAMPLE).record_batch_factory(*arguments)
        with pytest.raises(NotImplementedError, match="tf_dataset_factory") as caught:
            accessor(SEQUENCE_EXAMPLE).record_batch_factory(*arguments)

        assert pattern in str(caught.value)


class TestProtos:
    """Records of any kind, with a data view that decodes them; here comma-separated numbers."""

    @pytest.fixture
    def pattern(self, tmp_path: pathlib.Path) -> str:
        return write_records(tmp_path / "protos" / "part-0.gz", [b"1", b"2,3", b"4", b"5,6,7", b"8"])

    @pytest.fixture(scope="class")
    def data_view(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        class Decoder(tf_graph_record_decoder.TFGraphRecordDecoder):
            def decode_record(self, records: Any) -> dict[str, Any]:
                numbers = tf.strings.to_number(tf.strings.split(records, ","), tf.int64)
                first = tf.gather(numbers.values, numbers.row_starts())
                rows = tf.range(tf.size(records, tf.int64))
                return {
                    "numbers": numbers,
                    "first": tf.SparseTensor(
                        tf.stack([rows, tf.zeros_like(rows)], 1), first, tf.stack([tf.size(records, tf.int64), 1])
                    ),
                }

        folder = str(tmp_path_factory.mktemp("data_view"))
        tf_graph_record_decoder.save_decoder(Decoder(), folder)
        return folder

    @pytest.mark.parametrize("label_key", [None, "first"])
    def test_batches_are_those_of_tfx(self, pattern: str, data_view: str, label_key: str | None) -> None:
        arguments = [pattern], dataset_options(label_key=label_key), None

        batches = batches_of(accessor(PROTO, data_view).tf_dataset_factory(*arguments))

        assert len(batches) == 3
        assert batches == batches_of(tfx_accessor(PROTO, data_view).tf_dataset_factory(*arguments))

    def test_record_batches_are_refused_as_by_tfx_but_in_words(self, pattern: str, data_view: str) -> None:
        with pytest.raises(NotImplementedError):
            tfx_accessor(PROTO, data_view).record_batch_factory([pattern], batch_options(), None)
        with pytest.raises(NotImplementedError, match=PROTO):
            accessor(PROTO, data_view).record_batch_factory([pattern], batch_options())

    def test_the_decode_function_decodes_as_that_of_tfx(self, data_view: str) -> None:
        records = np.array([b"1", b"2,3"])

        decoded = plain(accessor(PROTO, data_view).data_view_decode_fn(records))

        assert decoded["numbers"] == ("ragged", "int64", [[1], [2, 3]])
        assert decoded == plain(tfx_accessor(PROTO, data_view).data_view_decode_fn(records))

    def test_the_decode_function_works_inside_a_dataset(self, data_view: str) -> None:
        records = tf.data.Dataset.from_tensor_slices([b"1", b"2,3", b"4"]).batch(2)

        decoded = batches_of(records.map(accessor(PROTO, data_view).data_view_decode_fn))

        assert [batch["numbers"][2] for batch in decoded] == [[[1], [2, 3]], [[4]]]

    def test_the_decode_function_works_inside_a_saved_model(self, data_view: str, tmp_path: pathlib.Path) -> None:
        decode = accessor(PROTO, data_view).data_view_decode_fn

        def numbers(records: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"y": decode(records)["numbers"].to_tensor()}

        model = save_function(numbers, tmp_path / "model", tf.TensorSpec([None], tf.string))

        loaded = tf.saved_model.load(model)

        answer = loaded.signatures["serving_default"](tf.constant([b"1", b"2,3"]))
        assert answer["y"].numpy().tolist() == [[1, 0], [2, 3]]

    def test_without_a_data_view_there_is_an_error(self, pattern: str) -> None:
        with pytest.raises(ValueError, match="need a DataView") as caught:
            accessor(PROTO).tf_dataset_factory([pattern], dataset_options(), None)

        assert pattern in str(caught.value)
        assert accessor(PROTO).data_view_decode_fn is None


class TestParquet:
    """Parquet files, which TFX's own accessor cannot read."""

    @pytest.fixture
    def pattern(self, tmp_path: pathlib.Path) -> str:
        return write_parquet(tmp_path / "parquet" / "part-0.parquet", columns_of(ROWS))

    @pytest.fixture
    def numbered(self, tmp_path: pathlib.Path) -> str:
        """Two files with the ids 0 to 59 and 60 to 99."""
        for name, values in (("a", range(60)), ("b", range(60, 100))):
            columns = {"id": list(values), "fare": [float(v) for v in values], "company": [f"c{v}" for v in values]}
            pattern = write_parquet(tmp_path / "numbered" / f"{name}.parquet", columns)
        return pattern

    @pytest.mark.parametrize("label_key", [None, "id", "scores"])
    def test_tensors_are_what_the_same_rows_give_as_tf_examples(
        self, pattern: str, tmp_path: pathlib.Path, label_key: str | None
    ) -> None:
        examples = write_examples(tmp_path / "examples", ROWS)
        options, schema = dataset_options(label_key=label_key), schema_of(SCHEMA)

        batches = batches_of(accessor(PARQUET).tf_dataset_factory([pattern], options, schema))

        assert len(batches) == 3
        assert batches == batches_of(accessor(TF_EXAMPLE).tf_dataset_factory([examples], options, schema))

    @pytest.mark.parametrize("label_key", [None, "fare"])
    def test_the_element_spec_is_that_of_tf_examples(
        self, pattern: str, tmp_path: pathlib.Path, label_key: str | None
    ) -> None:
        rows = [{"id": [0], "fare": [1.0], "company": [b"x"]}]
        examples = write_examples(tmp_path / "examples", rows)
        parquet = write_parquet(tmp_path / "one" / "x.parquet", columns_of(rows))
        options, schema = dataset_options(label_key=label_key), schema_of(SCALAR_SCHEMA)

        ours = accessor(PARQUET).tf_dataset_factory([parquet], options, schema).element_spec
        theirs = accessor(TF_EXAMPLE).tf_dataset_factory([examples], options, schema).element_spec

        tf.nest.assert_same_structure(ours, theirs)
        for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
            assert one.is_compatible_with(other)

    @pytest.mark.parametrize(
        ("representation", "kind"),
        [
            ('dense_tensor { column_name: "x" shape { dim { size: 1 } } default_value { int_value: -1 } }', "dense"),
            ('varlen_sparse_tensor { column_name: "x" }', "sparse"),
            ('ragged_tensor { feature_path { step: "x" } row_partition_dtype: INT64 }', "ragged"),
        ],
    )
    def test_the_representation_named_in_the_schema_is_used(
        self, tmp_path: pathlib.Path, representation: str, kind: str
    ) -> None:
        schema = schema_of(
            'feature { name: "x" type: INT } tensor_representation_group { key: "" value { '
            f'tensor_representation {{ key: "x" value {{ {representation} }} }} }} }}'
        )
        examples = write_examples(tmp_path / "examples", [{"x": [7]}, {"x": []}, {"x": [9]}])
        parquet = write_parquet(tmp_path / "parquet" / "x.parquet", {"x": [7, None, 9]})

        batches = batches_of(accessor(PARQUET).tf_dataset_factory([parquet], dataset_options(3), schema))

        assert [batch["x"][0] for batch in batches] == [kind]
        assert batches == batches_of(accessor(TF_EXAMPLE).tf_dataset_factory([examples], dataset_options(3), schema))

    def test_plain_columns_become_lists_of_one_and_nulls_lists_of_none(self, tmp_path: pathlib.Path) -> None:
        rows = [
            {"id": [1], "fare": [2.5], "company": [b"x"]},
            {"id": [2], "fare": [], "company": [b"y"]},
            {"id": [3], "fare": [7.5], "company": []},
        ]
        examples = write_examples(tmp_path / "examples", rows)
        columns = {"id": [1, 2, 3], "fare": [2.5, None, 7.5], "company": ["x", "y", None]}
        parquet = write_parquet(tmp_path / "parquet" / "x.parquet", columns)
        options, schema = dataset_options(3), schema_of(SCALAR_SCHEMA)

        batches = batches_of(accessor(PARQUET).tf_dataset_factory([parquet], options, schema))

        assert batches[0]["fare"] == ("sparse", "float32", [[0, 0], [2, 0]], [2.5, 7.5], [3, 1])
        assert batches == batches_of(accessor(TF_EXAMPLE).tf_dataset_factory([examples], options, schema))

    def test_narrow_and_dictionary_types_are_widened(self, tmp_path: pathlib.Path) -> None:
        parquet = write_parquet(
            tmp_path / "x.parquet",
            {
                "id": pa.array([1, 2], pa.int16()),
                "fare": pa.array([2.5, 3.5], pa.float64()),
                "company": pa.array(["x", "y"]).dictionary_encode(),
            },
        )

        dataset = accessor(PARQUET).tf_dataset_factory([parquet], dataset_options(), schema_of(SCALAR_SCHEMA))

        batch = batches_of(dataset)[0]
        assert batch["id"] == ("dense", "int64", [[1], [2]])
        assert batch["fare"][3] == [2.5, 3.5]
        assert batch["company"][3] == [b"x", b"y"]

    def test_dictionary_types_are_decoded_without_a_schema(self, tmp_path: pathlib.Path) -> None:
        parquet = write_parquet(tmp_path / "x.parquet", {"company": pa.array(["x", "y", "x"]).dictionary_encode()})

        (batch,) = accessor(PARQUET).record_batch_factory([parquet], batch_options(3))

        assert batch.column("company").type == pa.large_list(pa.string())
        assert batch.column("company").to_pylist() == [["x"], ["y"], ["x"]]

    def test_vectors_of_a_fixed_size_are_lists(self, tmp_path: pathlib.Path) -> None:
        vectors = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2))
        parquet = write_parquet(tmp_path / "x.parquet", {"v": vectors})

        schema = schema_of('feature { name: "v" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 2 } } }')

        dataset = accessor(PARQUET).tf_dataset_factory([parquet], dataset_options(3), schema)

        assert batches_of(dataset) == [{"v": ("dense", "float32", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])}]

    def test_other_file_systems_are_read(self, pattern: str) -> None:
        for path in tf.io.gfile.glob(pattern):
            tf.io.gfile.makedirs("ram://parquet")
            tf.io.gfile.copy(path, "ram://parquet/x.parquet", overwrite=True)

        dataset = accessor(PARQUET).tf_dataset_factory(["ram://parquet/*"], dataset_options(), schema_of(SCHEMA))

        assert ids(dataset) == [[0, 1], [2, 3], [4]]

    def test_a_column_without_any_value_in_one_file_is_read_with_the_others(self, tmp_path: pathlib.Path) -> None:
        write_parquet(tmp_path / "a.parquet", {"id": [1], "fare": [None], "company": [None]})
        parquet = write_parquet(tmp_path / "b.parquet", {"id": [2], "fare": [2.5], "company": ["y"]})

        batches = list(accessor(PARQUET).record_batch_factory([parquet], batch_options(2), schema_of(SCALAR_SCHEMA)))

        assert [batch.column("fare").to_pylist() for batch in batches] == [[None, [2.5]]]
        assert [batch.column("company").to_pylist() for batch in batches] == [[None, [b"y"]]]

    def test_record_batches_are_what_the_same_rows_give_as_tf_examples(self, tmp_path: pathlib.Path) -> None:
        rows = [{"id": [1], "fare": [2.5], "company": []}, {"id": [2], "fare": [], "company": [b"x"]}]
        columns = {"id": [1, 2], "fare": [2.5, None], "company": [None, "x"]}
        patterns = {
            PARQUET: write_parquet(tmp_path / "parquet" / "x.parquet", columns),
            TF_EXAMPLE: write_examples(tmp_path / "examples", rows),
        }

        ours, theirs = (
            list(accessor(payload).record_batch_factory([pattern], batch_options(), schema_of(SCALAR_SCHEMA)))
            for payload, pattern in patterns.items()
        )

        assert ours[0].column("fare").to_pylist() == [[2.5], None]
        assert ours == theirs

    def test_record_batches_hold_the_rows(self, pattern: str) -> None:
        batches = list(accessor(PARQUET).record_batch_factory([pattern], batch_options(), schema_of(SCHEMA)))

        assert [batch.num_rows for batch in batches] == [2, 2, 1]
        rows = {name: flat(batch.column(name).to_pylist() for batch in batches) for name in ROWS[0]}
        assert rows == columns_of(ROWS)

    def test_record_batches_need_no_schema(self, numbered: str) -> None:
        batches = list(accessor(PARQUET).record_batch_factory([numbered], batch_options(100)))

        assert batches[0].column("company").to_pylist() == [[f"c{i}"] for i in range(100)]

    def test_batches_run_across_files(self, numbered: str) -> None:
        dataset = accessor(PARQUET).tf_dataset_factory([numbered], dataset_options(40), schema_of(SCALAR_SCHEMA))

        assert ids(dataset) == [[*range(40)], [*range(40, 80)], [*range(80, 100)]]

    def test_row_groups_of_any_size_are_read(self, tmp_path: pathlib.Path) -> None:
        columns = {"id": [*range(10_000)], "fare": [1.0] * 10_000, "company": ["c"] * 10_000}
        pattern = write_parquet(tmp_path / "x.parquet", columns, row_group_size=3000)

        dataset = accessor(PARQUET).tf_dataset_factory([pattern], dataset_options(7000), schema_of(SCALAR_SCHEMA))

        assert ids(dataset) == [[*range(7000)], [*range(7000, 10_000)]]

    def test_shuffling_yields_every_row_once_in_another_order(self, numbered: str) -> None:
        order = flat(self._shuffled(numbered, shuffle_seed=1))

        assert order != [*range(100)]
        assert sorted(order) == [*range(100)]

    def test_a_small_shuffle_buffer_yields_every_row_once(self, numbered: str) -> None:
        order = flat(self._shuffled(numbered, shuffle_seed=1, shuffle_buffer_size=7))

        assert sorted(order) == [*range(100)]

    def test_a_seed_reproduces_the_order(self, numbered: str) -> None:
        assert self._shuffled(numbered, shuffle_seed=1) == self._shuffled(numbered, shuffle_seed=1)
        assert self._shuffled(numbered, shuffle_seed=1) != self._shuffled(numbered, shuffle_seed=2)

    def test_each_epoch_is_reshuffled(self, numbered: str) -> None:
        first, second = self._shuffled(numbered, shuffle_seed=1, num_epochs=2, batch_size=100)

        assert first != second
        assert sorted(first) == sorted(second)

    def _shuffled(self, pattern: str, batch_size: int = 20, **others: Any) -> list[list[int]]:
        options = dataset_options(batch_size, shuffle=True, **others)
        return ids(accessor(PARQUET).tf_dataset_factory([pattern], options, schema_of(SCALAR_SCHEMA)))

    @pytest.mark.parametrize(
        ("others", "expected"),
        [
            ({"num_epochs": 1}, [2, 2, 1]),
            ({"num_epochs": 2}, [2, 2, 2, 2, 2]),
            ({"num_epochs": 1, "drop_final_batch": True}, [2, 2]),
            ({"num_epochs": 3, "drop_final_batch": True}, [2, 2, 2, 2, 2, 2, 2]),
        ],
    )
    def test_epochs_and_the_final_batch_are_those_of_tf_examples(
        self, pattern: str, tmp_path: pathlib.Path, others: dict[str, Any], expected: list[int]
    ) -> None:
        examples = write_examples(tmp_path / "examples", ROWS)

        ours, theirs = (
            ids(accessor(payload).tf_dataset_factory([files], dataset_options(**others), schema_of(SCHEMA)))
            for payload, files in ((PARQUET, pattern), (TF_EXAMPLE, examples))
        )

        assert [len(batch) for batch in ours] == expected
        assert ours == theirs

    def test_without_num_epochs_the_data_is_repeated(self, pattern: str) -> None:
        options = dataset_options(num_epochs=None)

        dataset = accessor(PARQUET).tf_dataset_factory([pattern], options, schema_of(SCHEMA)).take(6)

        assert ids(dataset) == [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4], [0, 1]]

    def test_a_dataset_may_be_read_again(self, pattern: str) -> None:
        dataset = accessor(PARQUET).tf_dataset_factory([pattern], dataset_options(), schema_of(SCHEMA))

        assert ids(dataset) == ids(dataset)

    def test_keras_trains_on_it(self, numbered: str) -> None:
        import keras

        schema = schema_of(
            "".join(
                f'feature {{ name: "{name}" type: {kind} '
                "presence { min_fraction: 1 } shape { dim { size: 1 } } }"
                for name, kind in (("id", "INT"), ("fare", "FLOAT"))
            )
        )
        options = dataset_options(10, num_epochs=None, label_key="fare")
        dataset = accessor(PARQUET).tf_dataset_factory([numbered], options, schema)
        given = keras.Input([1], name="id")
        model = keras.Model({"id": given}, keras.layers.Dense(1)(given))
        model.compile("sgd", "mse")

        history = model.fit(dataset, steps_per_epoch=3, shuffle=False, verbose=0)

        assert len(history.history["loss"]) == 1

    def test_without_a_schema_the_error_names_its_purpose(self, pattern: str) -> None:
        with pytest.raises(ValueError, match="requires a schema") as caught:
            accessor(PARQUET).tf_dataset_factory([pattern], dataset_options())

        assert pattern in str(caught.value)

    def test_a_pattern_without_files_is_named(self, tmp_path: pathlib.Path) -> None:
        patterns = [f"{tmp_path}/nowhere/*"]

        with pytest.raises(ValueError, match=r"no Parquet file matches .*nowhere"):
            next(accessor(PARQUET).record_batch_factory(patterns, batch_options(), schema_of(SCHEMA)))
        with pytest.raises(ValueError, match=r"no Parquet file matches .*nowhere"):
            accessor(PARQUET).tf_dataset_factory(patterns, dataset_options(), schema_of(SCHEMA))

    @pytest.mark.parametrize("payload", [PARQUET, TF_EXAMPLE])
    def test_one_pattern_need_not_be_in_a_list(self, pattern: str, tmp_path: pathlib.Path, payload: str) -> None:
        files = pattern if payload == PARQUET else write_examples(tmp_path / "examples", ROWS)

        dataset = accessor(payload).tf_dataset_factory(files, dataset_options(), schema_of(SCHEMA))

        assert ids(dataset) == [[0, 1], [2, 3], [4]]

    def test_a_label_that_the_schema_lacks_is_named_with_what_there_is(self, pattern: str) -> None:
        with pytest.raises(ValueError, match=r"label_key 'fare' .* id, point"):
            accessor(PARQUET).tf_dataset_factory([pattern], dataset_options(label_key="fare"), schema_of(SCHEMA))

    def test_a_column_that_the_file_lacks_is_named_with_the_file(self, pattern: str) -> None:
        batches = accessor(PARQUET).record_batch_factory([pattern], batch_options(), schema_of(SCALAR_SCHEMA))

        with pytest.raises(ValueError, match=r"part-0\.parquet has no column 'fare', 'company'; it has id, point"):
            next(batches)
