"""The Tuner component: TFX's interface, and real KerasTuner searches in subprocesses."""

from __future__ import annotations

import inspect
import json
import pathlib
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tfx import types
from tfx.orchestration import data_types
from tfx.proto import trainer_pb2, tuner_pb2
from tfx.types import standard_artifacts, standard_component_specs

from generic_trainer import FnArgs, InputError, ModuleError, TrainingProcessError, Tuner, TunerFnResult
from generic_trainer.components.tuner import TunerExecutor, TunerSpec
from generic_trainer.executors.tuning.search import defaults_of_search

from ..world.records import example, write_records

pytest.importorskip("keras_tuner")

EXAMPLES = types.Channel(type=standard_artifacts.Examples)
# A search that trains nothing: the score is (x - 3)^2. `helper` is in the module's folder.
SQUARES = """
    import os
    import random
    import keras_tuner
    from generic_trainer import TunerFnResult
    import helper

    class Squares(keras_tuner.RandomSearch):
        def run_trial(self, trial, shift):
            x = trial.hyperparameters.Float("x", 0.0, 6.0)
            helper.look(trial, x)
            with open(os.environ["TRIED"], "a") as file:
                file.write(f"{trial.trial_id} {random.random()}\\n")
            return (x - shift) ** 2

    def tuner_fn(fn_args):
        tuner = Squares(objective=keras_tuner.Objective("score", "min"), max_trials=4, directory=fn_args.working_dir,
                        project_name="squares")
        return TunerFnResult(tuner, {"shift": 3.0})
"""


