"""A pipeline with a search for hyper-parameters, or with given ones."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, InputError, TrainingOptions
from generic_trainer.executors.preflight.check import check
from generic_trainer.executors.preflight.request import CheckRequest
from generic_trainer.pipelines.local import LocalPipeline, create_pipeline

pytest.importorskip("keras_tuner")

Command = Callable[..., subprocess.CompletedProcess[str]]
MODULES = pathlib.Path(__file__).resolve().parents[3] / "module_files"
TUNER_MODULE = "def tuner_fn(fn_args): pass\ndef run_fn(fn_args): pass\n"


@pytest.fixture
def nodes(iris_csv: pathlib.Path, module: Callable[..., str], tmp_path: pathlib.Path) -> Callable[..., dict[str, Any]]:
    """Returns a pipeline's steps by name, built and not run."""
    path = module(TUNER_MODULE)

    def build(module_file: str = path, **options: Any) -> dict[str, Any]:
        values = {"data": str(iris_csv), "pipeline_root": str(tmp_path / "root"), "name": "iris", **options}
        return {node.id: node for node in create_pipeline(LocalPipeline(module_file=module_file, **values)).components}

    return build


@pytest.mark.thorough
@pytest.mark.slow
def test_the_best_hyperparameters_reach_the_trainer_then_the_cache_then_given_ones(
    command: Command, iris_csv: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "root"
    arguments = ["run", "--data", iris_csv, "--module-file", MODULES / "iris_tuner.py", "--label", "variety"]
    arguments += ["--pipeline-root", root, "--train-steps", 100, "--seed", 1, "--custom-config", '{"trials": 3}']
    first = command(*arguments)
    assert first.returncode == 0, first.stderr[-3000:]
    [best] = root.glob("Tuner/best_hyperparameters/*/best_hyperparameters.txt")
    [results] = root.glob("Tuner/tuner_results/*/tuner_results.json")
    trials = json.loads(results.read_text())
    assert len(trials) == 3
    assert [line.split()[1:5] for line in first.stderr.splitlines() if " Trial " in line] == [
        ["Trial", str(number), "of", "3"] for number in (1, 2, 3)
    ]
    wanted = json.loads(best.read_text())
    assert wanted["values"] == {name: trials[0][name] for name in ("learning_rate", "units")}
    assert given_to_newest(root) == wanted
    [report] = root.glob("Trainer/model_run/*/report.html")
    assert "val_accuracy by trial" in report.read_text()
    assert shown(first.stdout) == [
        f"  learning_rate  {wanted['values']['learning_rate']:.5g}",
        f"  units          {wanted['values']['units']}",
    ]
    second = command(*arguments)
    assert "Trainer, Tuner\n" in second.stdout.partition("From the cache: ")[2], second.stderr[-3000:]
    assert shown(second.stdout) == shown(first.stdout)

    wanted["values"] = {"learning_rate": 0.03, "units": 4}
    (tmp_path / "mine.json").write_text(json.dumps(wanted))
    third = command(*arguments, "--hyperparameters", tmp_path / "mine.json")
    assert "node Tuner" not in third.stderr
    assert given_to_newest(root) == wanted, third.stderr[-3000:]
    assert shown(third.stdout) == ["  learning_rate  0.03", "  units          4"]


def given_to_newest(root: pathlib.Path) -> dict[str, Any]:
    """Returns what hyper-parameters the newest training was given."""
    newest = max((root / "Trainer" / "model_run").glob("[0-9]*"), key=lambda run: int(run.name))
    given: dict[str, Any] = json.loads((newest / "run.json").read_text())["arguments"]["hyperparameters"]
    return given


def shown(output: str) -> list[str]:
    return output.partition("Hyperparameters:\n")[2].partition("Eval metrics:")[0].splitlines()


def test_the_tuner_has_the_trainers_inputs_and_options(nodes: Any) -> None:
    options = TrainingOptions(seed=3, keras="3", timeout=5)
    built = nodes(train_steps=40, eval_steps=4, custom_config={"a": 1}, training=options)
    tuner, trainer = built["Tuner"], built["Trainer"]
    for name in ("module_file", "module_fingerprint", "train_args", "eval_args", "custom_config", "seed", "keras"):
        assert tuner.exec_properties[name] == trainer.exec_properties[name], name
    assert "timeout" not in tuner.exec_properties  # it is the training's
    assert list(built).index("Tuner") < list(built).index("Trainer")
    assert tuner.inputs["examples"] is trainer.inputs["examples"]
    assert trainer.inputs["hyperparameters"] is tuner.outputs["best_hyperparameters"]
    assert nodes(train_steps=40, tune_steps=7)["Tuner"].exec_properties["train_args"].count("7") == 1


def test_when_there_is_a_search(nodes: Any, tiny_module: str, tmp_path: pathlib.Path) -> None:
    assert "Tuner" not in nodes(tune=False)
    assert "Tuner" not in nodes(tiny_module)
    path = tmp_path / "mine.json"
    path.write_text('{"space": [], "values": {"units": 4}}')
    given = nodes(hyperparameters=str(path))
    assert "Tuner" not in given
    assert given["Trainer"].inputs["hyperparameters"] is given["hyperparameters"].outputs["result"]


def test_an_edit_of_given_hyperparameters_makes_another_artifact(nodes: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.json"
    fingerprints = []
    for text in ('{"a": 1, "b": 2}', '{"b": 2,  "a": 1}', '{"a": 1, "b": 3}'):
        path.write_text(text)
        output = nodes(hyperparameters=str(path))["hyperparameters"].outputs["result"]
        fingerprints.append(output.additional_custom_properties["fingerprint"])
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tune": True, "module_file": "tiny"}, r"--tune: .*tiny.py defines no tuner_fn\(fn_args\)"),
        ({"tune": True, "hyperparameters": "x.json"}, "--tune and --hyperparameters are mutually exclusive"),
        ({"tune": False, "tune_steps": 5}, "--tune-steps 5: .*it is turned off"),
        ({"tune_steps": 5, "module_file": "tiny"}, r"--tune-steps 5: .*tiny.py defines no tuner_fn"),
        ({"hyperparameters": "/nowhere.json"}, "--hyperparameters /nowhere.json does not exist"),
        ({"hyperparameters": "[1]"}, "must hold a JSON object, not a list"),
        ({"hyperparameters": "{"}, "is not JSON"),
    ],
)
def test_what_is_refused_before_anything_runs(
    options: dict[str, Any], said: str, nodes: Any, tiny_module: str, tmp_path: pathlib.Path
) -> None:
    if options.get("hyperparameters") in ("[1]", "{"):
        (tmp_path / "broken.json").write_text(options["hyperparameters"])
        options = {"hyperparameters": str(tmp_path / "broken.json")}
    if "module_file" in options:
        options = {**options, "module_file": tiny_module}
    with pytest.raises(InputError, match=said):
        nodes(**options)
    assert not (tmp_path / "root").exists()


