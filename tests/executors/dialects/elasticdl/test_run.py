"""ElasticDL's model files: every supported form of every part, trained on iris by the same loop."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.dialects.elasticdl.adapter import ElasticDLAdapter
from generic_trainer.executors.dialects.needs import choose_keras
from generic_trainer.executors.errors import ModuleError

Module = Callable[..., str]

HEAD = """
import tensorflow as tf
from elasticdl.python.common.constants import Mode

NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in NAMES}

def read(dataset, labelled):
    def parse(record):
        spec = {**SPEC, "variety": tf.io.FixedLenFeature([1], tf.int64)} if labelled else SPEC
        row = tf.io.parse_single_example(record, spec)
        features = {"measures": tf.concat([row[name] for name in NAMES], 0)}
        return (features, row["variety"]) if labelled else features
    return dataset.map(parse)

def net(x):
    return tf.keras.layers.Dense(3, name="scores")(tf.keras.layers.Dense(16, activation="relu")(x))
"""
# The parts of a working file; each row of the table replaces one of them.
PARTS = {
    "model": """
def custom_model():
    inputs = tf.keras.Input((4,), name="measures")
    return tf.keras.Model(inputs, net(inputs))
""",
    "feed": """
def feed(dataset, mode, metadata):
    assert metadata is not None
    return read(dataset, mode != Mode.PREDICTION)
""",
    "loss": """
def loss(labels, predictions):
    labels = tf.reshape(labels, [-1])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions))
""",
    "optimizer": """
def optimizer(lr=0.05):
    return tf.optimizers.Adam(lr)
""",
    "metrics": """
def eval_metrics_fn():
    return {"accuracy": tf.keras.metrics.SparseCategoricalAccuracy()}
""",
}
FORMS = {
    "model: a class": (
        "model",
        """
class CustomModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(16, activation="relu")
        self.scores = tf.keras.layers.Dense(3)

    def call(self, inputs, training=False):
        assert training in (True, False)
        return self.scores(self.hidden(inputs["measures"]))
""",
    ),
    "model: an instance": (
        "model",
        """
inputs = tf.keras.Input((4,), name="measures")
model = tf.keras.Model(inputs=inputs, outputs=net(inputs))
""",
    ),
    "model: an input without a name": (
        "model",
        """
def custom_model():
    inputs = tf.keras.Input((4,))
    return tf.keras.Model(inputs, net(inputs))
""",
    ),
    "model: call without training": (
        "model",
        """
class CustomModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.net = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(3)])

    def call(self, inputs):
        return self.net(inputs["measures"])
""",
    ),
    "feed: dataset_fn(dataset, mode)": (
        "feed",
        """
def dataset_fn(dataset, mode):
    assert mode in (Mode.TRAINING, Mode.EVALUATION, Mode.PREDICTION)
    return read(dataset, mode != Mode.PREDICTION)
""",
    ),
    "feed: dataset_fn(dataset, training)": (
        "feed",
        """
def dataset_fn(dataset, training):
    assert training in (True, False)
    return read(dataset, True)
""",
    ),
    "feed: a third parameter that is not wanted": (
        "feed",
        "def dataset_fn(dataset, mode, _):\n    return read(dataset, mode != Mode.PREDICTION)\n",
    ),
    "loss: (output, labels)": (
        "loss",
        """
def loss(output, labels):
    labels = tf.reshape(labels, [-1])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, output))
""",
    ),
    "loss: of each record, with flatten()": (
        "loss",
        """
def loss(labels, output):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(logits=output, labels=labels.flatten())
""",
    ),
    "optimizer: an instance": ("optimizer", "optimizer = tf.keras.optimizers.Adam(0.05)\n"),
    "metrics: none": ("metrics", ""),
    "metrics: a function of labels and predictions": (
        "metrics",
        """
def eval_metrics_fn():
    return {"accuracy": lambda labels, predictions: tf.equal(
        tf.argmax(predictions, 1), tf.reshape(tf.cast(labels, tf.int64), [-1]))}
""",
    ),
    "metrics: values of (predictions, labels)": (
        "metrics",
        """
