"""Scripts run unmodified; the SavedModels that they write are found, checked and published."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

KERAS = """
    import argparse, os, sys
    import numpy as np
    import tensorflow as tf
    from beside import UNITS

    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="append", default=[])
    arguments = parser.parse_args()
    assert __name__ == "__main__" and sys.modules["__main__"].UNITS == UNITS
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(UNITS)])
    model.compile("sgd", "mse")
    os.makedirs("elsewhere", exist_ok=True)
    os.chdir("elsewhere")
    model.fit(np.ones([8, 2]), np.ones([8, 1]), verbose=0)
    for folder in arguments.save:
        model.export(folder)
    sys.exit(0)
"""

ESTIMATOR = """
    from __future__ import absolute_import, division, print_function
    import numpy as np
    import tensorflow.compat.v1 as tf

    flags = tf.app.flags
    flags.DEFINE_integer("steps", 1, "")
    flags.DEFINE_string("export", "", "")

    def main(unused_argv):
        api = getattr(tf, "estimator")
        columns = [tf.feature_column.numeric_column("x")]
        model = api.LinearRegressor(columns, model_dir="run")
        data = {"x": np.ones([8], "float32")}
        repeated = api.inputs.numpy_input_fn(data, np.ones(8), shuffle=False, num_epochs=None)
        model.train(repeated, steps=flags.FLAGS.steps)
        model.evaluate(api.inputs.numpy_input_fn(data, np.ones(8), shuffle=False))
        parse = api.export.build_parsing_serving_input_receiver_fn(tf.feature_column.make_parse_example_spec(columns))
        model.export_saved_model(flags.FLAGS.export, parse)

    if __name__ == "__main__":
        tf.app.run(main)
"""

ARGUMENTS = """
    import argparse, sys
    import click
    import tensorflow.compat.v1 as tf

    tf.app.flags.DEFINE_integer("steps", 1, "")
    tf.logging.info("before the flags are parsed")
    read = [tf.app.flags.FLAGS.steps]  # parses sys.argv, unless the flags are parsed already
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    read += [parser.parse_args().steps, int(sys.argv[2])]
    command = click.command()(click.option("--steps", type=int)(lambda steps: steps))
    print(*read, command.main(standalone_mode=False))
"""

PACKAGE = {
    "__init__": "",
    "__main__": "from .task import read",
    "task": "import sys\nfrom . import model\nimport keras\nread = model.UNITS\nprint(__name__, read, *sys.argv[1:])",
    "model": "UNITS = 7",
    "keras": "raise ImportError('not in the path of python -m')",
}

TRAINING = """
    import numpy as np
    import tensorflow as tf

    def input_fn():
        raise KeyError("the training has begun")

    api = getattr(tf.compat.v1, "estimator")
    columns = [tf.feature_column.numeric_column("x")]
    parse = api.export.build_parsing_serving_input_receiver_fn(tf.feature_column.make_parse_example_spec(columns))
    model = api.LinearRegressor(columns, model_dir="run")
