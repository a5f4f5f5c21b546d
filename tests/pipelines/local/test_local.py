"""Whole pipelines on real data with both runners, including the cache, the base model and errors."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import InputError, TrainingOptions
from generic_trainer.executors.modules.defined_names import defines
from generic_trainer.pipelines.history.diff import compare
from generic_trainer.pipelines.history.lineage import lineage_of_run
from generic_trainer.pipelines.history.metadata_store import connection_config
from generic_trainer.pipelines.history.metadata_url import display_url
from generic_trainer.pipelines.history.runs import find_run, find_runs
from generic_trainer.pipelines.local import LocalPipeline, run_pipeline

Command = Callable[..., subprocess.CompletedProcess[str]]
SEEDED = TrainingOptions(seed=1)
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def penguins(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Synthetic data in the penguin schema: three species with different, scattered measures, scaled to 0..1."""
    import numpy as np

    random = np.random.default_rng(0)
    centres = np.array([[0.3, 0.6, 0.25, 0.2], [0.65, 0.65, 0.35, 0.3], [0.55, 0.2, 0.75, 0.7]])
    names = ["culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g"]
    lines = [",".join(["species", *names])]
    for species in random.integers(0, 3, 600):
        values = np.clip(centres[species] + random.normal(0, 0.06, 4), 0, 1)
        lines.append(",".join([str(species), *(f"{value:.6f}" for value in values)]))
    folder = tmp_path_factory.mktemp("penguins")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    return folder


def example_module(name: str) -> str:
    from importlib.util import find_spec

    return str(pathlib.Path(find_spec("tfx").origin).parent / "examples" / name)


@dataclasses.dataclass(frozen=True)
class Demo:
    """The README's job, run once: its arguments, its output, its helper module and the pushed model."""

    arguments: list[object]
    done: subprocess.CompletedProcess[str]
    root: pathlib.Path
    helper: pathlib.Path
    temporary: pathlib.Path

    @property
    def pushed(self) -> pathlib.Path:
        return min((self.root / "serving").iterdir())


