"""Modules that hold a bare Estimator: `model_fn` with input functions or with none, an instance, a subclass."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.evaluation import evaluated_examples
from generic_trainer.executors.evaluation.error_analysis import read_error_analysis
from generic_trainer.executors.modules.keras_version import choose

from ....world.data import iris_csv

pytestmark = pytest.mark.legacy

Command = Callable[..., subprocess.CompletedProcess[str]]

MODEL_FN = """
    import tensorflow as tf

    NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")

    def model_fn(features, labels, mode, params):
        assert params["units"] == 16, params
        inputs = tf.concat([tf.reshape(features[name], [-1, 1]) for name in NAMES], axis=1)
        hidden = tf.compat.v1.layers.dense(inputs, params["units"], activation=tf.nn.relu, name="hidden")
        logits = tf.compat.v1.layers.dense(hidden, 3, name="logits")
        predictions = {"classes": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions)
        labels = tf.reshape(labels, [-1])
        loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
        optimizer = tf.compat.v1.train.AdamOptimizer(params["learning_rate"])
        return tf.estimator.EstimatorSpec(
            mode, predictions, loss, optimizer.minimize(loss, tf.compat.v1.train.get_global_step()),
            {"accuracy": tf.compat.v1.metrics.accuracy(labels, predictions["classes"])},
        )
"""
ALL_PARTS = """
    params = {"units": 16, "learning_rate": 1.0, "batch_size": 20}
    eval_steps = 1
    throttle_secs = 0

    SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in NAMES}

    def input_fn(file_pattern, batch_size, mode):
        def parse(records):
            parsed = tf.io.parse_example(records, {**SPEC, "variety": tf.io.FixedLenFeature([1], tf.int64)})
            return parsed, parsed.pop("variety")
        data = tf.data.TFRecordDataset(tf.io.gfile.glob(file_pattern), "GZIP").batch(batch_size).map(parse)
        return data.repeat() if mode == tf.estimator.ModeKeys.TRAIN else data

    def run_config(fn_args):
        return tf.estimator.RunConfig(save_checkpoints_steps=100, keep_checkpoint_max=2)

    def serving_input_receiver_fn():
        return tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)()

    def exporters(serving_input_receiver_fn):
        return [
            tf.estimator.BestExporter("best", serving_input_receiver_fn, exports_to_keep=1),
            tf.estimator.FinalExporter("final", serving_input_receiver_fn),
        ]

    class CountSteps(tf.compat.v1.train.SessionRunHook):
        def end(self, session):
            print("last step", session.run(tf.compat.v1.train.get_global_step()), flush=True)

    hooks = [CountSteps()]
"""


@pytest.fixture
def train(command: Command, iris: Any, tmp_path: pathlib.Path) -> Command:
    def run(module: str, output: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path / output]
        return command("train", module, *data, "--seed", 1, *arguments)

    return run


def record(output: pathlib.Path) -> dict[str, Any]:
    return json.loads((output / "model_run" / "run.json").read_text())


@pytest.mark.thorough
@pytest.mark.slow
def test_a_module_with_all_its_parts(train: Command, module: Callable[..., str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "tuned.json").write_text('{"space": [], "values": {"learning_rate": 0.1}}')
    arguments = ["--train-steps", 300, "--hyperparameters", tmp_path / "tuned.json"]
    arguments += ["--custom-config", '{"learning_rate": 0.05}']
    done = train(module(textwrap.dedent(MODEL_FN) + textwrap.dedent(ALL_PARTS)), "out", *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    found = record(tmp_path / "out")
    assert found["dialect"] == {"name": "model_fn", "reason": "it defines model_fn"}
    assert found["metrics"]["eval"]["accuracy"] > 0.85  # of the first 20 of 30 examples: eval_steps is 1
    assert found["metrics"]["eval"]["accuracy"] * 20 == pytest.approx(round(found["metrics"]["eval"]["accuracy"] * 20))
    assert "last step 300" in done.stdout
    work = tmp_path / "out" / "model_run" / "Format-Serving"
    assert {path.name for path in (work / "export").iterdir()} == {"best", "final"}
    assert len(list(work.glob("model.ckpt-*.index"))) == 2


CSV_PARTS = """
    params = {"units": 16, "learning_rate": 0.05, "batch_size": 20}

    def input_fn(file_pattern, batch_size, mode):
        def parse(lines):
            *measures, variety = tf.io.decode_csv(lines, [[0.0]] * 4 + [[0]])
            return dict(zip(NAMES, measures)), variety
        data = tf.data.TextLineDataset(tf.io.gfile.glob(file_pattern)).batch(batch_size).map(parse)
        return data.repeat() if mode == tf.estimator.ModeKeys.TRAIN else data

    def serving_input_receiver_fn():
        features = {name: tf.compat.v1.placeholder(tf.float32, [None], name) for name in NAMES}
        return tf.estimator.export.ServingInputReceiver(features, features)
