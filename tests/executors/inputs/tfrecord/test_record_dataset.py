"""TFRecords are read record for record as by tfx_bsl's readers, also in graphs and on several workers."""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.data.experimental.ops import distribute
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio import dataset_util, tf_example_record
from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

from generic_trainer.executors.errors import InputError
from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.tfrecord.record_dataset import find_files, record_batches

from ....world.records import write_examples

ACCESSOR = DataAccessor.for_format(ExamplesFormat())
SIZES = (30, 0, 1, 7, 50, 12)  # records per file: one ends before its neighbour, one is empty
SCALAR = "presence { min_fraction: 1 } shape { dim { size: 1 } }"


def schema_of(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def write(folder: pathlib.Path, sizes: tuple[int, ...], ending: str = ".gz") -> str:
    """Writes files of tf.Examples with consecutive `id`s; each has as many `tags` as the last digit of its id."""
    number = itertools.count()
    for index, size in enumerate(sizes):
        rows = ({"id": row, "tags": np.array([b"tag"] * (row % 10), "S3")} for row in itertools.islice(number, size))
        write_examples(folder / f"part-{index}{ending}", rows)
    return f"{folder}/*"


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("examples"), SIZES)


def ids(dataset: tf.data.Dataset) -> list[list[int]]:
    return [batch["id"].numpy().ravel().tolist() for batch in dataset]


def as_lists(dataset: tf.data.Dataset) -> list[list[bytes]]:
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


class TestOrder:
    """The order of the records."""

    @pytest.mark.legacy
    @pytest.mark.parametrize(("shuffle", "seed"), [(False, None), (True, 5), (True, None)])
    def test_it_equals_that_of_tfx_batch_by_batch(self, pattern: str, shuffle: bool, seed: int | None) -> None:
        for batch_size, drop, num_epochs, threads in (
            (7, False, 3, -1),
            (7, True, 1, 1),
            (1, False, 1, 2),
            (7, False, 2, None),
        ):
            arguments = batch_size, drop, num_epochs, shuffle, 20, seed, threads
            tf.random.set_seed(3)  # operations without a seed derive one from this
            tfx = as_lists(dataset_util.make_tf_record_dataset([pattern], *arguments))
            tf.random.set_seed(3)
            options = TensorFlowDatasetOptions(*arguments[:-1], reader_num_threads=threads)
            ours = as_lists(record_batches(find_files(pattern), options))

            assert ours == tfx

    def test_endless_order_equals_that_of_tfx(self, pattern: str) -> None:
        arguments = 64, False, None, True, 20, 5
        tfx = dataset_util.make_tf_record_dataset([pattern], *arguments)
        ours = record_batches(find_files(pattern), TensorFlowDatasetOptions(*arguments))

        assert as_lists(ours.take(7)) == as_lists(tfx.take(7))
        assert ours.element_spec == tfx.element_spec == tf.TensorSpec([64], tf.string)

    def test_it_differs_from_epoch_to_epoch_but_not_from_run_to_run(self, pattern: str) -> None:
        options = TensorFlowDatasetOptions(100, num_epochs=2, shuffle_seed=1)
        dataset = record_batches(find_files(pattern), options)

        first, second = as_lists(dataset)

        assert sorted(first) == sorted(second)
        assert first != second
        assert as_lists(record_batches(find_files(pattern), options))[0] == first

    @pytest.mark.legacy
    def test_without_a_seed_it_is_shuffled_as_well_as_by_tfx(self, tmp_path: pathlib.Path) -> None:
        pattern, rows, buffer = write(tmp_path / "many", (6000,) * 4), 24_000, 4096
        arguments = 512, False, 1, True, buffer

        def numbers(dataset: tf.data.Dataset) -> list[int]:
            feature = {"id": tf.io.FixedLenFeature([], tf.int64)}
            parsed = dataset.map(lambda batch: tf.io.parse_example(batch, feature)["id"])
            return [*itertools.chain.from_iterable(parsed.as_numpy_iterator())]

        def distance_of_neighbours(order: list[int]) -> float:
            places = sorted(range(rows), key=order.__getitem__)
            return sum(abs(after - before) for before, after in itertools.pairwise(places)) / rows

        tfx = numbers(dataset_util.make_tf_record_dataset([pattern], *arguments, None))
        ours = numbers(record_batches(find_files(pattern), TensorFlowDatasetOptions(*arguments)))

        assert sorted(ours) == list(range(rows))
        # That is the mean distance of two independent exponential delays of the buffer's size; it is less at the ends.
        assert distance_of_neighbours(ours) > 0.9 * distance_of_neighbours(tfx) > 0.5 * buffer
        assert sum(after == before + 1 for before, after in itertools.pairwise(ours)) < rows / 100

    def test_more_readers_than_cores_are_no_error(self, pattern: str) -> None:
        dataset = record_batches(
            find_files(pattern), TensorFlowDatasetOptions(100, num_epochs=1, reader_num_threads=1000)
        )

        assert len(as_lists(dataset)[0]) == sum(SIZES)

    def test_sloppy_ordering_loses_nothing(self, pattern: str) -> None:
        options = TensorFlowDatasetOptions(batch_size=7, num_epochs=1, shuffle=False, sloppy_ordering=True)
        dataset = ACCESSOR.tf_dataset_factory(
            [pattern], options, schema_of(f'feature {{ name: "id" type: INT {SCALAR} }}')
        )

        assert sorted(itertools.chain.from_iterable(ids(dataset))) == list(range(sum(SIZES)))
        assert not dataset.options().deterministic


