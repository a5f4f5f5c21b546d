"""ElasticDL's commands with ElasticDL's flags: the command line of the seed, and commands on its outputs."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.evaluation.error_analysis import read_error_analysis

from .....world.records import example

Command = Callable[..., subprocess.CompletedProcess[str]]
Signalled = Callable[[list[str], str, signal.Signals], tuple[str, int]]
MODULES = pathlib.Path(__file__).resolve().parents[5] / "module_files"
COLUMNS = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]
READER = f"columns={COLUMNS}; sep=','"


@pytest.fixture(scope="module")
def iris_csv(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of the seed's command: quoted names in the header, and an unused column."""
    import numpy as np
    from sklearn.datasets import load_iris

    data = load_iris()
    order = np.random.default_rng(0).permutation(150)
    lines = [",".join(f'"{name}"' for name in ["id", *COLUMNS])]
    lines += [f"{i},{','.join(map(str, data.data[i]))},{data.target[i]}" for i in order]
    path = tmp_path_factory.mktemp("iris_csv") / "iris.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def zoo(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with model files in ElasticDL's layout, one package per model, in a clone of ElasticDL's repository."""
    source = tmp_path / "elasticdl" / "python" / "common" / "constants.py"
    source.parent.mkdir(parents=True)
    source.write_text("raise ImportError('a source file of ElasticDL was imported')\n")
    for package in (source.parents[2], source.parents[1], source.parent):
        (package / "__init__.py").write_text("")
    folder = tmp_path / "model_zoo" / "odps_iris_dnn_model"
    folder.mkdir(parents=True)
    shutil.copy(MODULES / "iris_elasticdl.py", folder / "odps_iris_dnn_model.py")
    (folder / "__init__.py").write_text("")
    return folder.parent


