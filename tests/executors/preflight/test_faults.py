"""Faults injected into working modules and their data: the right item reports each, with file and line."""

from __future__ import annotations

import dataclasses
import gzip
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from generic_trainer import FnArgs, TrainingOptions
from generic_trainer.executors.preflight.check import check
from generic_trainer.executors.preflight.request import CheckRequest
from generic_trainer.executors.preflight.verdicts import NOT_REACHED, WARNING, Report

from ...world.data import iris_csv

MODULES = pathlib.Path(__file__).resolve().parents[3] / "module_files"
CSV_COLUMNS = "columns=['sepal_length', 'sepal_width', 'petal_length', 'petal_width', 'variety']"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault and its expected report.

    Attributes:
      name: Description of the fault.
      item: The item that must report it.
      said: Words in its text or remedy.
      module: The example module that gets the fault.
      old, new: The edit; the reported location is that of `at`.
      at: Words of the source line that must be reported, or "".
      exit_code: Exit code of the command.
      data: Changes the files in the iris folder; returns arguments for FnArgs.
      request: Further fields of the request.
    """

    name: str
    item: str
    said: tuple[str, ...]
    module: str = "iris_keras"
    old: str = ""
    new: str = ""
    at: str = ""
    exit_code: int = 1
    data: Callable[[pathlib.Path], Mapping[str, Any]] | None = None
    request: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _cut_off(folder: pathlib.Path) -> Mapping[str, Any]:
    [path] = (folder / "train").iterdir()
    content = gzip.decompress(path.read_bytes())
    path.unlink()
    (folder / "train" / "part-0").write_bytes(content[:-20])
    return {}


def _damaged(folder: pathlib.Path) -> Mapping[str, Any]:
    [path] = (folder / "train").iterdir()
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[500] ^= 255
    path.write_bytes(gzip.compress(bytes(content)))
    return {}


def _misnamed(folder: pathlib.Path) -> Mapping[str, Any]:
    [path] = (folder / "train").iterdir()
    path.rename(path.with_name("part-0.tfrecord"))
    return {}


def _empty(folder: pathlib.Path) -> Mapping[str, Any]:
    [path] = (folder / "train").iterdir()
    path.write_bytes(gzip.compress(b""))
    return {}


def _typed_otherwise(folder: pathlib.Path) -> Mapping[str, Any]:
    schema = (folder / "schema.pbtxt").read_text().replace('"sepal_width" type: FLOAT', '"sepal_width" type: INT')
    (folder / "other.pbtxt").write_text(schema)
    return {"schema_path": str(folder / "other.pbtxt")}


def _none(folder: pathlib.Path) -> Mapping[str, Any]:
    del folder
    return {"train_files": [], "eval_files": []}


def _csv(folder: pathlib.Path) -> Mapping[str, Any]:
    path = folder / "iris.csv"
    path.write_text(iris_csv())
    config = {"data_reader_params": CSV_COLUMNS}
    return {"train_files": [str(path)], "eval_files": [str(path)], "custom_config": config}


ELASTICDL = {"module": "iris_elasticdl", "data": _csv}
SAVE = "    export(model, fn_args.serving_model_dir)"
FAULTS = [
    # The module itself
    Fault(
        "syntax error", "module", ("SyntaxError", "expected ':'"),
        old=" -> keras.Model:", new="", at="def build_model(",
    ),
    Fault(
        "package not installed", "load", ("No module named 'sklearnx'", "Install the package"),
        old="import keras\n", new="import keras\nimport sklearnx\n", at="import sklearnx",
    ),
    Fault(
        "sibling module missing", "load",
        ("No module named 'iris_featurs'", "put iris_featurs.py next to", "iris_feat"),
        old="import keras\n", new="import keras\nfrom iris_featurs import FEATURES\n", at="from iris_featurs import",
    ),
    Fault(
        "library of ops missing", "load", ("my_ops.so", "NotFoundError"),
        old="LABEL =", new='tf.load_op_library("my_ops.so")\nLABEL =', at="tf.load_op_library",
    ),
    Fault(
        "the module ends the process", "load", ("SystemExit(3)",),
        old="LABEL =", new="raise SystemExit(3)\nLABEL =", at="raise SystemExit(3)",
    ),
    Fault(
        "run_fn misspelled", "dialect", ("no entry point of a known dialect", "Did you mean 'runfn'?"), exit_code=2,
        old="def run_fn(", new="def runfn(", at="def runfn(",
    ),
    Fault(
        "run_fn with wrong parameters", "signatures", ("run_fn(fn_args", "def run_fn(fn_args)"), exit_code=2,
        old="def run_fn(fn_args: FnArgs)", new="def run_fn(fn_args: FnArgs, schema: str)", at="def run_fn(",
    ),
    Fault(
        "two dialects", "dialect", ("more than one dialect", "elasticdl", "run_fn"), exit_code=2,
        module="iris_elasticdl", data=_csv, old="def loss(", new="def run_fn(fn_args):\n    pass\n\n\ndef loss(",
    ),
    # Examples
    Fault("empty TFRecord", "examples", ("every file is empty",), exit_code=2, data=_empty),
    Fault("TFRecord cut off", "examples", ("part-0", "record 120: it is truncated"), exit_code=2, data=_cut_off),
    Fault("TFRecord damaged", "examples", ("part-0.gz", "damaged"), exit_code=2, data=_damaged),
    Fault(
        "wrong compression", "examples", ("part-0.tfrecord is gzipped", "Rename the file"), exit_code=2, data=_misnamed,
    ),
    Fault(
        "feature of another type than in the schema", "examples", ("'sepal_width' is FLOAT", "INT in the schema"),
        exit_code=2, data=_typed_otherwise, old="**options), make_schema()",
        new="**options), text_format.Parse(open(fn_args.schema_path).read(), schema_pb2.Schema())",
    ),
    Fault(
        "label not in the data", "examples", ("the examples have no label feature 'species'", "they have petal_length"),
        exit_code=2, request={"label": "species"},
    ),
    Fault(
        "label misspelled in the module", "training", ("the examples have no label feature", "Did you mean 'variety'?"),
        old='LABEL = "variety"', new='LABEL = "varietty"', at="model.fit(",
    ),
    # Model and training
    Fault(
        "custom_config lacks a key", "model", ("KeyError: 'learning_rate'", "Did you mean 'learningrate'?"),
        old='.get("learning_rate", LEARNING_RATE)', new='["learning_rate"]', at='["learning_rate"]',
        data=lambda folder: {"custom_config": {"learningrate": 0.1}},
    ),
    Fault(
        "shapes that do not fit in the model", "model", ("ValueError", "target_shape=(5, 5)"),
        old="    probabilities = keras",
        new="    hidden = keras.layers.Reshape((5, 5))(hidden)\n    probabilities = keras",
        at="keras.layers.Reshape((5, 5))(hidden)",
    ),
    Fault(
        "loss that does not fit the label", "training", ("SparseCategoricalCrossentropy and as many outputs",),
        old="keras.losses.SparseCategoricalCrossentropy()", new="keras.losses.CategoricalCrossentropy()",
        at="model.fit(",
    ),
    Fault(
        "loss is NaN at the first step", "training", ("The loss is nan at step 1", "logarithm"),
        old="keras.losses.SparseCategoricalCrossentropy()", new="lambda y, p: keras.ops.log(p[:, 0] - 2.0)",
        at="model.fit(",
    ),
    Fault(
        "label outside of the classes", "training", ("label value of 2", "exceeds the size of the embedding table"),
        old="VARIETIES = 3", new="VARIETIES = 2", at="model.fit(",
    ),
    Fault(
        "id outside of the vocabulary", "training", ("is not in [0, 3)", "clip the ids"),
        old="    hidden = keras.layers.Concatenate()(list(inputs.values()))",
        new='    ids = keras.layers.Embedding(3, 4)(inputs["sepal_length"])\n    hidden = keras.layers.Flatten()(ids)',
        at="model.fit(",
    ),
    # Export
    Fault("nothing exported", "export", ("wrote no model",), exit_code=3, old=SAVE, new="", at="def run_fn("),
    Fault(
        "an exception that is caught and logged", "export",
        ("wrote no model; it logged an error: The export failed: ValueError: no disk",), exit_code=3,
        old=SAVE, at="def run_fn(",
        new='    try:\n        raise ValueError("no disk")\n    except ValueError:\n'
        '        import logging\n        logging.exception("The export failed")',
    ),
    Fault(
        "exported to another folder", "export", ("saved to fn_args.model_run_dir/model",), exit_code=3,
        old=SAVE, new='    export(model, fn_args.model_run_dir + "/model")', at="tf.saved_model.save(",
    ),
    Fault(
        "export without signatures", "SavedModel", ("no signatures",), exit_code=3, at="tf.saved_model.save(",
        old=SAVE, new="    tf.saved_model.save(tf.Module(), fn_args.serving_model_dir)",
    ),
    Fault(
        "signature that fails on a real example", "SavedModel",
        ("'serving_default' fails", "Data types don't match"), exit_code=3,
        old="tf.io.FixedLenFeature([1], tf.float32)", new="tf.io.FixedLenFeature([1], tf.int64)",
        at="tf.saved_model.save(",
    ),
    # Other dialects
    Fault(
        "input_fn of an Estimator fails", "model", ("'varietty' is not among",), module="iris_estimator",
        old="label_key=LABEL", new='label_key="varietty"', at="fn_args.data_accessor.tf_dataset_factory(",
    ),
    Fault(
        "EvalSpec without exporter", "model", ("has no exporter",), module="iris_estimator", exit_code=2,
        old='            exporters=tf.estimator.FinalExporter("iris", serving_input_receiver_fn),\n', new="",
        at="def trainer_fn(",
    ),
    Fault(
        "ElasticDL: no loss", "signatures", ("has no loss", "def loss(labels, predictions)"), exit_code=2,
        old="def loss(", new="def lose(", request={"options": TrainingOptions(dialect="elasticdl")}, **ELASTICDL,
    ),
    Fault(
        "ElasticDL: feed returns nothing", "model", ("must return a tf.data.Dataset",), exit_code=2, at="def feed(",
        old="    return dataset.shuffle(1024, seed=1) if mode == Mode.TRAINING else dataset\n", new="", **ELASTICDL,
    ),
    Fault(
        "ElasticDL: loss fails", "model", ("Labels: int32", "outputs: float32"), at="return tf.reduce_mean(",
        old="sparse_softmax_cross_entropy_with_logits(labels, predictions)",
        new="softmax_cross_entropy_with_logits(labels, predictions[:, :2])", **ELASTICDL,
    ),
    Fault(
        "DLRover: value of a wrong type", "signatures", ("max_steps='300'",), module="linear_dlrover", exit_code=2,
        old="max_steps = 300", new='max_steps = "300"', at="class TrainConf",
        data=_none,
    ),
    Fault(
        "DLRover: reader fails", "training", ("ZeroDivisionError",), module="linear_dlrover",
        old="        rows = []", new="        rows = [1 // 0]", at="rows = [1 // 0]",
        data=_none,
    ),
]  # fmt: skip


def planted(fault: Fault, iris: Any, tmp_path: pathlib.Path) -> tuple[CheckRequest, pathlib.Path]:
    """Returns the request for a module with the fault, and the module's path."""
    folder, code = tmp_path / "iris", tmp_path / "code"
    shutil.copytree(pathlib.Path(iris.schema).parent, folder)
    code.mkdir()
    (code / "iris_features.py").write_text("FEATURES = ()\n")
    path = code / f"{fault.module}.py"
    source = (MODULES / path.name).read_text()
    assert fault.old in source
    path.write_text(source.replace(fault.old, fault.new, 1))
    arguments = {"train_files": [f"{folder}/train/*"], "eval_files": [f"{folder}/eval/*"], "seed": 1}
    arguments |= fault.data(folder) if fault.data else {}
    return CheckRequest(str(path), FnArgs(**arguments), **fault.request), path