class TestTensors:
    """The tensors that the schema specifies."""

    @pytest.mark.legacy
    @pytest.mark.parametrize(
        "schema",
        [
            pytest.param('feature { name: "id" type: INT } feature { name: "tags" type: BYTES }', id="sparse"),
            pytest.param(f'feature {{ name: "id" type: INT {SCALAR} }}', id="dense, and one column only"),
            pytest.param(
                """
                feature { name: "id" type: INT } feature { name: "tags" type: BYTES }
                tensor_representation_group {
                  key: ""
                  value {
                    tensor_representation { key: "number" value { varlen_sparse_tensor { column_name: "id" } } }
                    tensor_representation { key: "words" value { ragged_tensor { feature_path { step: "tags" } } } }
                  }
                }
                """,
                id="ragged, and names of their own",
            ),
        ],
    )
    @pytest.mark.parametrize("label", [False, True])
    def test_they_equal_those_of_tfx(self, pattern: str, schema: str, label: bool) -> None:
        label_key = ("number" if "number" in schema else "id") if label else None
        options = TensorFlowDatasetOptions(batch_size=32, num_epochs=2, shuffle_seed=2, label_key=label_key)
        tfx = tf_example_record.TFExampleRecord([pattern], schema=schema_of(schema)).TensorFlowDataset(options)
        ours = ACCESSOR.tf_dataset_factory([pattern], options, schema_of(schema))

        assert ours.element_spec == tfx.element_spec
        batches = [[tf.nest.flatten(batch, expand_composites=True) for batch in dataset] for dataset in (ours, tfx)]
        assert len(batches[0]) == 7
        for mine, theirs in zip(*batches, strict=True):
            assert all(bool(tf.reduce_all(a == b)) for a, b in zip(mine, theirs, strict=True))

    def test_an_invalid_schema_is_rejected_as_by_tfx(self, pattern: str) -> None:
        schema = schema_of(
            """
            feature { name: "id" type: INT }
            tensor_representation_group {
              key: ""
              value {
                tensor_representation { key: "one" value { varlen_sparse_tensor { column_name: "id" } } }
                tensor_representation {
                  key: "two" value { dense_tensor { column_name: "id" shape { dim { size: 1 } } } }
                }
              }
            }
            """
        )
        options = TensorFlowDatasetOptions(batch_size=1)
        with pytest.raises(ValueError, match="duplicate"):
            tf_example_record.TFExampleRecord([pattern], schema=schema).TensorFlowDataset(options)
        with pytest.raises(ValueError, match=r"'id' as two tensors, '.*' and '.*'"):
            ACCESSOR.tf_dataset_factory([pattern], options, schema)

    @pytest.mark.parametrize(
        ("label", "message"),
        [("id", "requires a schema"), ("fare", r"label_key 'fare' is not among the tensors; they are id")],
    )
    def test_missing_parts_are_reported(self, pattern: str, label: str, message: str) -> None:
        schema = None if label == "id" else schema_of('feature { name: "id" type: INT }')
        with pytest.raises(ValueError, match=message):
            ACCESSOR.tf_dataset_factory([pattern], TensorFlowDatasetOptions(1, label_key=label), schema)


