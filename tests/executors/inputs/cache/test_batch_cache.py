"""Parsed examples that are kept on disk are the parsed examples, whoever else writes, reads and removes them."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

from generic_trainer import FnArgs, TrainingOptions
from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.inputs.cache import batch_cache
from generic_trainer.executors.inputs.cache.cached_columns import ColumnWriter
from generic_trainer.executors.inputs.data_accessor import CacheOptions, DataAccessor
from generic_trainer.executors.runtime.files import content_digests
from generic_trainer.executors.runtime.files.content_digests import FILE_NAME as DIGESTS
from generic_trainer.executors.training.run import train

from ....world.records import write_examples
from ..tfrecord.test_record_dataset import SCALAR, SIZES, ids, schema_of, write

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


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.iterdir() if path.is_dir()]


@pytest.mark.legacy
@pytest.mark.parametrize("num_epochs", [1, 3, None])
@pytest.mark.parametrize("label", [None, "id"])
def test_without_shuffling_the_batches_are_the_same_ones(
    pattern: str, folder: pathlib.Path, num_epochs: int | None, label: str | None
) -> None:
    read, kept = (dataset(pattern, where, num_epochs=num_epochs, label_key=label) for where in (None, folder))

    assert kept.element_spec == read.element_spec
    assert parts(kept.take(40)) == parts(read.take(40))
    assert len(entries(folder)) == 1


def test_files_are_parsed_again_only_if_their_content_has_changed(
    tmp_path: pathlib.Path, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = write(tmp_path / "data", (5, 4))
    batches = ids(dataset(pattern, folder))
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(batch_cache, "_write", None)
        assert ids(dataset(pattern, folder)) == ids(dataset(f"{tmp_path}/copy/*", folder)) == batches

    for path in (tmp_path / "data").iterdir():
        stat = path.stat()
        path.write_bytes(b"x" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(tf.errors.DataLossError):
        ids(dataset(pattern, folder))


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
    again = dataset(pattern, folder, **options)
    assert ids(again) == [first, second]
    assert ids(again) != [first, second]  # as Keras's epochs do it: another run through the same dataset


def test_without_a_seed_of_its_own_tensorflows_decides(pattern: str, folder: pathlib.Path) -> None:
    def order(seed: int) -> list[list[int]]:
        tf.random.set_seed(seed)
        return ids(dataset(pattern, folder, shuffle=True))

    assert order(3) == order(3) != order(4)


KINDS = f"""
    feature {{ name: "id" type: INT {SCALAR} }}
    feature {{ name: "sparse" type: FLOAT presence {{ min_fraction: 1 }} shape {{ dim {{ size: 2 }} }} }}
    feature {{ name: "name" type: BYTES {SCALAR} }}
    feature {{ name: "one" type: BYTES }} feature {{ name: "few" type: INT }} feature {{ name: "many" type: FLOAT }}
    feature {{ name: "words" type: BYTES }}
    tensor_representation_group {{
      key: ""
      value {{
        tensor_representation {{
          key: "words" value {{ ragged_tensor {{ feature_path {{ step: "words" }} row_partition_dtype: INT32 }} }}
        }}
      }}
    }}
