"""The check of a SavedModel, on real ones: sound ones pass, each kind of broken one is named."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from generic_trainer import ModelCheckError, check_saved_model
from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.monitoring.unchecked_model import unchecked_line
from generic_trainer.executors.saved_models.locations import find_saved_model, lift_timestamped_model
from generic_trainer.executors.saved_models.sample_input import collect_sample_input, set_sample_input

from ...world.models import save_function
from ...world.records import write_examples, write_records

SPEC = {"sepal_length": tf.io.FixedLenFeature([1], tf.float32), "variety": tf.io.FixedLenFeature([1], tf.int64)}


class Scale(tf.Module):
    """y = weight * sepal_length, with a signature of any input form."""

    def __init__(self, weight: float = 2.0) -> None:
        super().__init__()
        self.weight = tf.Variable(weight)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def from_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": self.weight * tf.io.parse_example(examples, SPEC)["sepal_length"]}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 1], tf.float32, name="sepal_length"),
            tf.TensorSpec([None, 1], tf.int64, name="variety"),
        ]
    )
    def from_features(self, sepal_length: tf.Tensor, variety: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": self.weight * sepal_length + tf.cast(variety, tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([4, None], tf.float32, name="pixels")])
    def from_other(self, pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": self.weight * pixels}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def from_raw(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": self.weight * tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]}


@pytest.fixture
def save(tmp_path: pathlib.Path) -> Callable[..., str]:
    def write(weight: float = 2.0, signatures: dict[str, str] | None = None) -> str:
        module = Scale(weight)
        names = {"serving_default": "from_examples"} if signatures is None else signatures
        functions = {name: getattr(module, method) for name, method in names.items()}
        tf.saved_model.save(module, str(tmp_path / "model"), signatures=functions or None)
        return str(tmp_path / "model")

    return write


def check(folder: str, examples: Any = None, **options: Any) -> Any:
    return check_saved_model(folder, [examples.eval] if examples else [], **options)


@pytest.mark.parametrize("form", ["from_examples", "from_features"])
def test_a_valid_model_predicts_for_an_eval_example(form: str, save: Callable[..., str], iris: Any) -> None:
    report = check(save(signatures={"serving_default": form}), iris)
    assert set(report.checks.values()) == {"passed"}
    assert report.example.startswith("the first eval example (")
    record = next(iter(tf.data.TFRecordDataset(tf.io.gfile.glob(iris.eval), "GZIP"))).numpy()
    row = tf.train.Example.FromString(record).features.feature
    expected = 2.0 * row["sepal_length"].float_list.value[0]
    expected += row["variety"].int64_list.value[0] if form == "from_features" else 0
    assert report.answer["y"] == [pytest.approx(expected)]
    files = [file for file in pathlib.Path(save()).rglob("*") if file.is_file()]
    assert report.size_bytes == pytest.approx(sum(file.stat().st_size for file in files), rel=0.2)


def test_the_report_names_signatures_with_types_and_shapes(save: Callable[..., str], iris: Any) -> None:
    report = check(save(signatures={"serving_default": "from_features", "raw": "from_examples"}), iris)
    assert report.signatures == {
        "raw": {"inputs": {"examples": "string (?)"}, "outputs": {"y": "float32 (?, 1)"}},
        "serving_default": {
            "inputs": {"sepal_length": "float32 (?, 1)", "variety": "int64 (?, 1)"},
            "outputs": {"y": "float32 (?, 1)"},
        },
    }


def test_uncompressed_records_and_parquet_rows_are_read_too(
    save: Callable[..., str], tmp_path: pathlib.Path, iris: Any
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = save()
    record = next(iter(tf.data.TFRecordDataset(tf.io.gfile.glob(iris.eval), "GZIP"))).numpy()
    write_records(tmp_path / "plain", [record])
    expected = check(folder, iris).answer
    assert check_saved_model(folder, [str(tmp_path / "plain")]).answer == expected
    pq.write_table(pa.table({"sepal_length": [5.0], "variety": [1]}), tmp_path / "rows.parquet")
    report = check_saved_model(
        folder, [str(tmp_path / "rows.parquet")], examples_format=ExamplesFormat("FORMAT_PARQUET")
    )
    assert report.answer == {"y": [10.0]}


def test_of_an_image_only_the_number_of_bytes_is_shown(save: Callable[..., str], tmp_path: pathlib.Path) -> None:
    values = {"png": tf.io.encode_png(tf.zeros([8, 8, 1], tf.uint8)).numpy(), "text": "Größe:\n5 cm".encode()}
    images = write_examples(tmp_path / "images", [{**values, "sepal_length": 5.0, "variety": 1}])
    report = check_saved_model(save(), [images])
    assert report.answer == {"y": [10.0]}
    assert report.inputs["png"] == [f"{len(values['png'])} bytes"]
    assert report.inputs["text"] == ["Größe:\n5 cm"]


def test_a_model_without_usable_examples_passes(save: Callable[..., str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "not_records").write_text("a,b\n1,2\n")
    folder = save()
    assert check(folder).checks["answers"].startswith("could not be run: ")
    report = check_saved_model(folder, [str(tmp_path / "not_records")])
    assert report.checks["answers"].startswith("could not be run: ")
    assert report.checks["loads"] == "passed"


def offered(features: dict[str, Any]) -> dict[str, Any]:
    with collect_sample_input() as example:
        set_sample_input("a row of mine", [features])
    return json.loads(json.dumps(example))  # type: ignore[no-any-return]


def test_the_sample_input_is_used_if_no_example_fits(save: Callable[..., str], iris: Any) -> None:
    folder = save(signatures={"serving_default": "from_features", "records": "from_examples"})
    record = next(iter(tf.data.TFRecordDataset(tf.io.gfile.glob(iris.eval), "GZIP"))).numpy()
    row = tf.train.Example.FromString(record).features.feature
    expected = row["sepal_length"].float_list.value[0] * 2.0
    report = check(folder, example=offered({"sepal_length": [1.5], "variety": [2]}))
    assert (report.example, report.answer) == ("a row of mine", {"y": [5.0]})
    assert report.checks["answers"] == "passed"
    assert "the first eval example" in check(folder, iris, example=offered({"sepal_length": [1.5]})).example

    only = save(signatures={"serving_default": "from_examples"})
    report = check(only, example=offered({"examples": [record]}))  # bytes that are no text
    assert report.answer == {"y": [pytest.approx(expected)]}
    assert report.checks["answers"] == "passed"
    report = check(only, example=offered({"examples": [b"\0no example"]}))
    assert report.checks["answers"].startswith("could not be run: ")  # the model may want another one


def test_a_signature_that_no_example_fits_is_run_on_zeros(save: Callable[..., str], iris: Any) -> None:
    report = check(save(signatures={"serving_default": "from_other"}), iris)
    assert report.example == "an input of zeros"
    assert report.answer == {"y": [0.0] * 4}


def test_a_raw_signature_behind_transform_gets_an_example_of_the_raw_schema(
    save: Callable[..., str], tmp_path: pathlib.Path, iris: Any
) -> None:
    folder = save(signatures={"serving_default": "from_raw"})
    with pytest.raises(ModelCheckError, match="fails on the first eval example"):
        check(folder, iris)
    (tmp_path / "graph" / "metadata").mkdir(parents=True)
    (tmp_path / "graph" / "metadata" / "schema.pbtxt").write_text('feature { name: "x" type: FLOAT }')
    report = check(folder, iris, transform_graph_path=str(tmp_path / "graph"))
    assert report.example.startswith("a synthetic example from ")
    assert report.answer == {"y": [pytest.approx(2 * report.inputs["x"][0])]}


def test_missing_and_empty_folders(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ModelCheckError, match=r"wrote no model: /shown does not exist"):
        check(str(tmp_path / "absent"), shown_as="/shown")
    (tmp_path / "empty" / "variables").mkdir(parents=True)
    with pytest.raises(ModelCheckError, match=r"is empty. It must save one to fn_args.serving_model_dir"):
        check(str(tmp_path / "empty"))
    (tmp_path / "empty" / "weights.h5").write_text("")
    with pytest.raises(ModelCheckError, match=r"contains no SavedModel, only weights.h5"):
        check(str(tmp_path / "empty"))


def test_a_truncated_graph(save: Callable[..., str], iris: Any) -> None:
    graph = pathlib.Path(save(), "saved_model.pb")
    graph.write_bytes(graph.read_bytes()[:-100])
    with pytest.raises(ModelCheckError, match=r"failed the check 'parses': saved_model.pb .* truncated or corrupted"):
        check(str(graph.parent), iris)


def test_truncated_variables(save: Callable[..., str], iris: Any) -> None:
    index = pathlib.Path(save(), "variables", "variables.index")
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(ModelCheckError, match="failed the check 'loads': a fresh process cannot load it"):
        check(str(index.parent.parent), iris)


def test_no_signature_and_a_missing_one(save: Callable[..., str], iris: Any) -> None:
    with pytest.raises(ModelCheckError, match="'signatures': it has no signatures"):
        check(save(signatures={}), iris)
    with pytest.raises(ModelCheckError, match="'signatures': it lacks predict; it has serving_default"):
        check(save(), iris, required_signatures=["serving_default", "predict"])


def test_nan_in_the_variables_or_in_the_prediction(save: Callable[..., str], iris: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ModelCheckError, match=r"'finite': its variable .* contains NaN or infinity"):
        check(save(weight=float("nan")), iris)

    lengths = tf.TensorSpec([None], tf.float32, name="sepal_length")
    save_function(lambda sepal_length: {"y": tf.math.log(-sepal_length)}, tmp_path / "hidden", lengths)
    with pytest.raises(
        ModelCheckError, match=r"'finite': 'serving_default' returns y=\[NaN.* for the first eval example "
    ):
        check(str(tmp_path / "hidden"), iris)


def test_checks_are_skipped_by_name(save: Callable[..., str], iris: Any, caplog: pytest.LogCaptureFixture) -> None:
    report = check(save(weight=float("nan"), signatures={}), iris, skip=["signatures", "finite"])
    assert report.checks == {
        "parses": "passed",
        "signatures": "skipped",
        "loads": "passed",
        "answers": "skipped",
        "finite": "skipped",
        "batches": "skipped",
    }
    assert "The check 'finite' of the model" in caplog.text
    pathlib.Path(save(), "saved_model.pb").write_bytes(b"broken")
    assert set(check(save(), iris, skip=["parses"]).checks.values()) == {"skipped"}


def test_the_newest_export_of_an_estimator_is_found(save: Callable[..., str], tmp_path: pathlib.Path) -> None:
    folder = pathlib.Path(save())
    root = tmp_path / "estimator"
    for exporter, stamp in [("final", "1600000002"), ("best", "1600000001"), ("best", "temp-1600000009")]:
        (root / "export" / exporter / stamp).mkdir(parents=True)
        (root / "export" / exporter / stamp / "saved_model.pb").write_bytes((folder / "saved_model.pb").read_bytes())
    assert find_saved_model(str(root)) == str(root / "export" / "final" / "1600000002")
    assert find_saved_model(str(folder)) == str(folder)
    assert find_saved_model(str(tmp_path)) is None


def test_the_only_model_in_a_timestamped_subfolder_is_moved_out_of_it(
    save: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "estimator"
    folder.mkdir()
    (folder / "checkpoint").write_text("model.ckpt-5")
    (folder / "temp-1600000009").mkdir()
    os.rename(save(), folder / "1600000001")
    assert find_saved_model(str(folder)) == str(folder / "1600000001")
    assert check(str(folder), iris).checks["answers"] == "passed"

    lift_timestamped_model(str(folder))
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["assets", "checkpoint", "fingerprint.pb", "saved_model.pb", "temp-1600000009", "variables"]
    assert check(str(folder), iris).checks["answers"] == "passed"
    lift_timestamped_model(str(folder))
    assert sorted(path.name for path in folder.iterdir()) == names


def test_several_timestamped_models_are_rejected(save: Callable[..., str], tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "several"
    for stamp in ("1600000001", "1600000002"):
        shutil.copytree(save(), folder / stamp)
    lift_timestamped_model(str(folder))
    assert sorted(path.name for path in folder.iterdir()) == ["1600000001", "1600000002"]
    with pytest.raises(
        ModelCheckError, match="contains several SavedModels, 1600000001, 1600000002, and only one can be published"
    ):
        check_saved_model(str(folder))


def test_a_package_that_cannot_be_imported_does_not_fail_a_model_that_loads_without_it(
    save: Callable[..., str], iris: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_ops.py").write_text("raise OSError('built for another TensorFlow')\n")
    monkeypatch.syspath_prepend(tmp_path)
    ops = {"ops": ["ParseExampleV2"], "files": []}
    report = check(save(), iris, op_packages={"broken_ops": ops, "ops_that_are_not_installed": ops})
    assert report.checks["answers"] == "passed"


def test_a_model_with_an_op_of_an_uninstalled_package_is_not_checked(save: Callable[..., str], iris: Any) -> None:
    graph = pathlib.Path(save(), "saved_model.pb")
    model = saved_model_pb2.SavedModel.FromString(graph.read_bytes())
    functions = model.meta_graphs[0].graph_def.library.function
    renamed = [node for function in functions for node in function.node_def if node.op == "ParseExampleV2"]
    for node in renamed:
        node.op = "ParseExampleElsewhere"
    model.meta_graphs[0].meta_info_def.stripped_op_list.op.add(name="ParseExampleElsewhere")
    graph.write_bytes(model.SerializeToString())
    assert renamed
    ops = {"ops": ["ParseExampleElsewhere"], "files": []}
    report = check(str(graph.parent), iris, op_packages={"ops_that_are_not_installed": ops})
    assert report.checks["loads"].startswith("could not be run: ops_that_are_not_installed cannot be imported:")
    line = unchecked_line(RunRecord(check={"checks": report.checks}))
    assert line.startswith("the model was not loaded: ops_that_are_not_installed cannot be imported:")
    with pytest.raises(ModelCheckError, match="ParseExampleElsewhere"):
        check(str(graph.parent), iris)


def test_an_input_is_found_by_the_feature_that_it_is_named_after(
    tmp_path: pathlib.Path,
) -> None:
    gain = tf.TensorSpec([None, 1], tf.float32, name="capital_gain")
    model = save_function(lambda capital_gain: {"y": capital_gain}, tmp_path / "model", gain)
    report = check_saved_model(model, [write_examples(tmp_path / "records", [{"capital-gain": 4.0}])])
    assert report.checks["answers"] == "passed"
    assert report.answer == {"y": [4.0]}


def test_this_process_does_not_load_the_model(save: Callable[..., str], iris: Any) -> None:
    check(save(), iris)
    assert "generic_trainer.executors.saved_models.probe" not in sys.modules


@pytest.mark.parametrize(
    ("part", "damage", "said"),
    [
        ("saved_model.pb", "empty", "'parses': saved_model.pb is empty (0 bytes)."),
        ("variables/variables.index", "missing", "'loads': variables/variables.index is missing"),
        ("variables/variables.index", "empty", "'loads': variables/variables.index is empty (0 bytes)"),
        ("variables/variables.data-00000-of-00001", "missing", "'loads': 1 of 1 files variables/variables.data-… are"),
        (
            "variables/variables.data-00000-of-00001",
            "empty",
            "'loads': variables/variables.data-00000-of-00001 is empty",
        ),
        ("assets/words.txt", "missing", "'loads': assets/words.txt is missing"),
    ],
)
def test_a_missing_or_empty_file_is_named(part: str, damage: str, said: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    model = Scale()
    model.words = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            str(tmp_path / "words.txt"),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        1,
    )
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.from_examples)
    file = tmp_path / "model" / part
    if damage == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()

    with pytest.raises(ModelCheckError) as caught:
        check_saved_model(str(tmp_path / "model"))

    assert said in str(caught.value)
    assert "Writing it was interrupted, for example by a full disk or a killed process" in str(caught.value)