"""
EXPORTERS = "[getattr(api, 'FinalExporter')('last', parse)]"

BUILDER = """
    import tensorflow.compat.v1 as tf
    tf.disable_eager_execution()
    with tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], "x")
        y = x * tf.Variable(2.0)
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder("built")
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
"""


@pytest.fixture
def script(command: Command, tmp_path: pathlib.Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(text: str, *words: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "beside.py").write_text("UNITS = 1\n")
        (tmp_path / "trains.py").write_text(textwrap.dedent(text))
        return command("script", "trains.py", "--output", "out", *words, cwd=tmp_path)

    return run


def models(folder: pathlib.Path) -> list[str]:
    return sorted(str(found.parent.relative_to(folder)) for found in folder.rglob("saved_model.pb"))


@pytest.mark.thorough
@pytest.mark.slow
def test_the_last_of_the_models_is_the_runs_and_the_others_lie_beside_it(script: Any, tmp_path: pathlib.Path) -> None:
    done = script(KERAS, "--", "--save", "a", "--save", "b", "--save", "a")
    assert done.returncode == 0, done.stderr
    assert "Model:        out/model/Format-Serving" in done.stdout
    assert models(tmp_path / "out" / "model") == ["Format-Serving", "other_models/1-b"]
    assert models(tmp_path / "elsewhere") == ["a", "b"]
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["dialect"]["name"] == "script"
    assert record["metrics"]["train"]["loss"] >= 0
    assert (tmp_path / "out" / "model_run" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow_estimator") is None, reason="needs tensorflow-estimator")
def test_a_script_of_tensorflow_1_with_flags_and_an_estimator(script: Any, tmp_path: pathlib.Path) -> None:
    done = script(ESTIMATOR, "--", "--steps=3", "--export", "exported")
    assert done.returncode == 0, done.stderr
    assert models(tmp_path / "out" / "model") == ["Format-Serving"]
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["metrics"]["eval"]["average_loss"] >= 0
    assert record["keras"]["version"] == "2"


def test_every_way_to_read_arguments_gets_them(script: Any) -> None:
    done = script(ARGUMENTS, "--no-model", "--", "--steps", "7")
    assert done.returncode == 0, done.stderr
    assert "7 7 7 7" in done.stdout
    assert "Logging before flag parsing" not in done.stderr


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["-m", "trainer.task"], "__main__ 7 --steps 3"),
        pytest.param(["-m", "trainer"], "trainer.task 7 --steps 3", marks=pytest.mark.thorough),
    ],
)
def test_a_module_of_a_package_runs_as_after_python_m(
    command: Command, tmp_path: pathlib.Path, words: list[str], printed: str
) -> None:
    (tmp_path / "trainer").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / "trainer" / f"{name}.py").write_text(text)
    done = command("script", *words, "--no-model", "--output", "out", "--", "--steps", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow_estimator") is None, reason="needs tensorflow-estimator")
@pytest.mark.parametrize(
    ("call", "words", "is_warned"),
    [
        ("model.train(input_fn, steps=1)", [], True),
        (f"evaluate = api.EvalSpec(input_fn, exporters={EXPORTERS})", [], False),
        pytest.param("evaluate = api.EvalSpec(input_fn)", [], True, marks=pytest.mark.thorough),
        pytest.param("model.train(input_fn, steps=1)", ["--no-model"], False, marks=pytest.mark.thorough),
    ],
)
def test_an_estimator_that_nothing_exports_is_reported_before_the_training(
    script: Any, call: str, words: list[str], is_warned: bool
) -> None:
    train = "api.train_and_evaluate(model, api.TrainSpec(input_fn, max_steps=1), evaluate)"
    done = script("\n".join([textwrap.dedent(TRAINING), call, train]), *words)
    assert "the training has begun" in done.stderr
    assert ("nothing in its code exports a SavedModel" in done.stderr) == is_warned


@pytest.mark.thorough
@pytest.mark.slow
def test_a_model_of_a_builder_is_found(script: Any, tmp_path: pathlib.Path) -> None:
    done = script(BUILDER)
    assert done.returncode == 0, done.stderr
    assert models(tmp_path / "out" / "model") == ["Format-Serving"]


@pytest.mark.slow
def test_a_script_without_a_model_fails_unless_that_is_asked_for(script: Any, tmp_path: pathlib.Path) -> None:
    done = script(KERAS)
    assert done.returncode == 3
    assert "trains.py wrote no SavedModel. Export the model in the script" in done.stderr
    assert "--no-model" in done.stderr
    done = script(KERAS, "--no-model")
    assert done.returncode == 0, done.stderr
    assert "Model:        none: the script wrote none" in done.stdout
    assert "published" not in done.stdout
    assert not models(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())["status"] == "succeeded"


def test_the_scripts_own_error_and_exit_code_end_the_run(script: Any, tmp_path: pathlib.Path) -> None:
    done = script("raise KeyError('nowhere')  # not in train_files")
    assert done.returncode == 1
    assert "KeyError: 'nowhere'" in done.stderr
    assert "--train-files" not in done.stderr
    done = script("import tensorflow as tf\ntf.reshape([1, 2], [3])")
    assert "InvalidArgumentError: " in done.stderr.splitlines()[-1]
    assert "2 values, but the requested shape has 3 (trains.py:2)" in done.stderr.splitlines()[-1]
    done = script("import sys\nsys.exit(2)")
    assert done.returncode == 1
    assert "trains.py ended with sys.exit(2)" in done.stderr.splitlines()[-1]
    assert "(trains.py:2)" in done.stderr.splitlines()[-1]
    assert "executors/" not in done.stderr
    assert "runpy" not in done.stderr
    done = script("import tensorflow as tf\ntf.logging.set_verbosity('INFO')")
    assert "tf.logging is a name of TensorFlow 1" in done.stderr
    assert "oneDNN" not in done.stderr, "the command imports TensorFlow for a hint that the message has"


@pytest.mark.thorough
def test_train_names_the_command_for_scripts(command: Command, tmp_path: pathlib.Path, iris: Any) -> None:
    (tmp_path / "trains.py").write_text("if __name__ == '__main__':\n    print('trained')\n")
    done = command("train", "trains.py", "--train-files", iris.train, "--output", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "does not run here; `generic-trainer script` runs it" in done.stderr


@pytest.mark.thorough
@pytest.mark.slow
def test_a_pipeline_step_runs_a_script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors.training.run import train

    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("UNITS = 1\n")
    (tmp_path / "trains.py").write_text(textwrap.dedent(KERAS))
    fn_args = FnArgs(
        serving_model_dir=str(tmp_path / "model"),
        model_run_dir=str(tmp_path / "run"),
        custom_config={"script_args": ["--save", "exported"]},
    )
    record = train("trains.py", fn_args, TrainingOptions(dialect="script"))
    assert record.status == "succeeded"
    assert (tmp_path / "model" / "saved_model.pb").exists()
    fn_args.serving_model_dir = str(tmp_path / "none")
    fn_args.custom_config = {"script_args": [], "script_needs_model": False}
    assert train("trains.py", fn_args, TrainingOptions(dialect="script")).status == "succeeded"
    assert not (tmp_path / "none").exists()
    fn_args.custom_config = {"script_args": "--save exported"}
    with pytest.raises(ValueError, match="give the script's arguments as a list of strings"):
        train("trains.py", fn_args, TrainingOptions(dialect="script"))