def eval_metrics_fn(predictions, labels):
    return {"accuracy": tf.reduce_mean(
        input_tensor=tf.cast(tf.equal(tf.argmax(input=predictions, axis=1), labels.flatten()), tf.float32))}
""",
    ),
    "metrics: by output": (
        "metrics",
        """
def custom_model():
    inputs = tf.keras.Input((4,), name="measures")
    scores = net(inputs)
    return tf.keras.Model(inputs, {"scores": scores, "probs": tf.keras.layers.Softmax()(scores)})

def loss(labels, predictions):
    labels = tf.reshape(labels, [-1])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions["scores"]))

def eval_metrics_fn():
    return {"probs": {"accuracy": tf.keras.metrics.SparseCategoricalAccuracy()},
            "scores": {"largest": lambda labels, predictions: tf.reduce_max(predictions)}}
""",
    ),
    "callbacks": (
        "optimizer",
        """
from elasticdl.callbacks import LearningRateScheduler, MaxStepsStopping

def optimizer():
    return tf.keras.optimizers.Adam(0.05)

def callbacks():
    return [LearningRateScheduler(lambda step: 0.05 if step < 100 else 0.01), MaxStepsStopping(120)]
""",
    ),
    "custom_data_reader": (
        "feed",
        """
def feed(dataset, mode, metadata):
    return read(dataset, mode != Mode.PREDICTION)

def custom_data_reader(data_origin, records_per_task=None, **kwargs):
    return tf.data.TFRecordDataset(tf.io.gfile.glob(data_origin), "GZIP")
""",
    ),
}
PROGRAM = """
    import json, sys
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors import dialects
    from generic_trainer.executors.dialects import selection
    from generic_trainer.executors.dialects.loading import loaded
    from generic_trainer.executors.modules.source import find_source
    import tensorflow as tf

    files, train, evaluate, out = json.loads(sys.argv[1]), *sys.argv[2:5]
    for number, (name, path) in enumerate(files.items()):
        folder = f"{out}/{number}"
        fn_args = FnArgs(
            train_files=[train], eval_files=[evaluate], serving_model_dir=f"{folder}/model", seed=1,
            model_run_dir=f"{folder}/run", checkpoint_dir=f"{folder}/checkpoints",
            custom_config={"num_epochs": 25, "minibatch_size": 16, "log_loss_steps": 0},
        )
        tf.keras.utils.set_random_seed(1)
        try:
            with loaded(find_source(path, out)) as module:
                known = dialects.adapters()
                dialect, reason = selection.choose(module, None, TrainingOptions(), known)
                run_fn = known[dialect].run_fn(module, None, TrainingOptions())
                answer = {"dialect": dialect, "metrics": run_fn(fn_args)}
            signatures = tf.saved_model.load(fn_args.serving_model_dir).signatures
            records = list(tf.data.TFRecordDataset(tf.io.gfile.glob(evaluate), "GZIP").as_numpy_iterator())
            asked = signatures["serving_default"](tf.constant(records))
            answer["shapes"] = {key: value.shape.as_list() for key, value in asked.items()}
            answer["tensors"] = sorted(signatures["tensors"].structured_input_signature[1])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "notes": getattr(error, "__notes__", [])}
        print(json.dumps([name, answer]), flush=True)
"""


Run = Callable[[dict[str, str], pathlib.Path], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def run(program: Callable[..., str], iris: Any) -> Run:
    """Trains model files one after the other in one process; returns the output for each."""
    environment = {**os.environ, **choose_keras("2", []).environment()}

    def call(files: dict[str, str], folder: pathlib.Path) -> dict[str, dict[str, Any]]:
        printed = program(PROGRAM, json.dumps(files), iris.train, iris.eval, folder, env=environment)
        return dict(map(json.loads, printed.splitlines()))

    return call


@pytest.fixture(scope="module")
def answers(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All rows of the table, trained one after the other in one process."""
    folder = tmp_path_factory.mktemp("elasticdl")
    files = {}
    for number, name in enumerate(["as today", *FORMS]):
        part, text = FORMS.get(name, ("", ""))
        files[name] = str(folder / f"file_{number}.py")
        parts = {**PARTS, part: text} if part else PARTS
        pathlib.Path(files[name]).write_text(HEAD + "\n".join(parts.values()))
    return run(files, folder)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["as today", *FORMS])
