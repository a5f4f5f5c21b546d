"""Pipelines whose `preprocessing_fn` and `tuner_fn` are in other files than `run_fn`."""

from __future__ import annotations

import json
import pathlib
import subprocess
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from generic_trainer import InputError, ModuleError
from generic_trainer.pipelines.local import LocalPipeline, create_pipeline

Command = Callable[..., subprocess.CompletedProcess[str]]

# A project as TFX users lay it out and start from its root: each step's file imports from there.
NAMES = 'FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")\nLABEL = "variety"\n'
PREPROCESSING = """
import tensorflow_transform as tft

from steps import names


def preprocessing_fn(inputs, custom_config):
    outputs = {f"{name}_{custom_config['suffix']}": tft.scale_to_z_score(inputs[name]) for name in names.FEATURES}
    return {**outputs, names.LABEL: inputs[names.LABEL]}


def stats_options_updater_fn(stats_type, stats_options):
    stats_options.num_top_values = 3
    return stats_options
"""
MODEL = """
import tensorflow as tf
import tensorflow_transform as tft

from steps import names


def examples(pattern, graph):
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    records = tf.data.TFRecordDataset(files, compression_type="GZIP").batch(20)
    spec = graph.transformed_feature_spec()

    def parsed(batch):
        features = tf.io.parse_example(batch, spec)
        return features, features.pop(names.LABEL)

    return records.map(parsed).repeat()


def build(units):
    inputs = {f"{name}_xf": tf.keras.Input((1,), name=f"{name}_xf") for name in names.FEATURES}
    hidden = tf.keras.layers.Dense(units, "relu")(tf.keras.layers.concatenate(list(inputs.values())))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(3, "softmax")(hidden))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def run_fn(fn_args):
    graph = tft.TFTransformOutput(fn_args.transform_output)
    model = build(fn_args.hyperparameters["values"]["units"])
    model.fit(examples(fn_args.train_files, graph), steps_per_epoch=fn_args.train_steps)
    model.transform_layer = graph.transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(serialized):
        spec = {name: value for name, value in graph.raw_feature_spec().items() if name != names.LABEL}
        return {"outputs": model(model.transform_layer(tf.io.parse_example(serialized, spec)))}

    model.save(fn_args.serving_model_dir, save_format="tf", signatures={"serving_default": serve})
"""
SEARCH = """
import keras_tuner
import tensorflow_transform as tft

from generic_trainer import TunerFnResult
from trainer import model


def build(values):
    return model.build(values.Choice("units", [5], default=5))


def tuner_fn(fn_args):
    tuner = keras_tuner.RandomSearch(build, "loss", max_trials=1, directory=fn_args.working_dir)
    data = model.examples(fn_args.train_files, tft.TFTransformOutput(fn_args.transform_graph_path))
    return TunerFnResult(tuner, {"x": data, "steps_per_epoch": fn_args.train_steps})
"""
CONFIG = """
data: ../data
module-file: trainer/model.py
tuner-module: search/kt.py
label: variety
train-steps: 5
custom-config: {suffix: xf}
"""


@pytest.fixture
def project(iris_csv: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    files = {
        "steps/names.py": NAMES,
        "steps/preprocessing.py": PREPROCESSING,
        "trainer/model.py": MODEL,
        "search/kt.py": SEARCH,
        "pipeline.yaml": CONFIG,
    }
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "data").symlink_to(iris_csv)
    return tmp_path / "project"