@pytest.mark.thorough
def test_the_check_before_a_search_tries_its_defaults(module: Callable[..., str], tiny_module: str, iris: Any) -> None:
    """The module cannot do without hyper-parameters, and keeps its model for a number of units that only they have."""
    tuner_fn = """
        import keras_tuner
        from generic_trainer import TunerFnResult

        def tuner_fn(fn_args):
            hp = keras_tuner.HyperParameters()
            hp.Choice("units", [4, 8], default=8)
            objective = keras_tuner.Objective("score", "min")
            tuner = keras_tuner.RandomSearch(
                lambda hp: None, objective, 2, hyperparameters=hp, directory=fn_args.working_dir
            )
            return TunerFnResult(tuner, {})

        def run_fn(fn_args):
            import tiny
            assert fn_args.hyperparameters["values"]["units"] == 8
            tiny.run_fn(fn_args)
    """
    path = module(tuner_fn)  # beside tiny.py
    request = CheckRequest(path, FnArgs(train_files=[iris.train], eval_files=[iris.eval]), tunes=True)
    report = check(request)
    assert report.passed, report.to_json()
    assert report.get("hyperparameters").text == "defaults of the search: units=8"
    without = check(
        dataclasses.replace(request, fn_args=FnArgs(train_files=[iris.train], eval_files=[iris.eval]), tunes=False)
    )
    assert not without.passed


def test_on_kubeflow_steps_are_parameters_of_the_search_too(tmp_path: pathlib.Path, module: Callable[..., str]) -> None:
    pytest.importorskip("kfp")
    from generic_trainer.pipelines.kubeflow import KubeflowPipeline, compile_pipeline

    remote = {"data": "gs://bucket/iris", "data_format": "csv", "pipeline_root": "gs://bucket/p", "image": "registry/i"}
    remote["module_file"] = module(TUNER_MODULE)
    spec = compile_pipeline(KubeflowPipeline(**remote)).spec
    tuner = spec["root"]["dag"]["tasks"]["Tuner"]["inputs"]["parameters"]
    assert tuner["train_steps"] == {"componentInputParameter": "train_steps"}
    assert tuner["custom_config"] == {"componentInputParameter": "custom_config"}
    assert tuner["module_file"]["runtimeValue"]["constant"].startswith("trainer_module@gs://bucket/p/code/")
    given = spec["root"]["dag"]["tasks"]["Trainer"]["inputs"]["artifacts"]["hyperparameters"]
    assert given == {"taskOutputArtifact": {"outputArtifactKey": "best_hyperparameters", "producerTask": "Tuner"}}
    spec = compile_pipeline(KubeflowPipeline(**remote, tune_steps=9)).spec
    assert spec["root"]["dag"]["tasks"]["Tuner"]["inputs"]["parameters"]["train_steps"]["runtimeValue"] == {
        "constant": 9
    }

    spec = compile_pipeline(KubeflowPipeline(**remote, hyperparameters="gs://bucket/best.json")).spec
    importer = spec["deploymentSpec"]["executors"]["hyperparameters_executor"]["importer"]
    assert importer["artifactUri"] == {"constant": "gs://bucket/best.json"}
    assert "Tuner" not in spec["root"]["dag"]["tasks"]
    with pytest.raises(InputError, match=r"--hyperparameters best.json: on this machine only"):
        compile_pipeline(KubeflowPipeline(**remote, hyperparameters="best.json"))