"""


@pytest.mark.slow
def test_the_errors_on_rows_that_only_the_module_reads_are_analyzed(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "iris.csv").write_text(iris_csv(header=""))
    path = module(textwrap.dedent(MODEL_FN) + textwrap.dedent(CSV_PARTS))
    files = ["--train-files", tmp_path / "iris.csv", "--eval-files", tmp_path / "iris.csv"]
    done = command("train", path, *files, "--train-steps", 300, "--seed", 1, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr[-3000:]
    run = tmp_path / "out" / "model_run"
    found = read_error_analysis(str(run))
    assert found is not None
    assert (found.problem, found.examples, found.is_complete) == ("", 150, True)
    [output] = found.outputs
    assert output.task == "multiclass"
    right = sum(count for (label, predicted), count in output.plots.confusion.items() if label == predicted)
    assert right / 150 == pytest.approx(record(tmp_path / "out")["metrics"]["eval"]["accuracy"])
    assert output.errors.columns[3:] == ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    assert not evaluated_examples.are_in(str(run))


@pytest.mark.slow
def test_a_bare_model_function_reads_the_examples_by_their_schema_and_starts_warm(
    train: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module(
        textwrap.dedent(MODEL_FN)
        + 'LABEL_KEY = "variety"\nparams = {"units": 16, "learning_rate": 0.05}\n'
        + "run_config = tf.estimator.RunConfig(log_step_count_steps=50)\n"
    )
    done = train(path, "first", "--schema", iris.schema, "--train-steps", 400)
    assert done.returncode == 0, done.stderr[-3000:]
    first = record(tmp_path / "first")["metrics"]["eval"]
    assert first["accuracy"] > 0.9
    # Its single step, at a rate of nothing, leaves the weights of the model that it starts from.
    cold = ["--schema", iris.schema, "--train-steps", 1, "--custom-config", '{"learning_rate": 0}']
    done = train(path, "second", *cold, "--base-model", tmp_path / "first")
    assert done.returncode == 0, done.stderr[-3000:]
    assert record(tmp_path / "second")["metrics"]["eval"]["loss"] == pytest.approx(first["loss"], rel=1e-5)
    done = train(path, "third", *cold, "--base-model", keras_model(tmp_path / "keras"))
    assert done.returncode == 2
    assert "was not written by an Estimator" in done.stderr


def keras_model(folder: pathlib.Path) -> pathlib.Path:
    import tensorflow as tf

    module = tf.Module()
    module.weight = tf.Variable(1.0)
    tf.saved_model.save(module, str(folder))
    return folder


FORMS = {
    "an_instance": "estimator = tf.estimator.Estimator(model_fn_of_mine, params=PARAMS)\n",
    "an_instance_with_a_folder": "estimator = tf.estimator.Estimator(model_fn_of_mine, {folder!r}, params=PARAMS)\n",
    "a_subclass": """
class Mine(tf.estimator.Estimator):
    def __init__(self, model_dir=None, config=None, warm_start_from=None):
        super().__init__(model_fn_of_mine, model_dir, config, PARAMS, warm_start_from)