@pytest.mark.thorough_but(
    "id outside of the vocabulary",
    "label misspelled in the module",
    "loss is NaN at the first step",
    "nothing exported",
    "TFRecord damaged",
    "DLRover: reader fails",
    "ElasticDL: loss fails",
    "input_fn of an Estimator fails",
    "the module ends the process",
    "run_fn misspelled",
    "signature that fails on a real example",
    "shapes that do not fit in the model",
)
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_is_found(fault: Fault, iris: Any, tmp_path: pathlib.Path) -> None:
    request, path = planted(fault, iris, tmp_path)
    report = check(request)
    first = report.first_failure
    assert first is not None, report.to_json()
    shown = f"{first.text} {first.remedy}"
    assert first.item == fault.item, report.to_json()
    assert [words for words in fault.said if words not in shown] == [], shown
    assert report.exit_code == fault.exit_code
    if fault.at:
        assert first.place is not None, first
        assert pathlib.Path(first.place.file).samefile(path)
        assert fault.at in first.place.source, first.place
        assert path.read_text().splitlines()[first.place.line - 1].strip() == first.place.source
    assert_rest_not_reached(report)


def assert_rest_not_reached(report: Report) -> None:
    """Asserts that items that depend on a failed one were not run."""
    items = [verdict.item for verdict in report.verdicts]
    failed = items.index(report.failures[-1].item)
    assert {verdict.status for verdict in report.verdicts[failed + 1 :]} <= {NOT_REACHED, "passed", "skipped"}
    assert report.get("estimate").status in (NOT_REACHED, "passed")


