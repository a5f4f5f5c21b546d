"""A check passes for working modules, estimates the cost of a run, and leaves no files."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from generic_trainer import FnArgs, InputError, TrainingOptions
from generic_trainer.executors.inputs import synthetic_examples
from generic_trainer.executors.preflight import raw_csv, sample, stamp
from generic_trainer.executors.preflight.check import check
from generic_trainer.executors.preflight.events import EventReader, timeout_verdict
from generic_trainer.executors.preflight.example_facts import contradictions, facts_of
from generic_trainer.executors.preflight.request import CheckRequest
from generic_trainer.executors.preflight.verdicts import NOT_REACHED, PASSED, WARNING, Report, Verdict
from generic_trainer.executors.runtime.files.schema import read_schema

from ...world import records
from ...world.data import iris_csv

MODULES = pathlib.Path(__file__).resolve().parents[3] / "module_files"
NO_FILES: dict[str, Any] = {"train_files": [], "eval_files": []}
SCHEMA_OF_CLICKS = "".join(
    f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: 1 }} shape {{ dim {{ size: 1 }} }} }}\n'
    for name, kind in (("user", "BYTES"), ("ad", "BYTES"), ("position", "FLOAT"), ("clicked", "INT"))
)


def require_all(report: Report) -> None:
    """Asserts that every item was reached and none failed."""
    assert report.passed, report.to_json()
    assert [one.item for one in report.verdicts if one.status == NOT_REACHED] == []
    assert report.exit_code == 0


@pytest.mark.thorough_cases(
    "ctr_dlrover-None-None",
    "digits_workers-digits-600",
    "digits_model_fn-digits-600",
    "linear_dlrover-None-None",
    "digits_custom_loop-digits-600",
    "digits_elasticdl-digits-None",
)
@pytest.mark.parametrize(
    ("name", "data", "steps"),
    [
        ("iris_keras", "iris", 300),
        ("iris_estimator", "iris", 300),
        ("digits_custom_loop", "digits", 600),
        ("digits_workers", "digits", 600),
        ("digits_model_fn", "digits", 600),
        ("digits_elasticdl", "digits", None),
        ("linear_dlrover", None, None),
        pytest.param("ctr_dlrover", None, None, marks=pytest.mark.slow),
    ],
)
def test_the_example_modules_pass(
    name: str, data: str | None, steps: int | None, request: pytest.FixtureRequest, tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    examples = request.getfixturevalue(data) if data else None
    files = {"train_files": [examples.train], "eval_files": [examples.eval]} if examples else NO_FILES
    report = check(CheckRequest(str(MODULES / f"{name}.py"), FnArgs(**files, train_steps=steps, seed=1), limit=300))
    require_all(report)
    assert [*work.iterdir(), *scratch.iterdir()] == []
    estimate = report.get("estimate").details
    # `steps` if given, else the conf's, or the batches of 64 in one pass over 1,500 examples.
    conf = {"linear_dlrover": 300, "ctr_dlrover": 600, "digits_elasticdl": 24}
    assert estimate["steps"] == (steps or conf[name])
    assert 0 < estimate["seconds_per_step"] < 10
    assert 1e8 < estimate["memory"] < 1e10
    assert report.get("training").details["steps"] <= 10
    assert report.get("SavedModel").details["signatures"]


@pytest.mark.parametrize("label", [None, "species"])
def test_a_model_that_is_no_savedmodel_passes_unless_it_is_to_be_evaluated(
    label: str | None, tmp_path: pathlib.Path
) -> None:
    path, module = tmp_path / "iris.csv", tmp_path / "forest.py"
    path.write_text(iris_csv())
    module.write_text(
        "import pathlib\n\ndef run_fn(fn_args):\n"
        "    folder = pathlib.Path(fn_args.serving_model_dir)\n    folder.mkdir(parents=True)\n"
        "    (folder / 'model.pkl').write_bytes(b'forest')\n"
    )
    fn_args = FnArgs(train_files=[str(path)], eval_files=[str(path)])
    report = check(CheckRequest(str(module), fn_args, TrainingOptions(skip_checks=("parses",)), label=label or ""))
    assert report.exit_code == (3 if label else 0), report.to_json()
    if label:
        assert "no SavedModel, which the evaluation needs" in report.get("evaluation plan").text
    assert not report.get("training").text.endswith(".")  # a remedy follows


def test_an_elasticdl_file_on_a_csv_passes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "iris.csv"
    path.write_text(iris_csv("a,b,c,d,variety"))
    config = {"data_reader_params": "columns=['a', 'b', 'c', 'd', 'variety']", "checkpoint_dir": str(tmp_path / "kept")}
    fn_args = FnArgs(train_files=[str(path)], eval_files=[str(path)], custom_config=config)
    report = check(CheckRequest(str(MODULES / "iris_elasticdl.py"), fn_args))
    require_all(report)
    assert "150 train" in report.get("examples").text
    assert not (tmp_path / "kept").exists()
    assert fn_args.custom_config["checkpoint_dir"]  # the caller's arguments are unchanged


@pytest.mark.thorough
def test_examples_are_synthesized_from_a_schema(tmp_path: pathlib.Path) -> None:
    (tmp_path / "schema.pbtxt").write_text(SCHEMA_OF_CLICKS)
    fn_args = FnArgs(**NO_FILES, schema_path=str(tmp_path / "schema.pbtxt"), train_steps=100)
    report = check(CheckRequest(str(MODULES / "ctr_adaptor.py"), fn_args))
    require_all(report)
    assert report.get("examples").status == WARNING
    assert "256 synthetic examples generated from" in report.get("examples").text
    assert "no real ones" in report.get("examples").text


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["taxi_keras", "taxi_estimator"])
def test_raw_data_are_transformed(name: str, taxi_csv: pathlib.Path) -> None:
    fn_args = FnArgs(**NO_FILES, train_steps=1000)
    report = check(CheckRequest(str(MODULES / f"{name}.py"), fn_args, data=str(taxi_csv), label="big_tip"))
    require_all(report)
    assert "18 features" in report.get("data").text
    assert report.get("transform").status == "passed"
    assert "label big_tip: 0, 1" in report.get("examples").text
    assert report.get("estimate").details["steps"] == 1000


@pytest.mark.slow
@pytest.mark.parametrize("disable", ["disable_eager_execution", "disable_v2_behavior"])
def test_raw_data_are_transformed_in_graph_mode(disable: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "iris.csv").write_text(iris_csv())
    (tmp_path / "iris.py").write_text(
        f"import tensorflow as tf\nimport tensorflow_transform as tft\n\ntf.compat.v1.{disable}()\n\n"
        "def preprocessing_fn(inputs):\n"
        "    length, variety = inputs['sepal_length'], tf.strings.as_string(inputs['variety'])\n"
        "    return {'scaled': tft.scale_to_z_score(length), 'index': tft.compute_and_apply_vocabulary(variety)}\n\n"
        "def run_fn(fn_args):\n    pass\n"
    )
    report = check(CheckRequest(str(tmp_path / "iris.py"), FnArgs(**NO_FILES), data=str(tmp_path / "data")))
    transformed = report.get("transform")
    assert (transformed.status, transformed.text.partition(": ")[2]) == (PASSED, "index, scaled"), report.to_json()


HAND_MADE = """
    import os, time
    import tensorflow as tf

    class Model(tf.Module):
        def __init__(self):
            self.weight = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, examples):
            return {{"y": self.weight + tf.cast(tf.strings.length(examples), tf.float32)}}

    def run_fn(fn_args):
        model = Model()
        {body}
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""
CUSTOM_LOOP = """
        from generic_trainer import report_progress

        {before}
        for step in range(fn_args.train_steps):
            with tf.GradientTape() as tape:
                loss = (model.weight - 1.0) ** 2
            model.weight.assign_sub(0.1 * tape.gradient(loss, model.weight))
            report_progress(step + 1, metrics={{"loss": loss}})
"""


