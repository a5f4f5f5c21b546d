"""Parsed examples that are kept on disk are the parsed examples, whoever else writes, reads and removes them."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

from generic_trainer import FnArgs, TrainingOptions
from generic_trainer.executors.inputs import batch_cache
from generic_trainer.executors.inputs.data_accessor import CacheOptions, DataAccessor, ExamplesFormat
from generic_trainer.executors.training_run import train

from .test_record_dataset import SCALAR, SIZES, ids, schema_of, write

SCHEMA = f"""
    feature {{ name: "id" type: INT {SCALAR} }} feature {{ name: "tags" type: BYTES }}
    feature {{ name: "none" type: FLOAT }}
    tensor_representation_group {{
      key: ""
      value {{
        tensor_representation {{ key: "words" value {{ ragged_tensor {{ feature_path {{ step: "none" }} }} }} }}
      }}
    }}
"""


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("examples"), SIZES)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cache"


def dataset(pattern: str, folder: pathlib.Path | None, schema: str = SCHEMA, gb: float = 1, **others: Any) -> Any:
    cache = None if folder is None else CacheOptions(str(folder), gb)
    options = TensorFlowDatasetOptions(**{"batch_size": 7, "num_epochs": 1, "shuffle": False, **others})
    return DataAccessor.for_format(ExamplesFormat(), cache).tf_dataset_factory([pattern], options, schema_of(schema))


def parts(batches: Any) -> list[list[Any]]:
    """Returns everything that is in the batches' tensors, as lists."""
    flat = (tf.nest.flatten(batch, expand_composites=True) for batch in batches)
    return [[tensor.numpy().tolist() for tensor in tensors] for tensors in flat]


@pytest.mark.legacy
@pytest.mark.parametrize("num_epochs", [1, 3, None])
@pytest.mark.parametrize("label", [None, "id"])
def test_without_shuffling_the_batches_are_the_same_ones(
    pattern: str, folder: pathlib.Path, num_epochs: int | None, label: str | None
) -> None:
    read, kept = (dataset(pattern, where, num_epochs=num_epochs, label_key=label) for where in (None, folder))

    assert kept.element_spec == read.element_spec
    assert parts(kept.take(40)) == parts(read.take(40))
    assert len(os.listdir(folder)) == 1