def test_several_faults_are_reported_together(iris: Any, tmp_path: pathlib.Path) -> None:
    """All independent files are checked, and the module as well."""
    (tmp_path / "broken.pbtxt").write_text("feature { nam: 1 }")
    (tmp_path / "model").mkdir()
    (tmp_path / "params.json").write_text("{learning_rate: 1}")
    fn_args = FnArgs(
        train_files=[iris.train.replace("/train/", "/trian/")],
        eval_files=[iris.eval],
        schema_path=str(tmp_path / "broken.pbtxt"),
        transform_graph_path=str(tmp_path / "modell"),
    )
    request = CheckRequest(
        str(MODULES / "iris_keras.py"),
        fn_args,
        base_model=str(tmp_path / "model"),
        hyperparameters=str(tmp_path / "params.json"),
        problems={"custom_config": "is not JSON"},
    )
    report = check(request)
    found = {verdict.item: verdict.text for verdict in report.failures}
    assert list(found) == [
        *("train files", "schema", "transform graph", "base model", "hyperparameters", "custom_config"),
    ]
    assert "no file matches" in found["train files"]
    assert "Did you mean 'train'?" in found["train files"]
    assert "is not a Schema" in found["schema"]
    assert "Did you mean 'model'?" in found["transform graph"]
    assert "no SavedModel" in found["base model"]
    assert "is not JSON" in found["hyperparameters"]
    assert report.get("signatures").status == "passed"
    assert report.get("model").status == NOT_REACHED
    assert report.exit_code == 2