def test_each_form_of_each_part(answers: dict[str, dict[str, Any]], name: str) -> None:
    answer = answers[name]
    assert "error" not in answer, answer
    assert answer["dialect"] == "elasticdl"
    assert answer["metrics"]["eval_loss"] < 0.6
    if name == "metrics: by output":
        assert answer["metrics"]["eval_probs_accuracy"] > 0.8
        assert answer["shapes"] == {"scores": [30, 3], "probs": [30, 3]}
    else:
        assert name == "metrics: none" or answer["metrics"]["eval_accuracy"] > 0.8
        assert answer["shapes"] == {"output": [30, 3]}
    assert answer["tensors"] == ["measures"]


TWO_INPUTS = """
def custom_model():
    image, text = tf.keras.Input((4,), name="image"), tf.keras.Input((4,), name="text")
    return tf.keras.Model([image, text], net(image + text))
"""
BAD = {
    "no loss": ("loss", "", "no entry point of a known dialect"),
    "no labels": (
        "feed",
        "def feed(dataset, mode, m):\n    return read(dataset, False)\n",
        "feed must return (features, labels",
    ),
    "no dataset": ("feed", "def feed(dataset, mode, m):\n    pass\n", "must return a tf.data.Dataset; it returned"),
    "no model": ("model", "def custom_model():\n    return 3\n", "must return a tf.keras.Model; it returned 3"),
    "metrics of another kind": (
        "metrics",
        "def eval_metrics_fn():\n    return {}\n",
        "must return a dict of metrics with at least one",
    ),
    "a loss that does not fit": (
        "loss",
        "def loss(labels, predictions):\n    return tf.keras.losses.mse(tf.ones([7, 3]), predictions)\n",
        "Labels: int64 (16, 1); the model's outputs: float32 (16, 3).",
    ),
    "a loss that is NaN": (
        "loss",
        PARTS["loss"].replace("return ", "return float('nan') * "),
        "The loss is NaN at step 1.",
    ),
    "inputs of other names": ("model", TWO_INPUTS, "The model has the inputs image, text, but feed returns measures"),
}


@pytest.mark.slow
def test_an_invalid_part_is_reported(run: Run, tmp_path: pathlib.Path) -> None:
    files = {}
    for number, (name, (part, text, _)) in enumerate(BAD.items()):
        files[name] = str(tmp_path / f"file_{number}.py")
        pathlib.Path(files[name]).write_text(HEAD + "\n".join({**PARTS, part: text}.values()))
    found = run(files, tmp_path)
    for name, (_, _, text) in BAD.items():
        assert text in found[name]["error"] + " ".join(found[name]["notes"]), found[name]