"""


def write_kinds(folder: pathlib.Path, rows: int) -> str:
    made: list[dict[str, Any]] = []
    for row in range(rows):
        values = {"id": row, "sparse": [float(row), float(-row)], "name": f"row {row}", "one": "é"}
        if row % 3:
            values["few"] = row
        if row % 7:
            values["many"] = [float(number) for number in range(row % 7)]
            values["words"] = np.array([str(word) for word in range(row % 5)], str)
        made.append(values)
    write_examples(folder / "data", made)
    return f"{folder}/*"


def rows_of(batches: Any) -> list[tuple[Any, ...]]:
    """Returns what is in each row, in the order of their numbers."""
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        tensors = [tf.RaggedTensor.from_sparse(t) if isinstance(t, tf.SparseTensor) else t for t in batch.values()]
        columns = [t.to_list() if isinstance(t, tf.RaggedTensor) else t.numpy().tolist() for t in tensors]
        rows += zip(batch["id"].numpy().ravel().tolist(), *columns, strict=True)
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.legacy
def test_rows_of_every_kind_stay_whole(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    pattern = write_kinds(tmp_path / "data", 1000)

    for shuffle, num_epochs in ((True, 2), (False, 2), (False, None)):
        options = {"num_epochs": num_epochs, "batch_size": 64, "shuffle": shuffle}
        kept, read = (dataset(pattern, where, KINDS, **options).take(40) for where in (folder, None))
        assert kept.element_spec == read.element_spec
        assert rows_of(kept) == rows_of(read)
        assert shuffle or parts(kept) == parts(read)


def test_examples_without_end_end_when_there_are_none(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    pattern = write(tmp_path / "data", (0,))

    for shuffle in (True, False):
        assert ids(dataset(pattern, folder, num_epochs=None, shuffle=shuffle)) == []


def test_a_sparse_tensor_that_is_wider_than_its_rows_is_not_kept(tmp_path: pathlib.Path) -> None:
    wide = tf.SparseTensor([[0, 0]], [1], [1, 5])
    with (
        ColumnWriter(tmp_path / "0", tf.SparseTensorSpec([None, None], tf.int32)) as column,
        pytest.raises(TypeError, match="wider"),
    ):
        column.add(wide)


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


def test_the_least_recently_used_entry_is_evicted(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    patterns = [write(tmp_path / name, (size,)) for name, size in {"a": 200, "b": 201, "c": 202}.items()]
    in_use = dataset(patterns[0], folder)
    (entry,) = entries(folder)
    gb = 2.5 * sum(file.stat().st_size for file in entry.iterdir()) / 1e9
    for path in (*entry.iterdir(), entry):
        os.utime(path, (time.time() - 60,) * 2)

    for pattern in patterns[1:]:
        dataset(pattern, folder, gb=gb)

    assert len(entries(folder)) == 2
    assert not entry.exists()
    assert len(ids(in_use)) == 29  # whoever reads it has it still


@pytest.mark.parametrize("what", ["too large", "no folder", "a type that cannot be cached"])
def test_what_cannot_be_kept_is_read_as_it_is(pattern: str, folder: pathlib.Path, what: str) -> None:
    schema, gb = SCHEMA, 1e-9 if what == "too large" else 1.0
    if what == "no folder":
        folder.write_text("a file")
    if what == "a type that cannot be cached":
        schema = SCHEMA.replace('{ step: "none" }', '{ step: "none" } partition { uniform_row_length: 1 }')

    assert ids(dataset(pattern, folder, schema, gb)) == ids(dataset(pattern, None))
    assert what == "no folder" or not entries(folder)


def test_unfinished_entries_of_a_killed_run_are_ignored_and_deleted_after_a_day(
    pattern: str, folder: pathlib.Path
) -> None:
    dataset(pattern, folder)
    (entry,) = entries(folder)
    for name, age in (("unfinished-new", 0), ("unfinished-old", 2 * 24 * 3600)):
        shutil.copytree(entry, folder / name)
        for path in (*(folder / name).iterdir(), folder / name):
            os.utime(path, (time.time() - age,) * 2)
    shutil.rmtree(entry)

    assert ids(dataset(pattern, folder)) == ids(dataset(pattern, None))
    assert {path.name for path in entries(folder)} == {entry.name, "unfinished-new"}


def test_inside_a_graph_it_is_used_too(pattern: str, folder: pathlib.Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        iterator = tf.compat.v1.data.make_one_shot_iterator(dataset(pattern, folder))
        first = session.run(iterator.get_next())

    assert first["id"].ravel().tolist() == ids(dataset(pattern, None))[0]
    assert len(entries(folder)) == 1


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


def trained_rows(module: str, pattern: str, folder: pathlib.Path) -> int:
    """Trains with the cache; returns the number of rows that the module read, in two epochs."""
    args = FnArgs(
        train_files=[pattern],
        serving_model_dir=str(folder.parent / "model" / "Format-Serving"),
        model_run_dir=str(folder.parent / "run"),
    )
    train(module, args, TrainingOptions(isolate=False, input_cache=str(folder), skip_checks=("loads", "answers")))
    return int(tf.saved_model.load(args.serving_model_dir).signatures["serving_default"]()["rows"].numpy())


def test_a_module_gets_the_cache_by_the_options(module: Callable[..., str], pattern: str, folder: pathlib.Path) -> None:
    assert trained_rows(module(MODULE, "counts.py"), pattern, folder) == 2 * sum(SIZES)
    assert len(entries(folder)) == 1


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "garbled": lambda content: content[: len(content) // 2] + b"\xff\x00" + content[len(content) // 2 + 2 :],
    "of other digits": lambda content: content.replace(b"1", b"2"),
    "of another type": lambda content: b"[]",
    "longer": lambda content: content + content[-8:],
    "missing": lambda content: None,
}


@pytest.mark.parametrize("name", ["index.json", "0.values", "0.rows", "0.strings", DIGESTS])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.thorough_but("garbled-index.json", "empty-index.json", "cut-0.values", "missing-0.rows", f"cut-{DIGESTS}")
def test_a_damaged_file_is_named_and_written_again_while_others_read_the_entry(
    module: Callable[..., str],
    pattern: str,
    folder: pathlib.Path,
    name: str,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = module(MODULE, "counts.py")
    trained_rows(code, pattern, folder)
    (entry,) = entries(folder)
    in_use = iter(dataset(pattern, folder, 'feature { name: "id" type: INT }'))
    first = next(in_use)
    path = folder / name if name == DIGESTS else entry / name
    content = path.read_bytes() if path.exists() else b"[]"
    damaged = DAMAGES[damage](content)
    path.unlink(missing_ok=True)
    if damaged is not None:
        path.write_bytes(damaged)

    content_digests._digests_in.cache_clear()  # as in a new process
    assert trained_rows(code, pattern, folder) == 2 * sum(SIZES)
    is_damaged = name != DIGESTS and damaged != content
    assert (f"{entry} is damaged, and is written again." in caplog.text) == is_damaged
    caplog.clear()
    assert trained_rows(code, pattern, folder) == 2 * sum(SIZES)
    assert "is damaged" not in caplog.text
    assert entries(folder) == [entry]
    assert sum(len(batch["id"].values) for batch in [first, *in_use]) == sum(SIZES)