@pytest.mark.parametrize("before", ["report_progress(0)", "pass"])
def test_the_reported_steps_of_a_custom_loop_are_counted(before: str, iris: Any, module: Callable[..., str]) -> None:
    path = module(HAND_MADE.format(body=CUSTOM_LOOP.format(before=before).strip()))
    report = check(CheckRequest(path, FnArgs(train_files=[iris.train], eval_files=[], train_steps=5000)))
    require_all(report)
    assert report.get("training").details["steps"] == 10
    assert report.get("training").details["losses"][0] == 1.0
    assert report.get("estimate").details["steps"] == 5000


def test_a_nan_loss_of_a_custom_loop_fails(iris: Any, module: Callable[..., str]) -> None:
    body = CUSTOM_LOOP.format(before="model.weight.assign(float('nan'))").strip()
    report = check(CheckRequest(module(HAND_MADE.format(body=body)), FnArgs(train_files=[iris.train], eval_files=[])))
    assert report.first_failure.item == "training"
    assert "nan at step 1" in report.first_failure.text


def test_a_custom_loop_without_reports_gets_a_warning(iris: Any, module: Callable[..., str]) -> None:
    body = "for step in range(3): model.weight.assign_add(1.0)"
    report = check(CheckRequest(module(HAND_MADE.format(body=body)), FnArgs(train_files=[iris.train], eval_files=[])))
    assert report.passed
    assert report.get("training").status == WARNING
    assert report.get("training").remedy.startswith("A custom loop reports its steps with report_progress(step).")