class TestFiles:
    """File patterns, and invalid files."""

    def test_no_file_is_an_error_with_the_pattern(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(ValueError, match=r"no TFRecord file matches .*/nothing-"):
            find_files([f"{tmp_path}/nothing-*"])

    def test_names_of_both_kinds_are_an_error_with_an_example_of_each(self, tmp_path: pathlib.Path) -> None:
        write(tmp_path, (1,))
        write(tmp_path, (1, 1), ending="")

        with pytest.raises(ValueError, match=r"part-0\.gz does and .*part-0 does not"):
            find_files(f"{tmp_path}/*")

    def test_uncompressed_files_are_read(self, tmp_path: pathlib.Path) -> None:
        found = find_files([write(tmp_path, (3, 2), ending="")])

        assert found.compression == ""
        assert len(as_lists(record_batches(found, TensorFlowDatasetOptions(10, num_epochs=1)))[0]) == 5

    def test_record_batches_name_a_damaged_file(self, tmp_path: pathlib.Path) -> None:
        pattern = write(tmp_path, (3, 5, 4), ending="")
        damaged = tmp_path / "part-1"
        damaged.write_bytes(damaged.read_bytes()[:-1])

        with pytest.raises(InputError, match=r"part-1: .* record 5: it is truncated"):
            list(ACCESSOR.record_batch_factory([pattern], RecordBatchesOptions(2, num_epochs=1, shuffle=False)))


class TestRecordBatches:
    """Arrow record batches, which are decoded in threads."""

    def test_they_equal_those_of_tfx_in_order(self, pattern: str) -> None:
        schema = schema_of('feature { name: "id" type: INT } feature { name: "tags" type: BYTES }')
        options = RecordBatchesOptions(7, num_epochs=2, shuffle_buffer_size=20, shuffle_seed=4)

        ours = list(ACCESSOR.record_batch_factory([pattern], options, schema))

        assert len(ours) == 29  # 2 * 100 / 7, rounded up
        assert ours == list(tf_example_record.TFExampleRecord([pattern], schema=schema).RecordBatches(options))

    def test_threads_share_no_decoder(self, tmp_path: pathlib.Path) -> None:
        """If two threads share one tfx_bsl decoder, it crashes the process or returns wrong values."""
        pattern = write(tmp_path / "many", (5000, 5000))
        schema = schema_of('feature { name: "id" type: INT } feature { name: "tags" type: BYTES }')
        options = RecordBatchesOptions(25, num_epochs=5, shuffle=False)

        ours = list(ACCESSOR.record_batch_factory([pattern], options, schema))

        assert ours == list(tf_example_record.TFExampleRecord([pattern], schema=schema).RecordBatches(options))

    def test_iteration_may_stop_early(self, pattern: str) -> None:
        endless = ACCESSOR.record_batch_factory([pattern], RecordBatchesOptions(3, shuffle=False))

        assert [batch.num_rows for batch in itertools.islice(endless, 50)] == [3] * 50
        endless.close()


class TestWorkers:
    """Several workers, each with its shard of the records."""

    @pytest.mark.legacy
    @pytest.mark.parametrize(("policy", "seed"), [("AUTO", None), ("FILE", None), ("FILE", 6), ("DATA", 6)])
    def test_two_workers_read_everything_and_nothing_twice(self, pattern: str, policy: str, seed: int | None) -> None:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[policy]

        def part(worker: int) -> list[int]:
            dataset = ACCESSOR.tf_dataset_factory(
                [pattern],
                TensorFlowDatasetOptions(batch_size=4, num_epochs=1, shuffle_seed=seed),
                schema_of(f'feature {{ name: "id" type: INT {SCALAR} }}'),
            ).with_options(options)
            return list(itertools.chain.from_iterable(ids(distribute._AutoShardDataset(dataset, 2, worker))))

        first, second = part(0), part(1)

        assert 0 < len(first) < sum(SIZES)
        assert sorted(first + second) == list(range(sum(SIZES)))


PROGRAM = """
    import sys
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions
    from generic_trainer.executors.examples_format import ExamplesFormat
    from generic_trainer.executors.inputs.data_accessor import DataAccessor

    text = 'feature { name: "id" type: INT } feature { name: "tags" type: BYTES }'
    schema = text_format.Parse(text, schema_pb2.Schema())
    options = TensorFlowDatasetOptions(batch_size=16, num_epochs=1, shuffle_seed=4, label_key="id")
    make = lambda: DataAccessor.for_format(ExamplesFormat()).tf_dataset_factory([sys.argv[1]], options, schema)
"""


def run(program: str, *arguments: str) -> list[str]:
    """Runs `PROGRAM` followed by the given program in a subprocess; returns the lines that it printed."""
    text = textwrap.dedent(PROGRAM) + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


class TestOtherProcesses:
    """Cases that need a subprocess."""

    @pytest.mark.thorough
    @pytest.mark.legacy
    def test_tensorflow_1_graphs_get_the_batches_of_tfx_without_beam(self, pattern: str) -> None:
        lines = run(
            """
            import json
            tf.compat.v1.disable_v2_behavior()

            def first_batches(dataset):
                iterators = dataset.make_initializable_iterator(), dataset.make_one_shot_iterator()
                with tf.compat.v1.Session() as session:
                    session.run(iterators[0].initializer)
                    return [session.run(it.get_next())[1].values.tolist() for it in iterators]

            with tf.Graph().as_default():
                ours = first_batches(make())
            print("apache_beam" in sys.modules)
            from tfx_bsl.tfxio import tf_example_record
            with tf.Graph().as_default():
                tfx = tf_example_record.TFExampleRecord([sys.argv[1]], schema=schema).TensorFlowDataset(options)
                print(first_batches(tfx) == ours, len(ours[0]), ours[0] == ours[1])
            """,
            pattern,
        )

        assert lines == ["False", "True 16 True"]

    @pytest.mark.slow
    def test_two_replicas_share_each_batch(self, pattern: str) -> None:
        lines = run(
            """
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
            strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
            seen = []
            for _, label in strategy.experimental_distribute_dataset(make()):
                seen.append([part.values.numpy().tolist() for part in strategy.experimental_local_results(label)])
            print([len(part) for part in seen[0]], sorted(sum(sum(seen, []), [])) == list(range(100)))
            """,
            pattern,
        )

        assert lines == ["[8, 8] True"]