@pytest.mark.slow
def test_the_seeds_command_then_evaluate_then_predict(
    command: Command, zoo: pathlib.Path, iris_csv: str, tmp_path: pathlib.Path
) -> None:
    shared = [f"--model_zoo={zoo}", "--model_def=odps_iris_dnn_model.odps_iris_dnn_model.custom_model"]
    shared += [f"--data_reader_params={READER}", "--minibatch_size=64", "--job_name=test-odps-iris"]
    out, checkpoints = tmp_path / "iris_dnn_model", tmp_path / "checkpoints"
    done = command(
        *["elasticdl", "train", *shared, f"--training_data={iris_csv}", f"--validation_data={iris_csv}"],
        *["--num_epochs=60", "--num_minibatches_per_task=20", "--distribution_strategy=Local"],
        *["--evaluation_steps=20", f"--output={out}", f"--checkpoint_dir={checkpoints}", "--checkpoint_steps=100"],
        *["--num_workers", 2, "--image_name=elasticdl:ci", "--seed=3"],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "--num_workers is ignored: without --engine=ray there is only one process" in done.stderr
    assert "--image_name is ignored" in done.stderr
    record = json.loads((tmp_path / "iris_dnn_model_run" / "run.json").read_text())
    assert record["metrics"]["eval"]["accuracy"] > 0.9
    assert {record["check"]["checks"][name] for name in ("answers", "batches")} == {"passed"}
    assert record["check"]["example"] == f"the first record of {iris_csv}"
    assert record["keras"]["version"] == "2"
    assert record["arguments"]["seed"] == 3
    assert sorted(path.name for path in checkpoints.glob("*.index")) == ["version-100.index", "version-180.index"]
    analysis = read_error_analysis(str(tmp_path / "iris_dnn_model_run"))
    assert analysis is not None
    assert (analysis.problem, analysis.examples) == ("", 150)
    [output] = analysis.outputs
    right = sum(count for (label, predicted), count in output.plots.confusion.items() if label == predicted)
    assert right / 150 == pytest.approx(record["metrics"]["eval"]["accuracy"])
    assert output.errors.columns == ["label", "prediction", "probability of the label", "measures"]
    assert ask(out)["output"].shape == (2, 3)
    assert ask(tmp_path / "iris_dnn_model_run" / "best" / "model")["output"].shape == (2, 3)

    init = f"--checkpoint_dir_for_init={checkpoints}"
    done = command("elasticdl", "evaluate", *shared, f"--validation_data={iris_csv}", init)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"accuracy  {record['metrics']['eval']['accuracy']:.5g}" in done.stdout
    assert not re.search(r"^[IWE]\d{4} ", done.stderr, re.MULTILINE), done.stderr  # of TensorFlow's C++

    done = command("elasticdl", "predict", *shared, f"--prediction_data={iris_csv}", init, f"--output={tmp_path}/p")
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "p" / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == 150
    assert {len(line["output"]) for line in lines} == {3}

    done = command(
        "predict", "--model", out, "--examples", iris_csv, "--id", "id", "--output", tmp_path / "published.jsonl"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    published = [json.loads(line) for line in (tmp_path / "published.jsonl").read_text().splitlines()]
    assert [line["output"] for line in published] == [pytest.approx(line["output"], rel=1e-4) for line in lines]
    rows = pathlib.Path(iris_csv).read_text().splitlines()[1:]
    assert [line["id"] for line in published] == [int(row.partition(",")[0]) for row in rows]  # no input of the model


def ask(folder: pathlib.Path) -> dict[str, Any]:
    import tensorflow as tf

    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    rows = tf.constant([["5.1", "3.5", "1.4", "0.2", "0"], ["6.3", "3.3", "6.0", "2.5", "2"]])
    answer = {key: value.numpy() for key, value in serve(rows).items()}
    assert answer["output"].argmax(1).tolist() == [0, 2]
    return answer


@pytest.mark.thorough
@pytest.mark.slow
def test_digits_with_a_limit_a_schedule_and_a_second_part(
    command: Command, digits: Any, tmp_path: pathlib.Path
) -> None:
    """A job that was stopped by a limit is completed; one that starts from its weights has a lower loss at once."""
    shared = [f"--model_zoo={MODULES}", "--model_def=digits_elasticdl.custom_model", "--minibatch_size=32"]
    shared += [f"--training_data={digits.train}", f"--validation_data={digits.eval}"]
    first = [f"--output={tmp_path}/first", f"--checkpoint_dir={tmp_path}/c1", "--keep_checkpoint_max=1"]
    done = command("elasticdl", "train", *shared, *first, "--num_epochs=0", "--max_step=600", "--checkpoint_steps=100")
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads((tmp_path / "first_run" / "run.json").read_text())["metrics"]["eval"]
    assert metrics["accuracy"] > 0.95
    assert [path.name for path in (tmp_path / "c1").glob("*.index")] == ["version-600.index"]
    second = [f"--output={tmp_path}/second", f"--checkpoint_dir_for_init={tmp_path}/c1", "--max_step=1"]
    done = command("elasticdl", "train", *shared, *second)
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads((tmp_path / "second_run" / "run.json").read_text())["metrics"]["eval"]
    assert metrics["accuracy"] > 0.9


SNIPPETS = {
    "functional": """
inputs = tf.keras.Input(shape=(28, 28), name='image')
x = tf.keras.layers.Reshape((28, 28, 1))(inputs)
x = tf.keras.layers.Conv2D(32, kernel_size=(3, 3), activation='relu')(x)
x = tf.keras.layers.Conv2D(64, kernel_size=(3, 3), activation='relu')(x)
x = tf.keras.layers.BatchNormalization()(x)
x = tf.keras.layers.MaxPooling2D(pool_size=(2, 2))(x)
x = tf.keras.layers.Dropout(0.25)(x)
x = tf.keras.layers.Flatten()(x)
outputs = tf.keras.layers.Dense(10)(x)

model = tf.keras.Model(inputs=inputs, outputs=outputs, name='mnist_model')
""",
    "subclass": """
class MnistModel(tf.keras.Model):
    def __init__(self):
        super(MnistModel, self).__init__(name='mnist_model')
        self._reshape = tf.keras.layers.Reshape((28, 28, 1))
        self._conv1 = tf.keras.layers.Conv2D(
            32, kernel_size=(3, 3), activation='relu')
        self._conv2 = tf.keras.layers.Conv2D(
            64, kernel_size=(3, 3), activation='relu')
        self._batch_norm = tf.keras.layers.BatchNormalization()
        self._maxpooling = tf.keras.layers.MaxPooling2D(
            pool_size=(2, 2))
        self._dropout = tf.keras.layers.Dropout(0.25)
        self._flatten = tf.keras.layers.Flatten()
        self._dense = tf.keras.layers.Dense(10)

    def call(self, inputs, training=False):
        x = self._reshape(inputs)
        x = self._conv1(x)
        x = self._conv2(x)
        x = self._batch_norm(x, training=training)
        x = self._maxpooling(x)
        if training:
            x = self._dropout(x, training=training)
        x = self._flatten(x)
        x = self._dense(x)
        return x

model = MnistModel()
""",
    "the rest": """
def dataset_fn(dataset, mode):
    def _parse_data(record):
        if mode == Mode.PREDICTION:
            feature_description = {
                "image": tf.io.FixedLenFeature([28, 28], tf.float32)
            }
        else:
            feature_description = {
                "image": tf.io.FixedLenFeature([28, 28], tf.float32),
                "label": tf.io.FixedLenFeature([1], tf.int64),
            }
        r = tf.io.parse_single_example(record, feature_description)
        features = {
            "image": tf.math.divide(tf.cast(r["image"], tf.float32), 255.0)
        }
        if mode == Mode.PREDICTION:
            return features
        else:
            return features, tf.cast(r["label"], tf.int32)

    dataset = dataset.map(_parse_data)

    if mode != Mode.PREDICTION:
        dataset = dataset.shuffle(buffer_size=1024)
    return dataset

def loss(labels, output):
    return tf.reduce_mean(
        input_tensor=tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=output, labels=labels.flatten()
        )
    )

def optimizer(lr=0.1):
    return tf.optimizers.SGD(lr)

def eval_metrics_fn(predictions, labels):
    return {
        "accuracy": tf.reduce_mean(
            input_tensor=tf.cast(
                tf.equal(
                    tf.argmax(input=predictions, axis=1), labels.flatten()
                ),
                tf.float32,
            )
        )
    }
""",
}


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digits in the shape of MNIST: 28 by 28 pixels from 0 to 255, in RecordIO files and in TFRecords."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_digits

    from generic_trainer.executors.dialects.elasticdl.recordio.records import RecordWriter

    folder = tmp_path_factory.mktemp("mnist")
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    large = np.zeros((len(order), 28, 28), np.float32)
    large[:, 2:26, 2:26] = np.kron(data.images, np.ones((3, 3))) * (255 / 16)
    with RecordWriter(str(folder / "train.recordio")) as train, tf.io.TFRecordWriter(str(folder / "eval")) as evaluate:
        for number, i in enumerate(order):
            (train if number < 1500 else evaluate).write(example(image=large[i], label=data.target[i]))
    return {"train": str(folder / "train.recordio"), "eval": str(folder / "eval")}


def accuracy_of(folder: pathlib.Path, data: str) -> float:
    import tensorflow as tf

    records = list(tf.data.TFRecordDataset(data).as_numpy_iterator())
    answers = tf.saved_model.load(str(folder)).signatures["serving_default"](tf.constant(records))["output"].numpy()
    labels = [tf.train.Example.FromString(record).features.feature["label"].int64_list.value[0] for record in records]
    return float((answers.argmax(1) == labels).mean())


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("form", ["functional", "subclass"])
def test_the_seeds_snippets_as_one_file(
    command: Command, mnist: dict[str, str], tmp_path: pathlib.Path, form: str
) -> None:
    source = "import tensorflow as tf\nfrom elasticdl.python.common.constants import Mode\n"
    (tmp_path / "mnist.py").write_text(source + SNIPPETS[form] + SNIPPETS["the rest"])
    done = command(
        *["elasticdl", "train", f"--model_zoo={tmp_path}", "--model_def=mnist.model", "--num_epochs=24"],
        *[f"--training_data={mnist['train']}", f"--validation_data={mnist['eval']}", f"--output={tmp_path}/out"],
        *["--minibatch_size=64", "--seed=1"],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "out_run" / "run.json").read_text())
    assert record["check"]["checks"]["answers"] == "passed"
    # With the seed's learning rate of 0.1 the accuracy varies between epochs; the best weights are kept.
    evaluations = [float(line.rpartition("accuracy ")[2]) for line in done.stderr.splitlines() if "eval loss" in line]
    assert len(evaluations) == 24
    assert max(evaluations) > 0.95
    assert accuracy_of(tmp_path / "out_run" / "best" / "model", mnist["eval"]) > 0.92


@pytest.mark.thorough
@pytest.mark.slow
def test_a_model_file_on_keras_3_by_the_trainers_own_command(
    command: Command, digits: Any, tmp_path: pathlib.Path
) -> None:
    data = ["--train-files", digits.train, "--eval-files", digits.eval, "--output", tmp_path / "out"]
    config = ["--custom-config", '{"num_epochs": 8, "minibatch_size": 32}', "--keras", 3, "--seed", 1]
    done = command("train", MODULES / "digits_elasticdl.py", *data, *config)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["dialect"]["name"] == "elasticdl"
    assert record["metrics"]["eval"]["accuracy"] > 0.9
    assert record["check"]["checks"]["answers"] == "passed"


INTERRUPTED = """
import os
import tensorflow as tf
from iris_elasticdl import custom_model, feed, loss, optimizer

class Interrupt(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.step.numpy() == 50 and not os.path.exists(FLAG):
            open(FLAG, "w").close()
            raise InterruptedError("a preempted machine")

def callbacks():
    return [Interrupt()]
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("every", [15, 20])  # steps 45, in the middle of an epoch, and 40, at the end of one
def test_an_interrupted_job_resumes_from_its_last_checkpoint(
    command: Command, iris_csv: str, tmp_path: pathlib.Path, every: int
) -> None:
    shutil.copy(MODULES / "iris_elasticdl.py", tmp_path)
    (tmp_path / "job.py").write_text(INTERRUPTED + f"\nFLAG = {str(tmp_path / 'flag')!r}\n")
    line = [f"--model_zoo={tmp_path}", "--model_def=job.custom_model", f"--data_reader_params={READER}"]
    line += [f"--training_data={iris_csv}", "--minibatch_size=16", "--num_epochs=8", f"--output={tmp_path}/out"]
    line += [f"--checkpoint_steps={every}", f"--checkpoint_dir={tmp_path}/c"]
    done = command("elasticdl", "train", *line)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("generic-trainer: failed: InterruptedError: a preempted machine (")
    done = command("elasticdl", "train", *line)
    assert done.returncode == 0, done.stderr[-3000:]
    last = 50 // every * every
    assert f"Resuming from {tmp_path}/c/version-{last}, at step {last}." in done.stderr
    # Ten batches per epoch, the last one of six records: none was skipped or repeated.
    steps = {int(path.stem.removeprefix("version-")) for path in (tmp_path / "c").glob("*.index")}
    assert steps == {*range(every, 80, every), 80}
    import tensorflow as tf

    values = tf.train.load_checkpoint(str(tmp_path / "c" / "version-80"))
    [updates] = [name for name in values.get_variable_to_shape_map() if "iteration" in name.rpartition("/.ATTR")[0]]
    assert values.get_tensor(updates) == 80


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--minibatch_sise=3"], "--minibatch_size"),
        (["--distribution_strategy=AllreduceStrategy"], "needs several workers. Add --engine=ray"),
        (
            ["--engine=ray", "--num_ps_pods=1", "--distribution_strategy=AllreduceStrategy"],
            "does not use parameter servers, but 1 were requested",
        ),
        (["--model_def=iris"], "--model_def=iris: must be package.module.function, relative to --model_zoo."),
        (["--model_def=nowhere.custom_model"], "nowhere.py does not exist"),
        (["--num_epochs=zwei"], "'zwei': give an integer"),
    ],
)
def test_a_command_line_that_is_wrong(
    command: Command, iris_csv: str, tmp_path: pathlib.Path, arguments: list[str], text: str
) -> None:
    line = [f"--model_zoo={MODULES}", "--model_def=iris_elasticdl.custom_model", f"--training_data={iris_csv}"]
    done = command("elasticdl", "train", *line, f"--output={tmp_path}/out", *arguments)
    assert done.returncode == 2, done.stderr
    assert text in done.stderr


def test_a_flag_that_is_missing_is_named(command: Command) -> None:
    done = command("elasticdl", "evaluate", "--model_zoo=.", "--model_def=iris.custom_model", "--validation_data=iris")
    assert done.returncode == 2
    assert "Missing option '--checkpoint_dir_for_init'" in done.stderr


@pytest.mark.thorough
@pytest.mark.slow
def test_data_that_does_not_fit(command: Command, iris_csv: str, tmp_path: pathlib.Path) -> None:
    line = [f"--model_zoo={MODULES}", "--model_def=iris_elasticdl.custom_model", f"--output={tmp_path}/out"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "header.csv").write_text(",".join(COLUMNS) + "\n")
    rows = pathlib.Path(iris_csv).read_text().splitlines()
    rows[70] = "69,5.1,3.5,wide,0.2,0"
    (tmp_path / "bad.csv").write_text("\n".join(rows) + "\n")
    for data, params, text in (
        (f"{tmp_path}/header.csv", READER, "header.csv: there are no records below the header."),
        (f"{tmp_path}/bad.csv", READER, "bad.csv, row 71 (counting the header): the column 'petal.length' is 'wide'"),
        (iris_csv, "columns=['sepal.lenght']", "sepal.lenght"),
        (f"{tmp_path}/empty", "", f"{tmp_path}/empty"),
    ):
        done = command("elasticdl", "train", *line, f"--training_data={data}", f"--data_reader_params={params}")
        assert done.returncode == (1 if "bad" in data else 2), done.stderr
        assert text in done.stderr.splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.slow
def test_two_workers_train_the_same_model_as_one(
    command: Command, zoo: pathlib.Path, iris_csv: str, tmp_path: pathlib.Path
) -> None:
    """All-reduce, each worker on half of a batch; the last batch of 22 records is split as well."""
    pytest.importorskip("ray")
    shared = [f"--model_zoo={zoo}", "--model_def=odps_iris_dnn_model.odps_iris_dnn_model.custom_model"]
    shared += [f"--data_reader_params={READER}", f"--training_data={iris_csv}", f"--validation_data={iris_csv}"]
    shared += ["--num_epochs=1", "--checkpoint_steps=2", "--seed=3"]

    one = command("elasticdl", "train", *shared, "--minibatch_size=32", f"--output={tmp_path / 'one'}")
    two = command(
        *["elasticdl", "train", *shared, "--minibatch_size=16", f"--output={tmp_path / 'two'}"],
        *["--engine=ray", "--num_workers=2", "--distribution_strategy=AllreduceStrategy"],
    )

    assert one.returncode == 0, one.stderr[-3000:]
    assert two.returncode == 0, two.stderr[-5000:]
    records = [json.loads((tmp_path / f"{name}_run" / "run.json").read_text()) for name in ("one", "two")]
    cluster = records[1]["cluster"]
    assert (cluster["workers"], cluster["failures"], cluster["redone_steps"]) == ([2], [], 0)
    assert [(one["first_step"], one["last_step"]) for one in cluster["tries"]] == [(0, 5)]
    assert all(speed["examples_per_second"] for speed in cluster["speeds"].values())
    for name, value in records[0]["metrics"]["eval"].items():
        assert records[1]["metrics"]["eval"][name] == pytest.approx(value, rel=1e-4)
    checkpoints = tmp_path / "two_run" / "checkpoints"
    assert sorted(path.name for path in checkpoints.glob("*.index")) == [f"version-{n}.index" for n in (2, 4, 5)]
    assert ask(tmp_path / "two")["output"].shape == (2, 3)


# Training a record adds 1 to its vectors in two tables: one of all ids, and one of the ids that occurred.
COUNTING = """
import json, os, signal, threading, time
import tensorflow as tf
from elasticdl.python.elasticdl.layers.embedding import Embedding

def custom_model():
    ids = tf.keras.Input((1,), dtype="int64", name="id")
    table = tf.keras.layers.Embedding(600000, 1, embeddings_initializer="zeros")(ids)
    vectors = Embedding(1, embeddings_initializer="zeros")(ids * 1000003)
    return tf.keras.Model(ids, tf.keras.layers.Flatten()(table + vectors))

def feed(dataset, mode, metadata):
    def parse(line):
        number = tf.reshape(tf.strings.to_number(line, tf.int64), [1])
        return {"id": number} if mode == "prediction" else ({"id": number}, number)
    return dataset.map(parse).shuffle(100) if mode == "training" else dataset.map(parse)

def loss(labels, predictions):
    return -tf.reduce_sum(predictions)

def optimizer():
    return tf.keras.optimizers.SGD(1.0)
"""
KILLED = """
def kill():
    while not os.path.exists(os.path.join(FOLDER, "version-120.index")):
        time.sleep(0.02)
    if not os.path.exists(os.path.join(FOLDER, "killed")):
        open(os.path.join(FOLDER, "killed"), "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "worker":
    threading.Thread(target=kill, daemon=True).start()
"""


def counting_job(folder: pathlib.Path, more: str) -> list[str]:
    """Returns the arguments of a job with two epochs of 100 steps and a checkpoint every 20 steps."""
    (folder / "counting.py").write_text(
        COUNTING + f"\nFLAG, FOLDER = {str(folder / 'flag')!r}, {str(folder / 'c')!r}\n"
    )
    (folder / "job.py").write_text(f"from counting import *\n{more}")
    (folder / "ids.txt").write_text("".join(f"{number}\n" for number in range(1000)))
    line = [f"--model_zoo={folder}", "--model_def=job.custom_model", f"--training_data={folder}/ids.txt"]
    line += ["--minibatch_size=10", "--num_epochs=2", "--checkpoint_steps=20", f"--checkpoint_dir={folder}/c"]
    return [*line, f"--output={folder}/out"]


def counts_in(folder: pathlib.Path) -> list[dict[float, int]]:
    """Returns the number of occurrences of each count in the tables of a job's last checkpoint."""
    import numpy as np
    import tensorflow as tf

    saved = tf.train.load_checkpoint(str(folder / "c" / "version-200"))
    names = [name for name in saved.get_variable_to_shape_map() if "/embeddings/.ATTR" in name and "model" in name]
    found = [np.unique(saved.get_tensor(name), return_counts=True) for name in sorted(names)]
    return [dict(zip(map(float, values), map(int, numbers), strict=True)) for values, numbers in found]


EACH_TWICE = [{0.0: 599_000, 2.0: 1000}, {0.0: (1 << 17) - 1000, 2.0: 1000}]


@pytest.mark.thorough
@pytest.mark.slow
def test_with_parameter_servers_each_record_counts_once_also_when_a_worker_is_killed(
    command: Command, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("ray")
    done = command(
        *["elasticdl", "train", *counting_job(tmp_path, KILLED), "--distribution_strategy=ParameterServerStrategy"],
        *["--engine=ray", "--num_workers=2", "--num_ps_pods=1", "--cpus-per-worker=0.5"],
    )

    assert done.returncode == 0, done.stderr[-5000:]
    cluster = json.loads((tmp_path / "out_run" / "run.json").read_text())["cluster"]
    assert any("worker 0 process was ended by SIGKILL" in failure for failure in cluster["failures"])
    assert (cluster["workers"], cluster["replaced"], cluster["redone_steps"]) == ([2], 1, 0)
    assert "worker 0 has died and is started again; the others continue." in done.stderr
    assert counts_in(tmp_path) == EACH_TWICE
    import tensorflow as tf

    serve = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    assert serve(tf.constant(["0", "999", "1000"]))["output"].numpy().ravel().tolist() == [4, 4, 0]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_job_with_a_shuffling_feed_resumes_in_the_same_order(command: Command, tmp_path: pathlib.Path) -> None:
    line = counting_job(tmp_path, INTERRUPTED.partition("optimizer\n")[2].replace("== 50", "== 150"))
    assert command("elasticdl", "train", *line).returncode == 1
    done = command("elasticdl", "train", *line)

    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Resuming from {tmp_path}/c/version-140, at step 140." in done.stderr
    assert counts_in(tmp_path) == EACH_TWICE


@pytest.mark.thorough
@pytest.mark.slow
def test_one_worker_trains_beside_idle_parameter_servers(
    command: Command, zoo: pathlib.Path, iris_csv: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"chief": ["127.0.0.1:34567"], "ps": ["127.0.0.1:34568"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}))
    line = [f"--model_zoo={zoo}", "--model_def=odps_iris_dnn_model.odps_iris_dnn_model.custom_model"]
    line += [f"--training_data={iris_csv}", f"--data_reader_params={READER}", f"--output={tmp_path / 'out'}"]
    done = command("elasticdl", "train", *line)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the parameter servers stay idle" in done.stderr
    assert (tmp_path / "out" / "saved_model.pb").is_file()


def test_parameter_servers_need_a_chief_a_worker_and_a_model_made_for_them(tmp_path: pathlib.Path) -> None:
    from types import ModuleType

    from generic_trainer import FnArgs, InputError, ModuleError
    from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
    from generic_trainer.executors.dialects.elasticdl.parameter_servers import make_server_strategy
    from generic_trainer.executors.dialects.elasticdl.parts import Parts
    from generic_trainer.executors.distributed.tf_config import ClusterTask

    task = ClusterTask("chief", 0, {"chief": ("a:1",), "ps": ("b:1",)})
    with pytest.raises(InputError, match="The cluster has 1 chief, 1 ps: with parameter servers it needs"):
        make_server_strategy(FnArgs(), task)
    module = ModuleType("job")
    module.__file__ = "job.py"
    module.model, module.optimizer = object(), dict  # type: ignore[attr-defined]
    with pytest.raises(ModuleError, match=r"job\.py: model is created when the file is imported\. Why\. Write"):
        Parts(module, None, ElasticDLOptions()).require_functions("Why.")


@pytest.mark.thorough
@pytest.mark.slow
def test_sigterm_saves_and_ends_so_that_it_is_run_again(
    signalled: Signalled, zoo: pathlib.Path, iris_csv: str, tmp_path: pathlib.Path
) -> None:
    line = ["elasticdl", "train", f"--model_zoo={zoo}", f"--data_reader_params={READER}"]
    line += ["--model_def=odps_iris_dnn_model.odps_iris_dnn_model.custom_model"]
    line += [f"--training_data={iris_csv}", "--num_epochs=0", "--max_step=10000000", f"--output={tmp_path / 'out'}"]

    _, code = signalled(line, "Step 200: train", signal.SIGTERM)
    assert code == 143
    [saved] = (tmp_path / "out_run" / "checkpoints").glob("*.index")
    step = int(saved.stem.removeprefix("version-"))
    assert step >= 200
    said, _ = signalled(line, "Resuming from", signal.SIGKILL)
    assert f"version-{step}, at step {step}." in said
    assert not (tmp_path / "out").exists()