@pytest.fixture
def tried(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The file in which trials record that they ran."""
    monkeypatch.setenv("TRIED", str(tmp_path / "tried"))
    return tmp_path / "tried"


@pytest.fixture
def search(iris: Any, tmp_path: pathlib.Path) -> Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Runs the executor as the step's next execution; returns the best hyperparameters and the trials."""
    examples = standard_artifacts.Examples()
    examples.uri = str(pathlib.Path(iris.schema).parent)
    examples.split_names = '["train", "eval"]'
    executions = iter(range(1, 10))

    def run(module_file: str, **properties: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        number = next(executions)
        outputs = {"best_hyperparameters": standard_artifacts.HyperParameters()}
        outputs["tuner_results"] = standard_artifacts.TunerResults()
        for key, artifact in outputs.items():
            artifact.uri = str(tmp_path / "Tuner" / key / str(number))
            pathlib.Path(artifact.uri).mkdir(parents=True)
        given = {"module_file": module_file, **properties}
        TunerExecutor().Do({"examples": [examples]}, {key: [one] for key, one in outputs.items()}, given)
        [best], [results] = (list(pathlib.Path(one.uri).iterdir()) for one in outputs.values())
        assert (best.name, results.name) == ("best_hyperparameters.txt", "tuner_results.json")
        assert json.loads(outputs["best_hyperparameters"].get_string_custom_property("values"))
        run.bad_records = outputs["tuner_results"].get_int_custom_property("bad_records")  # type: ignore[attr-defined]
        return json.loads(best.read_text()), json.loads(results.read_text())

    return run


def test_arguments_inputs_outputs_and_properties_are_those_of_tfx(module: Callable[..., str]) -> None:
    from tfx.components import Tuner as TfxTuner

    ours, theirs = (list(inspect.signature(cls.__init__).parameters.values())[1:] for cls in (Tuner, TfxTuner))
    assert [one.name for one in ours if one.kind is one.POSITIONAL_OR_KEYWORD] == [one.name for one in theirs]
    spec = standard_component_specs.TunerSpec
    for mine, tfxs in ((TunerSpec.INPUTS, spec.INPUTS), (TunerSpec.OUTPUTS, spec.OUTPUTS)):
        assert [{key: (one.type, one.optional) for key, one in part.items()} for part in (mine, tfxs)] == [
            {key: (one.type, one.optional) for key, one in tfxs.items()}
        ] * 2
    for name, parameter in spec.PARAMETERS.items():
        assert (TunerSpec.PARAMETERS[name].type, TunerSpec.PARAMETERS[name].optional) == (
            parameter.type,
            parameter.optional,
        ), name
    arguments: dict[str, Any] = {
        "examples": EXAMPLES,
        "module_file": module(SQUARES, helper=""),
        "train_args": trainer_pb2.TrainArgs(splits=["a"], num_steps=7),
        "custom_config": {"x": 1},
    }
    ours, theirs = Tuner(**arguments, seed=4, keras="3"), TfxTuner(**arguments)
    expected = {key: value for key, value in theirs.exec_properties.items() if value is not None}
    assert ours.exec_properties.items() >= {**expected, "seed": 4, "keras": "3"}.items()
    assert len(ours.exec_properties["module_fingerprint"]) == 64
    assert {key: one.type for key, one in ours.outputs.items()} == {key: c.type for key, c in theirs.outputs.items()}
    assert ours.id == theirs.id == "Tuner"
    assert not getattr(ours, "_pip_dependencies", None)  # no pip dependencies are built


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({}, ValueError, "Exactly one of 'module_file' or 'tuner_fn'"),
        ({"module_file": "m.py", "tuner_fn": "a.b.c"}, ValueError, "Exactly one of 'module_file' or 'tuner_fn'"),
        ({"module_file": "/nowhere.py"}, ModuleError, "/nowhere.py does not exist"),
        ({"tuner_fn": "a.b", "keras": "4"}, InputError, "keras='4': choose from auto, 2, 3"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Tuner(examples=EXAMPLES, **arguments)


def test_parallel_trials_are_rejected_when_the_step_runs_and_not_before() -> None:
    tuner = Tuner(examples=EXAMPLES, tuner_fn="a.b", tune_args=tuner_pb2.TuneArgs(num_parallel_trials=2))
    with pytest.raises(InputError, match="num_parallel_trials=2: this Tuner runs trials one after the other"):
        TunerExecutor().Do({}, {}, tuner.exec_properties)


def test_parameters_of_a_pipeline_pass_through() -> None:
    steps = data_types.RuntimeParameter(name="train_steps", ptype=int)
    assert Tuner(examples=EXAMPLES, tuner_fn="a.b", train_steps=steps).exec_properties["train_steps"] is steps


def test_each_trial_is_logged_and_a_seed_makes_it_reproducible(
    search: Any, module: Callable[..., str], tried: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = module(SQUARES, helper="def look(trial, x): pass\n")
    best, trials = search(path, seed=7)
    said = "".join(capfd.readouterr())
    assert len(trials) == 4
    assert trials[0]["score"] == min(trial["score"] for trial in trials) == (trials[0]["x"] - 3) ** 2
    assert best["values"] == {"x": trials[0]["x"]}
    lines = [line[line.index("Trial ") :] for line in said.splitlines() if "Trial " in line]
    by_number = sorted(trials, key=lambda trial: trial["trial_id"])
    so_far = [min(trial["score"] for trial in by_number[: number + 1]) for number in range(4)]
    assert lines == [
        f"Trial {number + 1} of 4 (x={trial['x']:.5g}): score {trial['score']:.5g}, best so far {so_far[number]:.5g}"
        for number, trial in enumerate(by_number)
    ]
    assert not re.search(r"Search: Running|Best Value So Far|Total elapsed", said)
    # Each trial starts from the seed; the hyperparameters are the same as well.
    assert len({line.split()[1] for line in tried.read_text().splitlines()}) == 1
    assert search(path, seed=7)[1] == trials
    assert search(path, seed=8)[1] != trials


@pytest.mark.thorough
@pytest.mark.parametrize(("tuner_class", "own"), [("Hyperband", {"max_epochs": 9}), ("RandomSearch", {})])
def test_the_defaults_of_a_search_have_the_names_of_its_best_trial(
    tmp_path: pathlib.Path, tuner_class: str, own: dict[str, Any]
) -> None:
    import keras_tuner

    class Longest(getattr(keras_tuner, tuner_class)):  # type: ignore[misc]
        """The trials with most epochs are the best; nothing is trained."""

        def run_trial(self, trial: Any, **_: object) -> float:
            return float(trial.hyperparameters.values.get("tuner/epochs", 0))

    def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
        hp = keras_tuner.HyperParameters()
        hp.Float("x", 0.0, 6.0, default=2.0)
        objective = keras_tuner.Objective("score", "max")
        return TunerFnResult(
            Longest(lambda hp: None, objective, hyperparameters=hp, directory=fn_args.working_dir, **own), {}
        )

    module = ModuleType("searches")
    module.tuner_fn = tuner_fn  # type: ignore[attr-defined]
    fn_args = FnArgs(working_dir=str(tmp_path))
    values = defaults_of_search(module, None, fn_args)["values"]
    assert not list(tmp_path.rglob("*.json"))
    assert values["x"] == 2.0
    tuner = tuner_fn(fn_args).tuner
    tuner.search(verbose=0)
    assert values.keys() == tuner.get_best_hyperparameters()[0].values.keys()


def test_a_failed_trial_is_reported_and_skipped(
    search: Any, module: Callable[..., str], tried: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    helper = "def look(trial, x):\n    if trial.trial_id == '1': raise RuntimeError('out of luck')\n"
    _, trials = search(module(SQUARES, helper=helper), seed=7)
    assert sorted(trial["trial_id"] for trial in trials) == ["0", "2", "3"]
    said = "".join(capfd.readouterr())
    assert re.search(r"Trial 2 of 4 \(x=[\d.]+\): failed: RuntimeError: out of luck", said)


@pytest.mark.thorough
def test_if_all_trials_fail_the_first_error_is_reported_and_a_retry_starts_over(
    search: Any, module: Callable[..., str], tried: pathlib.Path
) -> None:
    helper = "def look(trial, x): raise RuntimeError('out of luck')\n"
    path = module(SQUARES.replace("max_trials=4", "max_trials=2"), helper=helper)
    for _ in range(2):
        with pytest.raises(TrainingProcessError, match=r"None of the 2 trials completed(?s:.*)out of luck"):
            search(path)
    assert not tried.exists()


@pytest.mark.thorough
def test_bad_records_are_skipped_and_counted(
    search: Any, module: Callable[..., str], tried: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    write_records(tmp_path / "damaged", [example(), b"\xff\xff", b"\xff"])
    reading = f"""
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions

    def tuner_fn(fn_args):
        read = fn_args.data_accessor.record_batch_factory
        batches = read(["{tmp_path}/damaged"], RecordBatchesOptions(8, num_epochs=1))
        assert sum(batch.num_rows for batch in batches) == 1
        return search(fn_args)
"""
    path = module(SQUARES.replace("def tuner_fn", "def search") + reading, helper="def look(trial, x):\n    pass\n")
    with pytest.raises(InputError, match="skip:1 skips at most 1"):
        search(path, on_bad_records="skip:1")
    search(path, on_bad_records="skip:2")
    assert search.bad_records == 2


@pytest.mark.thorough
def test_a_killed_search_resumes(search: Any, module: Callable[..., str], tried: pathlib.Path) -> None:
    # The third trial kills the process on its first attempt.
    helper = """
        import os, signal
        def look(trial, x):
            if trial.trial_id == "2" and not os.path.exists(os.environ["TRIED"] + ".killed"):
                open(os.environ["TRIED"] + ".killed", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
    """
    path = module(SQUARES, helper=helper)
    with pytest.raises(TrainingProcessError, match="The tuner process was ended by SIGKILL"):
        search(path, seed=7)
    _, trials = search(path, seed=7)
    assert [line.split()[0] for line in tried.read_text().splitlines()] == ["0", "1", "2", "3"]
    assert len(trials) == 4
    assert not list(tried.parent.glob("Tuner/*/.checkpoints"))
    assert search(path, seed=7)[1] == trials  # the same as an uninterrupted search


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def tune_fn(fn_args): pass\n", r"has no function tuner_fn\(fn_args\).*Did you mean 'tune_fn'"),
        ("def tuner_fn(fn_args): return 3\n", r"tuner_fn returned int \(3\). It must return TunerFnResult"),
        (
            """
            import logging
            def tuner_fn(fn_args):
                try:
                    return fn_args.custom_config["epochs"]
                except Exception as error:
                    logging.error("tuner_fn failed: %s", error)
            """,
            r"returned NoneType \(None\); it logged an error: tuner_fn failed: 'NoneType' object is not subscriptable",
        ),
    ],
)
def test_a_module_without_a_tuner(search: Any, module: Callable[..., str], source: str, said: str) -> None:
    with pytest.raises(ModuleError, match=said):
        search(module(source))


def test_an_error_of_the_module_keeps_its_type(search: Any, module: Callable[..., str]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        search(module("def tuner_fn(fn_args): 1 / 0\n"))
    assert "user_code/trainer_module.py" in raised.value.__notes__[0]


@pytest.mark.thorough_but("3")
@pytest.mark.slow
@pytest.mark.parametrize("version", ["2", "3"])
def test_models_of_either_keras(
    version: str, search: Any, module: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tf_keras" if version == "2" else "keras")
    source = """
        import keras_tuner
        import tensorflow as tf
        from generic_trainer import TunerFnResult

        def build(hp):
            model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(hp.Choice("units", [1, 2]))])
            model.compile("sgd", "mse")
            return model

        def tuner_fn(fn_args):
            assert tf.keras.Model.__module__.startswith(fn_args.custom_config["keras"])
            tuner = keras_tuner.GridSearch(build, objective="val_loss", directory=fn_args.working_dir)
            data = tf.data.Dataset.from_tensors((tf.ones([8, 1]), tf.ones([8, 1])))
            return TunerFnResult(tuner, {"x": data, "validation_data": data, "steps_per_epoch": fn_args.train_steps})
    """
    steps = {"train_args": '{"num_steps": 9}', "train_steps": 1}
    config = json.dumps({"keras": "tf_keras." if version == "2" else "keras."})
    best, trials = search(module(source), keras=version, custom_config=config, **steps)
    assert sorted(trial["units"] for trial in trials) == [1, 2]
    assert best["values"]["units"] in (1, 2)
    said = "".join(capfd.readouterr())
    assert said.count(": val_loss ") == 2
    assert "ms/step" not in said  # no log lines from the individual fits