KERAS = """
    import tensorflow as tf

    def run_fn(fn_args):
        model = tf.keras.Sequential([tf.keras.layers.Input([1]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=16)
        data = tf.data.Dataset.from_tensors((tf.ones([8, 1]), tf.ones([8, 1]))).repeat()
        assert fn_args.train_steps == 3200  # a module may compute epochs from it
        for _ in range(2):
            steps = {"steps_per_epoch": 800, "validation_steps": 10_000_000}
            model.fit(data, epochs=fn_args.train_steps // 1600, validation_data=data, verbose=0, **steps)
        assert model.evaluate(data, steps=10_000_000, verbose=0) >= 0
        serve = tf.function(model.call, input_signature=[tf.TensorSpec([None, 1])])
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=serve)
"""


def test_every_fit_is_cut_short_whatever_steps_per_execution_is(iris: Any, module: Callable[..., str]) -> None:
    path = module(KERAS)
    report = check(CheckRequest(path, FnArgs(train_files=[iris.train], eval_files=[], train_steps=3200)))
    require_all(report)
    assert report.get("training").details["steps"] == (2 + 1) * 16  # two calls are enough to measure the time per step
    assert report.get("evaluation").status == "passed"


def test_a_long_training_is_ended_and_its_observations_are_reported(iris: Any, module: Callable[..., str]) -> None:
    path = module(HAND_MADE.format(body="time.sleep(1000)"))
    report = check(CheckRequest(path, FnArgs(train_files=[iris.train], eval_files=[]), limit=2))
    assert report.passed  # the check has no evidence of a fault
    verdict = report.get("model")
    assert verdict.status == WARNING
    assert "stopped after 2 s (--limit): no training step was observed" in verdict.text
    assert [report.get(item).status for item in ("export", "SavedModel", "estimate")] == [NOT_REACHED] * 3


def test_a_stop_between_two_items_is_reported_for_the_second_one(tmp_path: pathlib.Path) -> None:
    ended = [Verdict(item, PASSED, "") for item in ("module", "load", "dialect", "signatures", "data", "transform")]
    report = Report("a.py", ended)
    assert Report.from_json(report.to_json()) == report
    events = EventReader([str(tmp_path)])
    events.stage = "data"  # it reads the prepared data
    verdict = timeout_verdict(events, report, 2)
    assert (verdict.item, verdict.status) == ("examples", WARNING)


def test_a_killed_process_is_reported_with_the_items_that_passed(iris: Any, module: Callable[..., str]) -> None:
    path = module(HAND_MADE.format(body="os.kill(os.getpid(), 9)"))
    report = check(CheckRequest(path, FnArgs(train_files=[iris.train], eval_files=[])))
    assert report.first_failure.item == "training"
    assert "SIGKILL" in report.first_failure.text
    assert report.exit_code == 1
    assert report.get("signatures").status == "passed"


def test_a_module_may_still_set_its_threads(iris: Any, module: Callable[..., str]) -> None:
    """The check reads examples without TensorFlow's runtime, which can be configured only once."""
    first = "tf.config.threading.set_inter_op_parallelism_threads(2)\n        model = Model()"
    path = module(HAND_MADE.format(body="pass").replace("model = Model()", first))
    report = check(CheckRequest(path, FnArgs(train_files=[iris.train], eval_files=[iris.eval])))
    require_all(report)
    assert report.get("training").status == WARNING  # this module has none


# Samples


def write_records(path: pathlib.Path, count: int, size: int) -> None:
    records.write_records(path, (number.to_bytes(4, "big") + os.urandom(size) for number in range(count)))


