"""`FnArgs` has all of TFX's attributes, works by attribute and by item, and crosses processes as JSON."""

from __future__ import annotations

import copy
import json
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attr
import pytest

from generic_trainer import FnArgs
from generic_trainer.executors.examples_format import PROTO, ExamplesFormat
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.parquet.format import PARQUET


def test_the_fields_are_those_of_tfx_in_their_order_and_then_others() -> None:
    from tfx.components.trainer import fn_args_utils

    theirs, ours = attr.fields(fn_args_utils.FnArgs), attr.fields(FnArgs)

    assert [field.name for field in ours][: len(theirs)] == [field.name for field in theirs]
    assert {field.name: getattr(FnArgs(), field.name) for field in theirs if field.name != "data_accessor"} == {
        field.name: field.default for field in theirs if field.name != "data_accessor"
    }
    assert DataAccessor._fields == fn_args_utils.DataAccessor._fields


def test_instances_are_also_instances_of_tfx_classes() -> None:
    from tfx.components.trainer import fn_args_utils

    fn_args = FnArgs(train_steps=3)
    changed = attr.evolve(fn_args, train_steps=9)

    assert isinstance(fn_args, fn_args_utils.FnArgs)
    assert isinstance(fn_args, FnArgs)
    assert not isinstance(fn_args, fn_args_utils.DataAccessor)
    assert isinstance(fn_args.data_accessor, fn_args_utils.DataAccessor)
    assert isinstance(changed, fn_args_utils.FnArgs)
    assert not isinstance(fn_args_utils.FnArgs(), FnArgs)


def test_attrs_functions_keep_all_fields() -> None:
    fn_args = FnArgs(train_files=["a/*"], train_steps=3, seed=4, checkpoint_dir="checkpoints")

    shorter = attr.evolve(fn_args, train_steps=1)

    assert (shorter.train_steps, shorter.seed, shorter.data_accessor) == (1, 4, fn_args.data_accessor)
    assert attr.evolve(shorter, train_steps=3) == fn_args
    values = attr.asdict(fn_args, recurse=False)
    assert FnArgs(**values) == fn_args
    assert values["data_accessor"] is fn_args.data_accessor


def test_arguments_of_tfx_get_the_attributes_that_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfx.components.trainer import fn_args_utils

    theirs = fn_args_utils.FnArgs(train_steps=3, model_run_dir="run", data_accessor="readers")
    theirs.num_examples = {"train": 120}
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))

    fn_args = FnArgs.of(theirs)

    assert (fn_args.train_steps, fn_args.data_accessor, fn_args.num_examples) == (3, "readers", {"train": 120})
    assert (fn_args.seed, fn_args.checkpoint_dir) == (None, "run/checkpoints")
    assert (fn_args.is_chief, fn_args.worker_index, fn_args.num_workers) == (False, 1, 2)
    fn_args.train_steps = 4
    assert theirs.train_steps == FnArgs.of(theirs).train_steps == 4
    assert FnArgs.of(fn_args) is fn_args


def pickled(fn_args: FnArgs) -> FnArgs:
    return pickle.loads(pickle.dumps(fn_args))  # noqa: S301


@pytest.mark.parametrize("restored", [copy.copy, copy.deepcopy, pickled])
def test_copies_and_pickles_are_complete(restored: Callable[[FnArgs], FnArgs], tmp_path: pathlib.Path) -> None:
    fn_args = FnArgs(train_steps=3, examples_format=ExamplesFormat(PROTO, str(tmp_path)))
    fn_args.num_examples = {"train": 120}

    for original in (fn_args, attr.evolve(fn_args)):
        again = restored(original)
        assert type(again) is FnArgs
        assert again == original
        assert vars(again).keys() == vars(original).keys()
        assert all(callable(factory) for factory in restored(original.data_accessor))
    assert restored(fn_args).num_examples == {"train": 120}


def test_items_are_attributes() -> None:
    fn_args = FnArgs(train_files=["a/*"], train_steps=7)

    fn_args["eval_steps"] = 3

    assert fn_args["train_files"] is fn_args.train_files
    assert fn_args["train_steps"] == 7
    assert fn_args.eval_steps == 3
    assert "train_steps" in fn_args
    assert "learning_rate" not in fn_args


def test_a_missing_item_is_a_key_error_with_its_name() -> None:
    with pytest.raises(KeyError) as caught:
        FnArgs()["learning_rate"]

    assert caught.value.args == ("learning_rate",)
    assert "train_files" in str(caught.value.__cause__), "what there is instead"