EARLY_STOP = """
def callbacks():
    return [tf.keras.callbacks.EarlyStopping(monitor="val_loss", min_delta=100, patience=1)]
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_keras_stops_early_on_the_files_metrics(run: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(HEAD + "\n".join([*PARTS.values(), EARLY_STOP]))
    found = run({"early stop": str(path)}, tmp_path)
    assert "error" not in found["early stop"], found
    # 120 records in batches of 16 are 8 steps; the second of 25 epochs did not improve by 100.
    [checkpoint] = (tmp_path / "0" / "checkpoints").glob("*.index")
    assert checkpoint.stem == "version-16"
    assert updates(checkpoint) == 16  # no additional update at the end of each epoch


RESTORED = """
class Restored(tf.keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        inner = self.model.inner
        inner.set_weights([weight * 0 for weight in inner.get_weights()])

def callbacks():
    return [Restored()]
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_weights_changed_by_a_callback_at_the_end_are_evaluated(run: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(HEAD + "\n".join([*PARTS.values(), RESTORED]))
    found = run({"restored": str(path)}, tmp_path)
    assert found["restored"]["metrics"]["eval_loss"] == pytest.approx(math.log(3), rel=1e-3)  # from all-zero weights


def updates(checkpoint: pathlib.Path) -> int:
    """Returns how often the optimizer of a checkpoint has updated weights."""
    import tensorflow as tf

    values = tf.train.load_checkpoint(str(checkpoint.with_suffix("")))
    [name] = [name for name in values.get_variable_to_shape_map() if "iteration" in name.rpartition("/.ATTR")[0]]
    return int(values.get_tensor(name))


# Errors reported without TensorFlow


def test_the_order_of_loss_arguments_is_inferred_from_their_names() -> None:
    from generic_trainer.executors.dialects.elasticdl.parts import labels_first

    assert labels_first(lambda labels, predictions: 0)
    assert labels_first(lambda y_true, y_pred: 0)
    assert labels_first(lambda a, b: 0)
    assert not labels_first(lambda output, labels: 0)
    assert not labels_first(lambda predictions, y: 0)


def test_a_model_file_is_recognized_by_its_parts(module: Module) -> None:
    import tensorflow as tf

    from generic_trainer.executors.dialects.elasticdl.detection import find_elasticdl_use

    path = module("def dataset_fn(d, t): pass\ndef loss(l, p): pass\ndef optimizer(): pass\nmodel = 1\n")
    assert find_elasticdl_use(path) == (1, "loss, optimizer and dataset_fn, as in ElasticDL")
    assert choose_keras("auto", [path]).version == "2"
    if tf.keras.__version__ > "3":
        assert choose_keras("3", [path]).version == "3"
    namespace = type("Module", (), {"feed": len, "loss": len, "optimizer": len, "custom_model": 1})
    assert ElasticDLAdapter().matches(namespace, None) == "it defines custom_model, feed, loss and optimizer"  # type: ignore[arg-type]
    assert ElasticDLAdapter().matches(type("Module", (), {"loss": len}), None) == ""  # type: ignore[arg-type]


def test_a_part_in_another_file_of_the_zoo(tmp_path: pathlib.Path) -> None:
    from types import ModuleType

    from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
    from generic_trainer.executors.dialects.elasticdl.parts import Parts

    (tmp_path / "zoo" / "iris").mkdir(parents=True)
    (tmp_path / "zoo" / "json").mkdir()  # not the standard library's
    (tmp_path / "zoo" / "json" / "losses.py").write_text("def loss(labels, predictions):\n    return labels\n")
    module = ModuleType("iris")
    module.__file__ = str(tmp_path / "zoo" / "iris" / "iris.py")

    parts = Parts(module, None, ElasticDLOptions(loss="json.losses.loss"))

    assert parts.loss(1, 2) == 1


class Processor:
    def process(self, predictions: object, worker_id: int) -> tuple[object, int]:
        return predictions, worker_id


class StaticProcessor:
    def __init__(self, table: str) -> None:
        raise AssertionError("ElasticDL did not create an instance")

    @staticmethod
    def process(predictions: object, worker_id: int) -> tuple[object, int]:
        return predictions, worker_id


@pytest.mark.parametrize(
    "defined",
    [Processor, Processor(), StaticProcessor, lambda: Processor()],
    ids=["class", "object", "static", "function"],
)
def test_a_prediction_processor_is_anything_with_process(defined: object) -> None:
    assert processor_of(defined).process([1], 0) == ([1], 0)


def test_a_prediction_processor_without_process_is_reported() -> None:
    assert processor_of(None) is None
    with pytest.raises(ModuleError, match=r"PredictionOutputsProcessor is 3, which has no process\(predictions"):
        processor_of(3)


def processor_of(defined: object) -> Any:
    from types import ModuleType

    from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
    from generic_trainer.executors.dialects.elasticdl.parts import Parts

    module = ModuleType("job")
    module.__file__ = "job.py"
    module.PredictionOutputsProcessor = defined  # type: ignore[attr-defined]
    return Parts(module, None, ElasticDLOptions()).prediction_outputs_processor()