def test_small_data_are_used_whole_and_large_data_are_sampled_from_several_files(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    write_records(tmp_path / "small" / "a.gz", 30, 10)
    small = sample.take([f"{tmp_path}/small/*"], str(tmp_path / "copy-small"))
    assert (small.count, small.whole, small.estimated_records) == (30, True, 30)
    assert len(os.listdir(tmp_path / "copy-small")) == 1

    for number in range(6):  # 5 MB in total
        write_records(tmp_path / "large" / f"{number}.gz", 850, 1000)
    large = sample.take([f"{tmp_path}/large/*"], str(tmp_path / "copy-large"))
    assert (large.count, large.whole) == (4 * 512, False)
    assert large.estimated_records == pytest.approx(6 * 850, rel=0.02)
    files = sorted(map(str, (tmp_path / "copy-large").iterdir()))
    assert all(file.endswith(".gz") for file in files)
    assert len(list(tf.data.TFRecordDataset(files, "GZIP"))) >= 8192  # links fill large batches


def test_a_csv_is_cut_between_rows_with_its_header(tmp_path: pathlib.Path) -> None:
    rows = [f'{number},"a text\nover {"x" * 10_000} two lines"' for number in range(600)]
    (tmp_path / "data.csv").write_text("\n".join(["id,text", *rows]) + "\n")
    taken = sample.take([str(tmp_path / "data.csv")], str(tmp_path / "copy"))
    assert not taken.whole
    text = next((tmp_path / "copy").iterdir()).read_text()
    assert text.startswith("id,text\n0,")
    assert text.count('"') % 2 == 0
    assert text.endswith('two lines"\n')


def test_the_only_line_of_a_csv_may_be_a_record(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_text("1.0,2.0,0\n")
    assert sample.take([str(tmp_path / "data.csv")], str(tmp_path / "copy")).count == 1


def test_parquet_stays_parquet(tmp_path: pathlib.Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), tmp_path / "data.parquet")
    taken = sample.take([str(tmp_path / "data.parquet")], str(tmp_path / "copy"))
    assert taken.records == [{"x": 1.0, "y": 0}, {"x": 2.0, "y": 1}]
    assert pq.read_table(next((tmp_path / "copy").iterdir())).column_names == ["x", "y"]
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + b"0" * 100)
    with pytest.raises(InputError, match=r"broken\.parquet: not a Parquet file, or damaged"):
        sample.take([str(tmp_path / "broken.parquet")], str(tmp_path / "other"))