def test_get_gives_the_default_for_what_is_missing_or_none() -> None:
    fn_args = FnArgs(train_steps=0)

    assert fn_args.get("train_steps", 5) == 0
    assert fn_args.get("base_model", "none") == "none"
    assert fn_args.get("learning_rate", 0.1) == 0.1
    assert fn_args.get("learning_rate") is None


def test_new_attributes_may_be_assigned() -> None:
    fn_args = FnArgs()

    fn_args.learning_rate = 0.1
    fn_args["momentum"] = 0.9

    assert (fn_args["learning_rate"], fn_args.momentum) == (0.1, 0.9)


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'trian_files'.*train_files"):
        _ = FnArgs().trian_files


def test_deprecated_names_are_copies_of_the_new_ones() -> None:
    fn_args = FnArgs(schema_path="schema.pbtxt", transform_graph_path="graph")

    assert (fn_args.schema_file, fn_args.transform_output) == ("schema.pbtxt", "graph")


def test_deprecated_names_may_be_set_on_their_own() -> None:
    fn_args = FnArgs(schema_path="new", schema_file="old")

    assert (fn_args.schema_path, fn_args.schema_file) == ("new", "old")


def test_num_examples_is_there_only_with_statistics() -> None:
    fn_args = FnArgs()

    assert not hasattr(fn_args, "num_examples")
    with pytest.raises(AttributeError, match="statistics"):
        _ = fn_args.num_examples

    fn_args.num_examples = {"train": 120}

    assert fn_args["num_examples"] == {"train": 120}


def test_equal_arguments_are_equal() -> None:
    assert FnArgs(train_steps=1) == FnArgs(train_steps=1)
    assert FnArgs(train_steps=1) != FnArgs(train_steps=2)


def test_a_data_accessor_may_be_assigned() -> None:
    fn_args = FnArgs()
    theirs = DataAccessor(
        tf_dataset_factory=lambda *_: None, record_batch_factory=lambda *_: None, data_view_decode_fn=None
    )

    fn_args.data_accessor = theirs

    assert fn_args.data_accessor is theirs
    assert fn_args["data_accessor"] is theirs


def test_copies_are_independent() -> None:
    fn_args = FnArgs(train_steps=1)
    fn_args.learning_rate = 0.1

    theirs = copy.deepcopy(fn_args)
    theirs.train_steps = 2

    assert fn_args.train_steps == 1
    assert theirs.learning_rate == 0.1


def test_json_and_back_keeps_everything_but_the_factories() -> None:
    fn_args = FnArgs(
        train_files=["train/*"],
        eval_steps=5,
        schema_path="schema.pbtxt",
        hyperparameters={"space": [{"name": "rate"}]},
        custom_config={"layers": [8, 8]},
        examples_format=ExamplesFormat(PROTO, "data_view"),
        seed=3,
        is_chief=False,
        worker_index=1,
        num_workers=2,
    )
    fn_args.num_examples = {"train": 120}
    fn_args.learning_rate = 0.1
    assert fn_args.data_accessor

    again = FnArgs.from_json(json.loads(json.dumps(fn_args.to_json())))

    assert again.to_json() == fn_args.to_json()
    assert again.examples_format == fn_args.examples_format
    assert (again.num_examples, again.learning_rate) == ({"train": 120}, 0.1)
    assert again.data_accessor is not fn_args.data_accessor


def test_json_without_statistics_comes_back_without_num_examples() -> None:
    assert not hasattr(FnArgs.from_json(FnArgs().to_json()), "num_examples")


def test_an_unknown_payload_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=rf"FORMAT_CSV.*{PARQUET}"):
        ExamplesFormat("FORMAT_CSV")


IMPORTS = """
import sys
from generic_trainer import FnArgs

def heavy():
    return sorted({"tensorflow", "tfx_bsl", "apache_beam", "pyarrow"} & set(sys.modules))

fn_args = FnArgs(train_files=[sys.argv[1]])
accessor = fn_args.data_accessor
print(heavy())

import tensorflow as tf
print([name for name in heavy() if name in ("tfx_bsl", "apache_beam")])

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions
schema = text_format.Parse(open(sys.argv[2]).read(), schema_pb2.Schema())
dataset = accessor.tf_dataset_factory(fn_args.train_files, TensorFlowDatasetOptions(batch_size=4, num_epochs=1), schema)
print(len(next(iter(dataset))))
"""


def test_readers_are_imported_when_a_factory_is_called_and_not_before(iris: Any) -> None:
    child = subprocess.run(
        [sys.executable, "-c", IMPORTS, iris.train, iris.schema],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )

    assert child.stdout.splitlines() == ["[]", "[]", "5"], child.stderr