@pytest.fixture
def nodes(project: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Returns a pipeline's steps by name, built from the project's root and not run."""
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project))

    def build(**options: Any) -> dict[str, Any]:
        values = {"data": str(tmp_path / "data"), "module_file": "trainer/model.py", "name": "iris", **options}
        pipeline = create_pipeline(LocalPipeline(pipeline_root=str(tmp_path / "root"), **values))
        return {node.id: node for node in pipeline.components}

    return build


@pytest.mark.thorough
@pytest.mark.slow
def test_a_project_of_three_files_runs_from_its_root(command: Command, project: pathlib.Path) -> None:
    pytest.importorskip("keras_tuner")
    root = project / "root"
    done = command(
        "run", "--check", "--config", "pipeline.yaml", "--pipeline-root", root, "--allow-trivial", cwd=project
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr.count("Transform uses steps/preprocessing.py: trainer/model.py reads Transform's output") == 1
    assert "To use another file, pass --transform-module" in done.stderr
    [run] = (root / "Trainer" / "model_run").glob("[0-9]*")
    record = json.loads((run / "run.json").read_text())
    assert record["arguments"]["hyperparameters"]["values"]["units"] == 5
    assert sorted(path.name for path in (run / "source").rglob("*.py")) == ["model.py", "names.py"]
    [pushed] = (root / "serving").iterdir()
    assert (pushed / "saved_model.pb").exists()

    # The post-transform statistics were made with the options of the transform module.
    import tensorflow_data_validation as tfdv

    [stats] = (root / "Transform" / "post_transform_stats").rglob("FeatureStats.pb")
    features = tfdv.load_stats_binary(str(stats)).datasets[0].features
    assert {feature.path.step[0] for feature in features} >= {"sepal_length_xf", "variety"}

    # An edit to the transform module alone runs Transform again, and nothing before it.
    path = project / "steps" / "preprocessing.py"
    path.write_text(path.read_text().replace("scale_to_z_score", "scale_to_0_1"))
    again = command("run", "--config", "pipeline.yaml", "--pipeline-root", root, "--no-check", "--no-push", cwd=project)
    assert again.returncode == 0, again.stderr[-4000:]
    cached = again.stdout.partition("From the cache: ")[2].splitlines()[0]
    assert "SchemaGen" in cached
    assert "Transform" not in cached


@pytest.mark.thorough
def test_check_tries_each_file_and_names_them(command: Command, project: pathlib.Path) -> None:
    done = command("check", "trainer/model.py", "--config", "pipeline.yaml", cwd=project)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Transform uses steps/preprocessing.py" in done.stdout
    assert "defaults of the search: units=5" in done.stdout


def test_check_places_a_fault_of_the_transform_module(command: Command, project: pathlib.Path) -> None:
    path = project / "steps" / "preprocessing.py"
    path.write_text(path.read_text().replace("inputs, custom_config", "inputs, mode"))
    done = command(
        *["check", "trainer/model.py", "--data", "../data", "--transform-module", "steps/preprocessing.py"], cwd=project
    )
    assert done.returncode == 2
    assert "preprocessing_fn(inputs, mode) cannot be called with the required arguments" in done.stdout
    assert "steps/preprocessing.py" in done.stdout


@pytest.mark.thorough
def test_a_failing_trial_says_that_transforms_module_is_missing(command: Command, project: pathlib.Path) -> None:
    (project / "steps" / "preprocessing_2.py").write_text(PREPROCESSING)
    done = command("check", "trainer/model.py", "--data", "../data", "--custom-config", "{}", cwd=project)
    assert done.returncode == 1
    assert "steps/preprocessing.py, steps/preprocessing_2.py define one" in done.stdout
    assert "--transform-module FILE" in done.stdout


def test_each_step_gets_its_own_module(nodes: Callable[..., Any]) -> None:
    built = nodes(tuner_module="search/kt.py")
    properties = {name: built[name].exec_properties for name in ("Transform", "Tuner", "Trainer")}
    assert properties["Transform"]["preprocessing_fn"] == "steps/preprocessing.py"
    assert properties["Tuner"]["module_file"] == "search/kt.py"
    assert properties["Trainer"]["module_file"] == "trainer/model.py"
    assert len({one["module_fingerprint"] for one in properties.values()}) == 3


def test_transform_computes_statistics_only_for_a_module_with_options_for_them(
    nodes: Callable[..., Any], project: pathlib.Path
) -> None:
    assert not nodes()["Transform"].exec_properties["disable_statistics"]
    path = project / "steps" / "preprocessing.py"
    path.write_text(path.read_text().partition("\n\n\ndef stats_options_updater_fn")[0] + "\n")
    assert nodes()["Transform"].exec_properties["disable_statistics"]


def test_a_dotted_name_serves_as_well(nodes: Callable[..., Any]) -> None:
    built = nodes(module_file="trainer.model", transform_module="steps.preprocessing")
    assert built["Transform"].exec_properties["preprocessing_fn"] == "steps.preprocessing"
    assert nodes(module_file="trainer.model")["Transform"].exec_properties["preprocessing_fn"] == "steps.preprocessing"


def test_a_module_that_needs_hyperparameters_gets_the_tuner_of_the_file_that_can_be_meant(
    nodes: Callable[..., Any], project: pathlib.Path
) -> None:
    assert nodes()["Tuner"].exec_properties["module_file"] == "search/kt.py"
    assert "Tuner" not in nodes(tune=False)
    for name in ("search", "other"):
        (project / "trainer" / f"{name}.py").write_text(SEARCH)
    assert "Tuner" not in nodes()
    with pytest.raises(
        InputError, match=r"trainer/other\.py and trainer/search\.py define it; select one with --tuner-module"
    ):
        nodes(tune=True)
    with pytest.raises(ModuleError, match=r"--tuner-module steps/names.py: there is no tuner_fn"):
        nodes(tuner_module="steps/names.py")


def test_compiled_pipelines_carry_an_archive_of_each_module(
    project: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kfp")
    from generic_trainer.pipelines.kubeflow import KubeflowPipeline, compile_pipeline

    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project))
    code = tmp_path / "code"
    compiled = compile_pipeline(
        KubeflowPipeline(
            data="gs://bucket/iris",
            data_format="csv",
            module_file="trainer/model.py",
            tuner_module="search/kt.py",
            pipeline_root="gs://bucket/pipelines",
            image="registry/trainer:1",
        )
    )
    assert any(note.startswith("Transform uses steps/preprocessing.py") for note in compiled.notes)
    references = {archive.module: archive.upload(str(code)) for archive in compiled.archives}
    assert set(references) == {"trainer.model", "steps.preprocessing", "search.kt"}
    text = yaml.safe_dump(compiled.spec)
    for archive in compiled.archives:
        assert archive.reference("gs://bucket/pipelines/code") in text
    names = zipfile.ZipFile(references["search.kt"].partition("@")[2]).namelist()
    assert names == ["search/kt.py", "steps/names.py", "trainer/model.py"]


def test_a_submitted_run_carries_them_too(command: Command, project: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = command(
        *["submit", "--to", "kuberay", "--image", "registry/trainer:1", "--output", "-", "--volume", "claim:/nas"],
        *["--volume", f"code:{tmp_path}/code", "--code-root", f"{tmp_path}/code"],
        *["run", "--data", "/nas/iris", "--pipeline-root", "/nas/root", "--module-file", "trainer/model.py"],
        *["--tuner-module", "search/kt.py", "--engine", "ray"],
        cwd=project,
    )
    assert done.returncode == 0, done.stderr
    assert f"--module-file=trainer.model@{tmp_path}/code/model-" in done.stdout
    assert f"--transform-module=steps.preprocessing@{tmp_path}/code/preprocessing-" in done.stdout
    assert f"--tuner-module=search.kt@{tmp_path}/code/kt-" in done.stdout