def test_a_sample_has_the_form_of_the_data(tmp_path: pathlib.Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_text("id,text\n" + "1,x\n" * 2_000_000)
    data = str(tmp_path / "data")
    files = sample.take([f"{data}/b.csv", f"{data}/a.csv"], str(tmp_path / "files"))
    assert [os.path.basename(path) for path in files.patterns] == ["0000-b.csv", "0001-a.csv"]
    assert all(pathlib.Path(path).read_text().count("\n") == 4096 for path in files.patterns)
    assert sample.take([data], str(tmp_path / "folder")).patterns == [str(tmp_path / "folder")]
    assert sample.take([f"{data}/*"], str(tmp_path / "pattern")).patterns == [str(tmp_path / "pattern" / "*")]


@pytest.mark.parametrize(
    ("names", "content", "expected"),
    [
        (["cat/1.png", "dog/1.png"], b"\x89PNG\r\n", False),
        (["1.png"], b"\x89PNG\r\n\x1a\n", False),
        (["data.npz"], b"PK\x03\x04\0\0", False),
        (["weights.bin"], b"\0\0\0\0", False),
        (["data.json"], b"\x89PNG\r\n\x1a\n", False),
        (["part-0"], b"a,b\n1,2\n", True),
        (["a.txt"], "a\tb\n".encode("utf-16"), True),  # no text, which its reader says
        (["part-0.tfrecord"], b"\0\0", True),  # damaged, which its reader says
        (["part-0.parquet"], b"PAR1", True),
    ],
)
def test_what_may_hold_records(names: list[str], content: bytes, expected: bool, tmp_path: pathlib.Path) -> None:
    for name in names:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(content)
    assert sample.holds_records([str(tmp_path / "data")]) is expected
    assert sample.holds_records([str(tmp_path / "data" / "*")]) is (expected or "/" in names[0])


IMAGES = """
import keras


def run_fn(fn_args):
    train, test = (
        keras.utils.image_dataset_from_directory(folder, image_size=(8, 8), batch_size=4)
        for (folder,) in (fn_args.train_files, fn_args.eval_files)
    )
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(train, validation_data=test)
    model.export(fn_args.serving_model_dir)
"""
TABLE = """
import keras
import numpy as np


def run_fn(fn_args):
    with open(fn_args.train_files[0], encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(table[:, :1], table[:, 1], validation_split=0.5)
    model.export(fn_args.serving_model_dir)
"""


@pytest.mark.parametrize("kind", ["images by class", "a file"])
def test_a_module_that_reads_other_data_itself_gets_them_in_their_form(kind: str, tmp_path: pathlib.Path) -> None:
    import keras
    import numpy as np

    for split in ("train", "eval"):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            keras.utils.save_img(tmp_path / split / name / "1.png", np.zeros((8, 8, 3)))
    (tmp_path / "table.csv").write_text("x,y\n1,2\n2,4\n3,6\n4,8\n")
    (tmp_path / "m.py").write_text(IMAGES if kind == "images by class" else TABLE)
    data = [tmp_path / "train", tmp_path / "eval"] if kind == "images by class" else [tmp_path / "table.csv"]
    train, test = map(str, data * (2 // len(data)))
    report = check(CheckRequest(str(tmp_path / "m.py"), FnArgs(train_files=[train], eval_files=[test])))
    require_all(report)
    assert (report.get("examples").text.endswith("the module reads them itself")) is (kind == "images by class")


@pytest.mark.parametrize("form", ["table.csv", "*.csv", ""])
def test_an_error_names_the_data_as_they_were_given(form: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.csv").write_text("x,y\n1,2\n")
    (tmp_path / "m.py").write_text("def run_fn(fn_args): raise OSError(f'cannot read {fn_args.train_files[0]}')")
    given = os.path.join(tmp_path, "data", form)
    report = check(CheckRequest(str(tmp_path / "m.py"), FnArgs(train_files=[given], eval_files=[])))
    assert report.first_failure is not None
    assert report.first_failure.text == f"OSError: cannot read {given}"


def test_truncated_gzipped_text(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.txt.gz").write_bytes(gzip.compress(os.urandom(1000).hex().encode())[:-20])
    with pytest.raises(InputError, match=r"data\.txt\.gz is a truncated or damaged gzip file"):
        sample.take([str(tmp_path / "data.txt.gz")], str(tmp_path / "copy"))


SCHEMA = """
feature { name: "word" type: BYTES domain: "words" shape { dim { size: 2 } } }
feature { name: "size" type: FLOAT float_domain { min: 3 max: 4 } shape { } }
feature { name: "count" type: INT int_domain { min: 5 max: 7 } value_count { min: 1 max: 4 } }
feature { name: "rare" type: INT presence { min_fraction: 0.1 } }
string_domain { name: "words" value: "yes" value: "no" }
"""


def test_synthetic_examples_follow_the_schema_and_differ(tmp_path: pathlib.Path) -> None:
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    schema = read_schema(str(tmp_path / "schema.pbtxt"))
    records = synthetic_examples.generate(schema, 100)
    assert records == synthetic_examples.generate(schema, 100)
    facts = facts_of(records)
    assert facts["word"].values == {b"yes", b"no"}
    assert (facts["word"].least, facts["word"].most) == (2, 2)
    assert 3 <= facts["size"].lowest < facts["size"].highest <= 4
    assert facts["count"].values == {5, 6, 7}
    assert 1 <= facts["count"].least < facts["count"].most <= 4
    assert facts["rare"].examples < 100
    assert contradictions(facts, schema) == ([], [])


@pytest.mark.parametrize("bounds", ["int_domain { max: -3 }", "int_domain { min: 7 }", "float_domain { min: -inf }"])
def test_synthetic_numbers_of_an_open_domain(bounds: str) -> None:
    kind = bounds[: bounds.index("_")].upper()
    schema = text_format.Parse(f'feature {{ name: "x" type: {kind} {bounds} }}', schema_pb2.Schema())
    facts = facts_of(synthetic_examples.generate(schema, 50, missing=0))
    assert contradictions(facts, schema) == ([], [])
    assert math.isfinite(facts["x"].highest)


def test_schema_violations_are_distinguished_from_oddities(tmp_path: pathlib.Path) -> None:
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    schema = read_schema(str(tmp_path / "schema.pbtxt"))
    facts = facts_of(synthetic_examples.generate(schema, 50))
    facts["size"].kind, facts["word"].values, facts["count"].highest = "INT", {b"perhaps"}, 9
    schema.feature.add(name="sise", type=schema.feature[1].type).presence.min_fraction = 1
    wrong, odd = contradictions(facts, schema)
    assert wrong == ["feature 'size' is INT in the examples and FLOAT in the schema"]
    assert [part for part in ("b'perhaps'", "5 to 9", "Did you mean 'size'?") if part not in " ".join(odd)] == []


def test_a_stamp_is_valid_until_module_data_or_options_change(tmp_path: pathlib.Path) -> None:
    module, data = tmp_path / "module.py", tmp_path / "data"
    module.write_text("def run_fn(fn_args):\n    pass\n")
    data.mkdir()
    (data / "a.csv").write_text("x\n1\n")
    request = CheckRequest(str(module), FnArgs(**NO_FILES), data=str(data))
    digest = stamp.fingerprint(request, str(tmp_path))
    assert stamp.findings(str(tmp_path), digest) is None
    stamp.note(str(tmp_path), digest, {"name": "a"})
    assert stamp.findings(str(tmp_path), stamp.fingerprint(request, str(tmp_path))) == {"name": "a"}
    assert stamp.findings(str(tmp_path), "another") is None
    others = [dataclasses.replace(request, label="x"), dataclasses.replace(request, options=TrainingOptions(seed=2))]
    assert len({stamp.fingerprint(one, str(tmp_path)) for one in (request, *others)}) == 3
    os.utime(data / "a.csv")
    assert stamp.fingerprint(dataclasses.replace(request, data=f"{data}/."), str(tmp_path)) == digest
    (data / "b.csv").write_text("x\n2\n")
    assert stamp.fingerprint(request, str(tmp_path)) != digest
    (data / "b.csv").unlink()
    module.write_text("def run_fn(fn_args):\n    return None\n")
    assert stamp.fingerprint(request, str(tmp_path)) != digest


def test_a_report_round_trips_through_json(tmp_path: pathlib.Path) -> None:
    report = check(CheckRequest(str(tmp_path / "none.py"), FnArgs(**NO_FILES)))
    state = json.loads(json.dumps(report.to_json()))
    assert Report.from_json(state).to_json() == state
    assert state["exit_code"] == 2
    assert state["verdicts"][0]["item"] == "module"


def test_csv_columns_are_typed_by_all_rows_and_show_their_missing_values(tmp_path: pathlib.Path) -> None:
    rows = [f"{number},{number},,word" for number in range(3000)]
    rows[2000] = "0,0.5,7,"  # a fraction, the first value of a column, and a missing value in another
    (tmp_path / "data.csv").write_text("\n".join(["whole,number,rare,text", *rows]) + "\n")
    records, total, warnings = raw_csv.csv_examples([str(tmp_path / "data.csv")])
    facts = facts_of(records)
    assert (len(records), total) == (601, 3000)
    assert {name: fact.kind for name, fact in facts.items()} == {
        "whole": "INT", "number": "FLOAT", "rare": "INT", "text": "BYTES",
    }  # fmt: skip
    assert warnings == []
    assert facts["rare"].examples == 1
    assert facts["text"].examples == 600


def test_a_gzipped_csv_file_that_its_name_does_not_announce(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(InputError, match=r"data\.csv is gzipped, which CsvExampleGen does not support\. Unpack it"):
        raw_csv.csv_examples([str(tmp_path / "data.csv")])


def test_a_text_in_a_csv_column_of_numbers_is_reported_with_its_line(tmp_path: pathlib.Path) -> None:
    rows = [f"{number},{'ab'[number % 2]}{number % 7},{number}" for number in range(600)]
    rows[500], rows[550] = "old,a1,1", "n/a,b1,"
    (tmp_path / "data.csv").write_text("\n".join(["age,code,size", *rows]) + "\n")
    records, _, warnings = raw_csv.csv_examples([str(tmp_path / "data.csv")])
    assert facts_of(records)["age"].kind == "BYTES"
    [warning] = warnings
    assert warning.startswith(
        f"{tmp_path}/data.csv, line 502 (and 1 more): the column 'age' is 'old', but 598 of its 600 "
    )