@pytest.fixture(scope="module")
def demo(command: Command, taxi_csv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Taxi data through the whole pipeline, with a module whose helper both Transform and Trainer must find."""
    folder, temporary = tmp_path_factory.mktemp("demo"), tmp_path_factory.mktemp("temporary")
    user_module, helper, root = folder / "taxi.py", folder / "helper.py", folder / "root"
    shutil.copy(REPOSITORY / "module_files" / "taxi_keras.py", folder / "model.py")
    user_module.write_text("from helper import preprocessing_fn, run_fn\n")
    helper.write_text("from model import preprocessing_fn, run_fn\n")
    arguments = ["run", "--data", taxi_csv, "--module-file", user_module, "--label", "big_tip", "--check"]
    arguments += ["--pipeline-root", root, "--train-steps", 500, "--eval-steps", 20, "--seed", 1]
    done = command(*arguments, new_python=True, env={**os.environ, "TMPDIR": str(temporary)})
    return Demo(arguments, done, root, helper, temporary)


@pytest.mark.slow
def test_the_demo(demo: Demo) -> None:
    """The README's job: taxi data to a pushed model with an AUC above 0.90."""
    import tensorflow as tf

    assert demo.done.returncode == 0, demo.done.stderr[-3000:]
    # Names created by Beam, and the folder for the byte code of AutoGraph's output.
    assert {file.name for file in demo.temporary.rglob("*")} <= {"beam-requirements-cache", "__pycache__"}
    assert re.search(r"The check passed in \d+ s: training takes about", demo.done.stderr)
    # The model takes raw examples: its check predicts for a real one, not for a transformed or a synthetic one.
    assert re.search(
        r"Prediction for the first raw eval example \(\S+/CsvExampleGen/\S+\): probability=", demo.done.stderr
    )
    metrics = _metrics(demo.done.stdout)
    assert metrics["auc"] > 0.90
    assert metrics["example_count"] > 4000
    [pushed] = (demo.root / "serving").iterdir()
    assert f"Pushed model: {pushed}" in demo.done.stdout
    assert set(tf.saved_model.load(str(pushed)).signatures) == {"serving_default", "transform_features"}


@pytest.mark.slow
@pytest.mark.thorough
def test_a_second_demo_run_uses_the_cache_until_a_helper_is_edited(command: Command, demo: Demo) -> None:
    pushed, root, metrics = demo.pushed, demo.root, _metrics(demo.done.stdout)
    second = command(*demo.arguments)
    cached = "CsvExampleGen, ExampleValidator, SchemaGen, StatisticsGen, Trainer, Transform"
    assert f"From the cache: {cached}" in second.stdout, second.stderr[-3000:]
    assert "The check passed" not in second.stderr  # the same module has already passed
    assert _metrics(second.stdout)["auc"] == metrics["auc"]
    assert f"Already pushed: {pushed}\n" in second.stdout  # the Evaluator had a baseline and gave a separate blessing
    demo.helper.write_text("# an edit\n" + demo.helper.read_text())
    [model] = (root / "Trainer" / "model").iterdir()
    third = command(*demo.arguments, "--warm-start", "--baseline-model", model)
    assert "From the cache: CsvExampleGen, ExampleValidator, SchemaGen, StatisticsGen\n" in third.stdout
    assert "auc_diff" in _metrics(third.stdout)
    runs = sorted((root / "Trainer" / "model_run").iterdir(), key=lambda run: int(run.name))
    base_model = json.loads((runs[-1] / "run.json").read_text())["arguments"]["base_model"]
    assert base_model == str(model / "Format-Serving")
    _require_history(root, pushed, model)


def _require_history(root: pathlib.Path, pushed: pathlib.Path, model: pathlib.Path) -> None:
    """The history lists the three runs, and the lineage shows the first run's model."""
    third, second, first = find_runs([str(root)])
    assert [run.status for run in (first, second, third)] == ["succeeded", "cached", "succeeded"]
    assert (first.model, second.model, first.pushed_model) == (str(model), str(model), str(pushed))
    assert second.pushed_model == first.pushed_model != third.pushed_model
    assert first.id == first.record.id != second.id
    assert find_run(str(pushed)) == first
    difference = compare(first, third)
    assert (difference.same_code, difference.files) == (False, {"helper.py": "changed"})
    assert difference.source.splitlines()[-3:] == [
        "@@ -1 +1,2 @@",
        "+# an edit",
        " from model import preprocessing_fn, run_fn",
    ]
    assert set(difference.arguments) == {"base_model"}
    assert difference.data == {}  # ExampleGen's come from the cache, and Transform's are the same
    lineage = lineage_of_run(first)
    uses = {(user.type, role) for role, user in lineage.successors(lineage.subject)}
    assert {
        ("Trainer", "base_model"),
        ("Evaluator", "model"),
        ("Evaluator", "baseline_model"),
        ("Pusher", "model"),
    } <= uses
    made = {(role, maker.type) for node in lineage.nodes for role, maker in lineage.predecessors(node.id)}
    assert {("model", "Trainer"), ("transform_graph", "Transform"), ("examples", "CsvExampleGen")} <= made


def _metrics(output: str) -> dict[str, float]:
    lines = output.partition("Eval metrics:\n")[2].splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


@pytest.mark.thorough
@pytest.mark.slow
def test_tfxs_penguin_module_unmodified_with_the_local_runner(penguins: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outcome = run_pipeline(
        LocalPipeline(
            data=str(penguins),
            module_file=example_module("penguin/penguin_utils_keras.py"),
            pipeline_root=str(tmp_path / "root"),
            runner="local",
            train_steps=100,
            eval_steps=5,
            label="species",
            task="multiclass",
            training=SEEDED,
        )
    )
    assert outcome.metrics["eval"]["sparse_categorical_accuracy"] > 0.9
    assert outcome.blessed
    assert pathlib.Path(str(outcome.pushed_model), "saved_model.pb").exists()
    assert outcome.cached == ()


@pytest.mark.thorough
@pytest.mark.slow
def test_tfxs_taxi_module_unmodified_with_its_own_label(taxi_csv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outcome = run_pipeline(
        LocalPipeline(
            data=str(taxi_csv),
            module_file=example_module("chicago_taxi_pipeline/taxi_utils_native_keras.py"),
            pipeline_root=str(tmp_path / "root"),
            train_steps=100,
            eval_steps=5,
            label="tips_xf",
            training=SEEDED,
        )
    )
    assert outcome.metrics["eval"]["auc"] > 0.7
    assert pathlib.Path(str(outcome.model), "Format-Serving", "saved_model.pb").exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_tfrecords_without_a_label_or_transform(iris: Any, tmp_path: pathlib.Path) -> None:
    outcome = run_pipeline(
        LocalPipeline(
            data=str(pathlib.Path(iris.schema).parent),
            module_file=str(REPOSITORY / "module_files" / "iris_keras.py"),
            pipeline_root=str(tmp_path / "root"),
            runner="local",
            schema=iris.schema,
            train_steps=400,
            custom_config={"learning_rate": 0.02},
            training=SEEDED,
        )
    )
    assert outcome.blessed is None
    assert outcome.metrics["eval"]["accuracy"] > 0.9  # logged by the module, since there is no Evaluator
    assert pathlib.Path(str(outcome.pushed_model), "saved_model.pb").exists()
    record = json.loads(pathlib.Path(str(outcome.model_run), "run.json").read_text())
    assert record["arguments"]["num_examples"] == iris.counts
    assert record["keras"]["version"] == "3"


@pytest.mark.thorough
@pytest.mark.slow
def test_examples_have_the_same_order_in_every_run(
    penguins: pathlib.Path, tiny_module: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apache_beam as beam
    import tensorflow as tf

    # So few that 600 examples share them, as a hundred thousand share the default number.
    monkeypatch.setattr(beam.Reshuffle, "_DEFAULT_NUM_BUCKETS", 64)

    def written(root: pathlib.Path, *beam_args: str) -> list[int]:
        check = TrainingOptions(seed=1, skip_checks=("answers",))
        run_pipeline(LocalPipeline(str(penguins), tiny_module, str(root), training=check, beam_args=beam_args))
        files = sorted(map(str, root.glob("CsvExampleGen/examples/*/Split-train/*")))
        return [_millionths(record) for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()]

    first = written(tmp_path / "first")
    assert len(first) > 300
    assert first == written(tmp_path / "second")
    with_reshuffle = written(tmp_path / "third", "--sdk_container_image=none")  # may have several workers
    assert first == with_reshuffle


def _millionths(record: bytes) -> int:
    import tensorflow as tf

    features = tf.train.Example.FromString(record).features.feature
    return round(features["culmen_length_mm"].float_list.value[0] * 10**6)


@pytest.mark.thorough
@pytest.mark.slow
def test_the_modules_exception_propagates_unchanged_from_beam(
    command: Command, module: Callable[..., str], penguins: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = module("def run_fn(fn_args):\n    raise ZeroDivisionError('mine')\n")
    done = command("run", "--data", penguins, "--module-file", path, "--pipeline-root", tmp_path / "root", "--no-check")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"generic-trainer: failed: ZeroDivisionError: mine ({path}:2)"
    assert "--no-check skipped the check, which determines the examples" in done.stderr
    assert f'File "{path}", line 2, in run_fn' in done.stderr
    assert not (tmp_path / "root" / "serving").exists()
    # The same root accepts the fixed module; the finished steps come from the cache.
    pathlib.Path(path).write_text("def run_fn(fn_args):\n    pass\n")
    done = command("run", "--data", penguins, "--module-file", path, "--pipeline-root", tmp_path / "root")
    assert done.returncode == 3
    assert "run_fn wrote no model" in done.stderr.splitlines()[-1]


# Errors before anything runs


def refused(text: str, module_file: str, **options: Any) -> None:
    with pytest.raises(InputError, match=text):
        run_pipeline(LocalPipeline(module_file=module_file, **options))


def test_missing_data(tiny_module: str, tmp_path: pathlib.Path) -> None:
    root = str(tmp_path / "root")
    refused("--data /nowhere does not exist", tiny_module, data="/nowhere", pipeline_root=root)
    (tmp_path / "empty").mkdir()
    refused("contains no CSV file", tiny_module, data=str(tmp_path / "empty"), pipeline_root=root)
    assert not (tmp_path / "root").exists()


def test_a_root_belongs_to_one_pipeline(tiny_module: str, penguins: pathlib.Path, tmp_path: pathlib.Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "generic_trainer_pipeline.json").write_text('{"pipeline_name": "other"}')
    refused("belongs to the pipeline 'other'", tiny_module, data=str(penguins), pipeline_root=str(root))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    refused("is not empty", tiny_module, data=str(penguins), pipeline_root=str(tmp_path / "mine"))
    refused(r"cannot write there \(Not a directory\)", tiny_module, data=str(penguins), pipeline_root="/dev/null/x")


def test_schema_and_eval_config_are_checked_first(
    tiny_module: str, penguins: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = {"data": str(penguins), "pipeline_root": str(tmp_path / "root")}
    (tmp_path / "schema.pbtxt").write_text("columns: 3")
    refused("is not a Schema", tiny_module, schema=str(tmp_path / "schema.pbtxt"), **options)
    (tmp_path / "eval.json").write_text('{"metric_specs": []}')
    refused("is not a tfma.EvalConfig", tiny_module, eval_config=str(tmp_path / "eval.json"), **options)
    refused("--eval-config /nowhere.json does not exist", tiny_module, eval_config="/nowhere.json", **options)


def test_metadata_by_url() -> None:
    mysql = connection_config("mysql://user:p%40ss@db.example:3307/mlmd").mysql
    assert (mysql.host, mysql.port, mysql.database, mysql.user, mysql.password) == (
        *("db.example", 3307, "mlmd", "user", "p@ss"),
    )
    assert connection_config("mysql://db.example/mlmd").mysql.port == 3306
    assert connection_config("/data/x.sqlite").sqlite.filename_uri == "/data/x.sqlite"
    with pytest.raises(InputError, match=r"--metadata postgres://u:\*\*\*@h/d: expected a file path, or mysql://"):
        connection_config("postgres://u:secret@h/d")
    assert display_url("mysql://user:p%40ss@db.example:3307/mlmd") == "mysql://db.example:3307/mlmd"


def test_a_modules_definitions_are_read_without_running_it(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "m.py"
    for source in ("def f(): pass", "from a import f", "from a import b as f", "f = 1", "class f: pass"):
        file.write_text(f"raise RuntimeError\n{source}\n")
        assert defines(str(file), "f")
    for source in ("def g():\n  def f(): pass", "g = 1", "def f(:"):
        file.write_text(source)
        assert not defines(str(file), "f")