def test_the_files_are_not_read_again(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    pattern = write(tmp_path / "data", (5, 4))
    batches = ids(dataset(pattern, folder))
    for path in (tmp_path / "data").iterdir():
        stat = path.stat()
        path.write_bytes(b"x" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert ids(dataset(pattern, folder)) == batches
    with pytest.raises(tf.errors.DataLossError):
        ids(dataset(pattern, None))


def test_files_that_changed_are_read_again(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    assert ids(dataset(write(tmp_path / "data", (2,)), folder)) == [[0, 1]]
    assert ids(dataset(write(tmp_path / "data", (3,)), folder)) == [[0, 1, 2]]
    assert set(dataset(f"{tmp_path}/data/*", folder, f'feature {{ name: "id" type: INT {SCALAR} }}').element_spec) == {
        "id"
    }


def test_shuffling_differs_from_epoch_to_epoch_but_not_from_run_to_run(pattern: str, folder: pathlib.Path) -> None:
    options = {"batch_size": 100, "num_epochs": 2, "shuffle": True, "shuffle_seed": 5}

    first, second = ids(dataset(pattern, folder, **options))

    assert sorted(first) == sorted(second) == list(range(sum(SIZES)))
    assert first != second
    assert ids(dataset(pattern, folder, **options)) == [first, second]


def test_the_rows_of_many_blocks_mix(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    rows = 20 * batch_cache._BLOCK
    pattern = write(tmp_path / "data", (rows,))

    order = [
        *itertools.chain.from_iterable(
            ids(dataset(pattern, folder, shuffle=True, shuffle_buffer_size=1000, batch_size=512))
        )
    ]

    assert sorted(order) == list(range(rows))
    # A third of all rows is what two random places lie apart; without the blocks' own shuffling it would be 1,000.
    assert sum(abs(place - row) for place, row in enumerate(order)) / rows > rows / 5
    assert sum(after == before + 1 for before, after in itertools.pairwise(order)) < rows / 100


def test_what_was_used_longest_ago_goes(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    patterns = [write(tmp_path / name, (200,)) for name in "abc"]
    in_use = dataset(patterns[0], folder)
    (entry,) = folder.iterdir()
    gb = 2.5 * sum(file.stat().st_size for file in entry.iterdir()) / 1e9
    for file in entry.iterdir():
        os.utime(file, (time.time() - 60,) * 2)

    for pattern in patterns[1:]:
        dataset(pattern, folder, gb=gb)

    assert len(os.listdir(folder)) == 2
    assert not entry.exists()
    assert len(ids(in_use)) == 29  # whoever reads it has it still


@pytest.mark.parametrize("what", ["too large", "no folder", "of a kind that is not kept"])
def test_what_cannot_be_kept_is_read_as_it_is(pattern: str, folder: pathlib.Path, what: str) -> None:
    schema, gb = SCHEMA, 1e-9 if what == "too large" else 1.0
    if what == "no folder":
        folder.write_text("a file")
    if what == "of a kind that is not kept":
        schema = SCHEMA.replace('{ step: "none" }', '{ step: "none" } partition { uniform_row_length: 1 }')

    assert ids(dataset(pattern, folder, schema, gb)) == ids(dataset(pattern, None))
    assert what == "no folder" or not os.listdir(folder)


def test_what_a_killed_run_left_is_no_entry_and_goes_after_a_day(pattern: str, folder: pathlib.Path) -> None:
    dataset(pattern, folder)
    (entry,) = folder.iterdir()
    for name, age in (("unfinished-new", 0), ("unfinished-old", 2 * 24 * 3600)):
        shutil.copytree(entry, folder / name)
        for path in (*(folder / name).iterdir(), folder / name):
            os.utime(path, (time.time() - age,) * 2)
    shutil.rmtree(entry)

    assert ids(dataset(pattern, folder)) == ids(dataset(pattern, None))
    assert sorted(os.listdir(folder)) == sorted([entry.name, "unfinished-new"])


def test_inside_a_graph_it_is_used_too(pattern: str, folder: pathlib.Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        iterator = tf.compat.v1.data.make_one_shot_iterator(dataset(pattern, folder))
        first = session.run(iterator.get_next())

    assert first["id"].ravel().tolist() == ids(dataset(pattern, None))[0]
    assert len(os.listdir(folder)) == 1


MODULE = """
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

    def run_fn(fn_args):
        schema = text_format.Parse('feature { name: "id" type: INT }', schema_pb2.Schema())
        options = TensorFlowDatasetOptions(batch_size=32, num_epochs=2)
        batches = fn_args.data_accessor.tf_dataset_factory(fn_args.train_files, options, schema)
        model = tf.Module()
        model.rows = tf.Variable(sum(int(batch["id"].dense_shape[0]) for batch in batches))
        model.serve = tf.function(lambda: {"rows": model.rows}, input_signature=[])
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


def test_a_module_gets_the_cache_by_the_options(
    module: Callable[..., str], pattern: str, tmp_path: pathlib.Path, folder: pathlib.Path
) -> None:
    args = FnArgs(
        train_files=[pattern],
        serving_model_dir=str(tmp_path / "model" / "Format-Serving"),
        model_run_dir=str(tmp_path / "run"),
    )

    train(
        module(MODULE, "counts.py"),
        args,
        TrainingOptions(isolate=False, input_cache=str(folder), skip_checks=("loads", "answers")),
    )

    assert tf.saved_model.load(args.serving_model_dir).signatures["serving_default"]()["rows"].numpy() == 2 * sum(SIZES)
    assert len(os.listdir(folder)) == 1