""",
    "a_builder": """
def build_estimator(config):
    return tf.estimator.Estimator(model_fn_of_mine, config=config, params=PARAMS)
""",
    "a_factory": """
def _make(run_config, **options):
    return tf.estimator.Estimator(model_fn_of_mine, config=run_config, params=PARAMS)
def make_it(run_config):
    made = _make(run_config)
    return made
""",
    "a_model_function": "params = PARAMS\n",
    "version_1": "estimator = tf.compat.v1.estimator.Estimator(model_fn_of_mine, params=PARAMS)\n",
}
PROGRAM = """
    import json, sys
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors import dialects
    from generic_trainer.executors.dialects import selection
    from generic_trainer.executors.dialects.loading import loaded
    from generic_trainer.executors.modules.source import find_source

    for name, path in json.loads(sys.argv[1]).items():
        fn_args = FnArgs(
            train_files=[sys.argv[2]], eval_files=[sys.argv[3]], schema_path=sys.argv[4], train_steps=20,
            serving_model_dir=f"{sys.argv[5]}/{name}/model", model_run_dir=f"{sys.argv[5]}/{name}/run", seed=1,
        )
        with loaded(find_source(path, sys.argv[5])) as module:
            known = dialects.adapters()
            dialect, reason = selection.choose(module, None, TrainingOptions(), known)
            run_fn = known[dialect].run_fn(module, None, TrainingOptions())
            metrics = run_fn(fn_args)
        print(json.dumps([name, dialect, reason, metrics["eval_loss"]]))
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_every_form_of_an_estimator_is_the_same_estimator(
    module: Callable[..., str], program: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    source = textwrap.dedent(MODEL_FN).replace("def model_fn", "def model_fn_of_mine")
    source += 'PARAMS = {"units": 16, "learning_rate": 0.05}\nLABEL_KEY = "variety"\n'
    source += "def hooks(estimator):\n    assert estimator.params == PARAMS\n    return []\n"
    folder = str(tmp_path / "theirs")
    paths = {
        name: module(source + text.replace("{folder!r}", repr(folder)), f"{name}.py") for name, text in FORMS.items()
    }
    environment = {**os.environ, **choose("2", []).environment()}
    arguments = [json.dumps(paths), iris.train, iris.eval, iris.schema, tmp_path]
    printed = program(PROGRAM, *arguments, env=environment)
    found = {name: rest for name, *rest in map(json.loads, printed.splitlines())}
    assert {name: dialect for name, (dialect, _, _) in found.items()} == dict.fromkeys(FORMS, "model_fn")
    assert found["an_instance"][1] == "it contains the Estimator estimator"
    assert found["a_factory"][1] == "it contains the Estimator make_it"
    assert found["a_subclass"][1] == "it contains the Estimator Mine"
    for name in FORMS:
        assert (tmp_path / name / "model" / "saved_model.pb").exists()
    # An author's folder is kept; otherwise it works in the model run.
    assert (tmp_path / "theirs" / "checkpoint").exists()
    assert not (tmp_path / "an_instance_with_a_folder" / "run" / "model").exists()
    assert (tmp_path / "an_instance" / "run" / "model" / "checkpoint").exists()


SEVERAL = """
wide = tf.estimator.LinearClassifier([])
deep = tf.estimator.DNNClassifier([4], [])
alias = deep
def make(config, params):
    return tf.estimator.BaselineClassifier(config=config)
def other_model_fn(features, labels): pass
class Mine(tf.estimator.Estimator): pass
"""
CHOICES = """
    import json, sys
    from generic_trainer import ModuleError, TrainingOptions
    from generic_trainer.executors import dialects
    from generic_trainer.executors.dialects import selection
    from generic_trainer.executors.dialects.loading import loaded
    from generic_trainer.executors.modules.source import find_source

    known = dialects.adapters()
    with loaded(find_source(sys.argv[1], sys.argv[2])) as module:
        for name in sys.argv[3:]:
            print(json.dumps([name, *selection.choose(module, name, TrainingOptions(), known)]))
        print(json.dumps([None, *selection.choose(module, None, TrainingOptions(), known)]))
        try:
            known["model_fn"].run_fn(module, None, TrainingOptions())
        except ModuleError as error:
            print(json.dumps([str(error)]))
"""


def test_one_of_several_estimators_has_to_be_chosen(
    module: Callable[..., str], program: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = module("import tensorflow as tf\n" + SEVERAL)
    names = ["wide", "deep", "alias", "make", "other_model_fn", "Mine"]
    environment = {**os.environ, **choose("2", []).environment()}
    printed = program(CHOICES, path, tmp_path, *names, env=environment)
    *found, (_, dialect, _), [error] = map(json.loads, printed.splitlines())
    assert [(name, chosen) for name, chosen, _ in found] == [(name, "model_fn") for name in names]
    assert dialect == "model_fn"
    assert (
        "several entry points (Estimators: wide, deep; functions that return an Estimator: make; subclasses of "
        "Estimator: Mine; model functions: other_model_fn). Choose one with --function"
    ) in error


@pytest.mark.slow
def test_a_loss_that_is_nan_stops_with_its_name_and_step(
    train: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    broken = "tf.cond(tf.compat.v1.train.get_or_create_global_step() < 30, lambda: 1.0, lambda: float('nan'))"
    source = textwrap.dedent(MODEL_FN).replace("    optimizer =", f"    loss *= {broken}\n    optimizer =")
    path = module(source + 'LABEL_KEY = "variety"\nparams = {"units": 16, "learning_rate": 0.05}\n')
    done = train(path, "out", "--schema", iris.schema, "--train-steps", 100)
    assert done.returncode == 1
    assert "NanLossError: The loss '" in done.stderr.splitlines()[-1]
    assert "is NaN at global step 3" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out" / "model" / "Format-Serving").exists()


BAD = {
    "no label": ("", "has no input_fn. To read the examples by their schema, it needs the label's feature name"),
    "half of the inputs": (
        "def train_input_fn(): pass\n",
        "defines train_input_fn, but neither eval_input_fn nor input",
    ),
    "a parameter of no meaning": (
        "def input_fn(shard): pass\n",
        "input_fn has the unknown parameter 'shard'. Allowed are",
    ),
    "params of another kind": ("params = [1]\n", "params must be a dict, not [1]"),
    "no exporters": ("exporters = []\nLABEL_KEY = 'variety'\n", "the EvalSpec has no exporter, so no model would be"),
    "endless training": (
        "LABEL_KEY = 'variety'\ntrain_steps = None\n",
        "max_steps=None and its input_fn repeats forever, so training would never end. If max_steps is "
        "fn_args.train_steps, give --train-steps",
    ),
    "a run_config of another kind": ("run_config = {'seed': 1}\n", "run_config must be a tf.estimator.RunConfig, not"),
}
BAD_PROGRAM = PROGRAM.replace("train_steps=20", 'train_steps=None if "endless" in name else 20').replace(
    "metrics = run_fn(fn_args)",
    """try:
                run_fn(fn_args)
            except Exception as error:
                print(json.dumps([name, type(error).__name__, str(error)]))
                continue""",
)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_part_that_is_wrong_is_named_with_its_file(
    module: Callable[..., str], program: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    paths = {
        name: module(textwrap.dedent(MODEL_FN) + text, f"{name.replace(' ', '_')}.py")
        for name, (text, _) in BAD.items()
    }
    environment = {**os.environ, **choose("2", []).environment()}
    arguments = [json.dumps(paths), iris.train, iris.eval, iris.schema, tmp_path]
    printed = program(BAD_PROGRAM, *arguments, env=environment)
    found = {name: rest for name, *rest in map(json.loads, printed.splitlines())}
    for name, (_, text) in BAD.items():
        assert found[name][0] == "ModuleError"
        assert text in found[name][1]
        assert paths[name] in found[name][1]