def test_a_missing_module_is_reported_with_the_nearest_name(iris: Any) -> None:
    report = check(CheckRequest(str(MODULES / "iris_kears.py"), FnArgs(train_files=[iris.train], eval_files=[])))
    assert "Did you mean 'iris_keras.py'?" in report.first_failure.text
    assert report.get("examples").status == "passed"  # these were checked nevertheless


def test_an_attribute_that_nothing_reads_is_a_warning(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "conf.py"
    path.write_text((MODULES / "linear_dlrover.py").read_text().replace("log_steps = 50", "log_min_secs = 50"))
    report = check(CheckRequest(str(path), FnArgs(train_files=[], eval_files=[])))
    assert report.passed
    verdict = report.get("signatures")
    assert verdict.status == WARNING
    assert "the setting 'log_min_secs' is not used, unless the model reads it." in verdict.text
    assert report.get("estimate").details["steps"] == 300


PREPROCESSING = """
import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    {body}


def run_fn(fn_args):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said", "at"),
    [
        ("return {'x': tft.scale_to_z_score(inputs['sepal_lenght'])}", "KeyError: 'sepal_lenght'", "sepal_lenght"),
        ("return [inputs['sepal_length']]", "must return a Dict", "def preprocessing_fn("),
    ],
    ids=["it raises", "it returns a list"],
)
def test_a_fault_in_preprocessing_is_found_on_raw_data(body: str, said: str, at: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    _csv(tmp_path / "data")
    path = tmp_path / "taxi.py"
    path.write_text(PREPROCESSING.format(body=body))
    report = check(CheckRequest(str(path), FnArgs(train_files=[], eval_files=[]), data=str(tmp_path / "data")))
    first = report.first_failure
    assert first.item == "transform", report.to_json()
    assert said in first.text
    assert at in first.place.source
    assert report.get("data").status == "passed"
    assert report.get("model").status == NOT_REACHED


def test_raw_data_whose_rows_do_not_fit_the_header(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x,y\n1,2\n1,2,3\n")
    report = check(
        CheckRequest(str(MODULES / "iris_keras.py"), FnArgs(train_files=[], eval_files=[]), data=str(tmp_path / "data"))
    )
    assert report.first_failure.item == "data"
    assert "a.csv, row 2 (line 3): it has 3 values, but the header has 2 columns" in report.first_failure.text
