"""The effect of each attribute of a DLRover conf. All jobs run in one subprocess, which `tf.estimator` requires."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

# Each job trains a conf in a separate folder; the results are printed as {job: result}.
PROGRAM = """
import glob, json, logging, os, shutil, sys
from generic_trainer.executors.dialects.dlrover.shim import provide_dlrover
from generic_trainer.executors.estimator import restore_estimator

restore_estimator()
provide_dlrover()
import tensorflow.compat.v1 as tf
from absl import logging as absl_logging
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.reader.file_reader import FileReader
from dlrover.trainer.tensorflow.util.column_info import Column
from dlrover.trainer.util.conf_util import Configuration, ConfigurationManagerInterface
from generic_trainer.executors.dialects.dlrover.run import train
from generic_trainer.executors.fn_args import FnArgs

FOLDER = sys.argv[1]
os.chdir(FOLDER)
found, said = {}, []
logger = logging.getLogger("tensorflow")
logger.setLevel(logging.INFO)
for name in ("tensorflow", "absl"):
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger(name).addHandler(handler)
absl_logging.set_verbosity(absl_logging.INFO)

class Rows(ElasticReader):
    def count_data(self):
        self._data_nums = 40

    def read_data_by_index_range(self, start_index, end_index):
        return [f"{i % 10},{2 * (i % 10)}" for i in range(start_index, end_index)]

class Linear(tf.estimator.Estimator):
    seen = {}

    def __init__(self, model_dir, config=None, params=None):
        self.seen.update(config=config, params=params)
        super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

    def model_fn(self, features, labels, mode, params):
        answer = tf.get_variable("w", [], initializer=tf.zeros_initializer()) * features["x"]
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, answer)
        loss = tf.losses.mean_squared_error(labels, answer)
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.GradientDescentOptimizer(0.001)
        metrics = {"right": tf.metrics.accuracy(labels, tf.round(answer))}
        return tf.estimator.EstimatorSpec(mode, answer, loss, optimizer.minimize(loss, step), metrics)

COLUMNS = (Column.create(name="x", dtype="float32"), Column.create(name="y", dtype="float32", is_label=True))

def conf(train_set=None, eval_set=None, **values):
    default = {"reader": Rows("rows"), "columns": COLUMNS, "batch_size": 8, "epoch": 1}
    sets = {"train_set": {**default, **(train_set or {})}, "eval_set": {**default, **(eval_set or {})}}
    return type("TrainConf", (), {"classifier_class": Linear, **sets, **values})

def run(name, a_conf, **config):
    del said[:]
    shutil.rmtree(f"{name}/model", ignore_errors=True)
    fn_args = FnArgs(
        train_files=[], eval_files=[], serving_model_dir=f"{name}/model", model_run_dir=f"{name}/run",
        custom_config=config or None,
    )
    metrics = train(a_conf, fn_args, f"conf.py: {name}")
    return metrics, f"{name}/run/model"

def step(folder):
    return int(tf.train.load_variable(folder, "global_step/.ATTRIBUTES/VARIABLE_VALUE"))

def saved_steps(folder):
    return sorted(int(path.split("-")[-1].split(".")[0]) for path in glob.glob(f"{folder}/model.ckpt-*.index"))

def signatures(folder):
    with tf.Graph().as_default(), tf.Session() as session:
        graph = tf.saved_model.load(session, ["serve"], folder)
    return {name: sorted(one.inputs) for name, one in graph.signature_def.items()}

def steps_logged():
    return [line.split("step = ")[1].split(" ")[0] for line in said if "step = " in line]

metrics, folder = run("plain", conf())
found["plain"] = [step(folder), saved_steps(folder), sorted(metrics), os.listdir(f"{folder}/export")]

_, folder = run("numbers", conf(max_steps=25, save_steps=10, log_steps=5, keep_checkpoint_max=2,
                                train_set={"epoch": None, "batch_size": None}, batch_size=4, epoch=9))
found["numbers"] = [step(folder), saved_steps(folder), steps_logged()]

_, folder = run("seconds", conf(save_secs=600))
found["seconds"] = saved_steps(folder)

session = tf.ConfigProto(intra_op_parallelism_threads=1)
run("configs", conf(session_config=session, run_config={"save_summary_steps": 7}, params={"a": 1}, note="hello"),
    params_are="mine", a=2)
config, params = Linear.seen["config"], Linear.seen["params"]
found["configs"] = [config.session_config.intra_op_parallelism_threads, config.save_summary_steps, params]
found["configuration"] = Configuration().note

compared = []
def compare_fn(prev_eval_result, cur_eval_result):
    compared.append(sorted(cur_eval_result))
    return False, {"fake_metric": 0.9}
_, folder = run("compare", conf(compare_fn=compare_fn, train_set={"epoch": 2}))
_, folder = run("compare", conf(compare_fn=compare_fn, train_set={"epoch": 4}))
found["compare"] = [compared, len(os.listdir(f"{folder}/export/best_exporter"))]

# The loss grows with the steps, so the first evaluation's model is the best, and its metrics are those of the job.
class Worse(Linear):
    def model_fn(self, features, labels, mode, params):
        step = tf.train.get_or_create_global_step()
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, features["x"])
        with tf.control_dependencies([features["x"]]):
            later = tf.assign_add(step, 1)
        return tf.estimator.EstimatorSpec(mode, features["x"], tf.cast(step, tf.float32), later)

metrics, folder = run("worse", conf(classifier_class=Worse, save_steps=2))
exported = max(glob.glob(f"{folder}/export/best_exporter/*")) + "/variables/variables"
found["worse"] = [step(folder), int(tf.train.load_variable(exported, "global_step")), metrics]

# A completed job, its rerun after an interruption that followed training, the next job, and one that starts over.
a_conf = conf(model_dir="again_model")
run("again", a_conf, use_conf_model_dir=True)
metrics, _ = run("again", a_conf, use_conf_model_dir=True, has_trained=True)
found["again"] = [step("again_model"), "all rows are already trained" in " ".join(said), sorted(metrics)]
run("again", a_conf, use_conf_model_dir=True)
found["next"] = step("again_model")
run("again", a_conf, use_conf_model_dir=True, has_trained=True, train_data_anew=True)
found["anew"] = step("again_model")

# Streams: documented by DLRover, and a reader_fn in the reader's place.
class Reader:
    def __init__(self, path=None, batch_size=None):
        pass

    def iterator(self):
        while True:
            yield "1,2"

def reader_fn():
    for number in range(12):
        yield f"{number},{2 * number}"

_, folder = run("endless", conf(train_set={"reader": Reader("./data")}, eval_set={"reader": Reader()}, max_steps=7,
                                eval_steps=3))
found["endless"] = step(folder)
_, folder = run("reader_fn", conf(train_set={"reader_fn": reader_fn, "reader": None, "epoch": 3}))
found["reader_fn"] = step(folder)
position = json.loads(tf.train.load_variable(folder, "generic_trainer/data_position"))
found["rows of reader_fn"] = position["rows"]
_, folder = run("reader_fn", conf(train_set={"epoch": 1}))
found["other data"] = [step(folder), [line for line in said if "belongs to different data" in line]]
_, folder = run("reader_fn", conf(train_set={"reader_fn": reader_fn, "reader": None, "epoch": 1}))
found["other data again"] = [step(folder), [line for line in said if "belongs to different data" in line]]

# The first generation's paths; rows of a file whose header looks like data.
with open("rows.csv", "w") as file:
    file.writelines(f"{i},{2 * i}\\n" for i in range(1, 21))
path = {"reader": None, "path": "file://rows.csv"}
_, folder = run("path", conf(train_set=path, eval_set=path))
found["path"] = [step(folder), [line for line in said if "looks like data" in line]]
fake = {"reader": None, "path": "fake://test.data"}
_, folder = run("fake", conf(train_set={**fake, "batch_size": 1000}, eval_set=fake, eval_steps=2))
found["fake"] = step(folder)

# The label in the signature, as DLRover had it.
_, folder = run("label", conf(), label_in_signature=True)
found["signatures"] = [signatures("plain/model"), signatures("label/model")]

# DLRover's documents show an adaptor without a constructor, around a ready-made Estimator.
class Adaptor(tf.estimator.Estimator):
    def model_fn(self, features, labels, mode, params):
        column = tf.feature_column.numeric_column("x")
        self.estimator = tf.estimator.LinearRegressor([column])
        return self.estimator._model_fn(features, labels, mode, self.run_config)

metrics, _ = run("adaptor", conf(classifier_class=Adaptor, params={"task": "regression"}))
found["adaptor"] = sorted(metrics)
ready_made = {"feature_columns": [tf.feature_column.numeric_column("x")]}
metrics, _ = run("ready-made", conf(classifier_class=tf.estimator.LinearRegressor, params=ready_made))
found["ready-made"] = sorted(metrics)

# Sparse columns, for a model that takes them and for one that was written for DLRover, where they were not sparse.
class Words(ElasticReader):
    def count_data(self):
        self._data_nums = 16

    def read_data_by_index_range(self, start_index, end_index):
        return [("a\\x01b", "b", "")[i % 3] + f",{i},{i % 2}" for i in range(start_index, end_index)]

class Sparse(Linear):
    shapes = []

    def model_fn(self, features, labels, mode, params):
        self.shapes.append(type(features["words"]).__name__)
        words = tf.feature_column.categorical_column_with_vocabulary_list("words", ["a", "b"])
        x = tf.feature_column.input_layer(features, [tf.feature_column.indicator_column(words)])
        return super().model_fn({"x": tf.reduce_sum(x, 1)}, labels, mode, params)

class Dense(Sparse):
    def model_fn(self, features, labels, mode, params):
        tf.reshape(features["words"], (-1, 1))
        return super().model_fn(features, labels, mode, params)

columns = [Column.create(name="words", dtype="string", is_sparse=True), *COLUMNS]
words = {"reader": Words("words"), "columns": columns}
for kind in (Sparse, Dense):
    del Sparse.shapes[:]
    run(kind.__name__, conf(classifier_class=kind, train_set=words, eval_set=words))
    found[kind.__name__] = [sorted(set(Sparse.shapes)), signatures(f"{kind.__name__}/model")["serving_default"]]
with tf.Graph().as_default(), tf.Session() as session:
    loaded = tf.saved_model.load(session, ["serve"], "Sparse/model")
    serving = loaded.signature_def["serving_default"]
    feed = {serving.inputs["words"].name: ["a\\x01b", "b", ""], serving.inputs["x"].name: [1.0, 1.0, 1.0]}
    answers = session.run(serving.outputs["output"].name, feed)
    weight = session.run("w:0")
    examples = [tf.train.Example() for _ in range(3)]
    examples[0].features.feature["words"].bytes_list.value.extend([b"a", b"b"])
    examples[1].features.feature["words"].bytes_list.value.append(b"b")
    serving = loaded.signature_def["examples:serving_default"]
    feed = {serving.inputs["examples"].name: [example.SerializeToString() for example in examples]}
    again = session.run(serving.outputs["output"].name, feed)
found["answers"] = [(answers / weight).tolist(), (again / weight).tolist()]

# A conf with defaults beside it, as DLRover merges them: what the conf says wins.
class Defaults(ConfigurationManagerInterface):
    priority = 1 << 31
    max_steps = 3
    save_steps = 1
    keep_checkpoint_max = 9

_, folder = run("defaults", conf(save_steps=2))
found["defaults"] = saved_steps(folder)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(program: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return json.loads(program(PROGRAM, tmp_path_factory.mktemp("confs")).splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.legacy
@pytest.mark.slow
def test_a_short_job_is_evaluated_and_exported(found: dict[str, Any]) -> None:
    assert found["plain"] == [5, [0, 5], ["eval_loss", "eval_right"], ["best_exporter"]]


@pytest.mark.thorough
@pytest.mark.legacy
@pytest.mark.slow
def test_numeric_attributes_of_a_conf_take_effect(found: dict[str, Any]) -> None:
    """max_steps, batch_size, epoch, save_steps, keep_checkpoint_max and log_steps: 40 rows in batches of 4, 9 times."""
    steps, saved, logged = found["numbers"]
    assert steps == 25
    assert saved == [20, 25]
    assert [step for step in logged if not step.endswith(",")] == ["1", "6", "11", "16", "21"]
    assert found["seconds"] == [0, 5]  # save_secs alone


@pytest.mark.legacy
@pytest.mark.slow
def test_configs_and_params_reach_the_estimator(found: dict[str, Any]) -> None:
    assert found["configs"] == [1, 7, {"a": 2}]  # custom_config overrides params
    assert found["configuration"] == "hello"


@pytest.mark.legacy
@pytest.mark.slow
def test_other_registered_confs_are_merged(found: dict[str, Any]) -> None:
    assert found["defaults"] == [0, 2, 3]


@pytest.mark.legacy
@pytest.mark.slow
def test_a_dlrover_compare_fn_is_called(found: dict[str, Any]) -> None:
    compared, exports = found["compare"]
    assert compared == [["loss", "right"]]
    assert exports == 2  # the first export of BestExporter in each process


@pytest.mark.legacy
@pytest.mark.slow
def test_metrics_are_those_of_the_exported_model(found: dict[str, Any]) -> None:
    assert found["worse"] == [5, 2, {"eval_loss": 2.0}]


@pytest.mark.legacy
@pytest.mark.slow
def test_a_job_interrupted_after_training_is_not_trained_again_but_the_next_job_is(found: dict[str, Any]) -> None:
    assert found["again"] == [5, True, ["eval_loss", "eval_right"]]
    assert found["next"] == 10
    assert found["anew"] == 15


@pytest.mark.legacy
@pytest.mark.slow
def test_streams_are_read(found: dict[str, Any]) -> None:
    assert found["endless"] == 7
    assert found["reader_fn"] == 5  # 36 rows in batches of 8
    assert found["rows of reader_fn"] == 36


@pytest.mark.legacy
@pytest.mark.slow
def test_other_data_in_the_same_folder_is_read_from_its_beginning(found: dict[str, Any]) -> None:
    said = (
        "conf.py: reader_fn: train_set: the position in the checkpoint belongs to different data; "
        "reading starts at the first"
    )
    for name, steps in (("other data", 10), ("other data again", 12)):
        step, [warning] = found[name]
        assert step == steps
        assert warning.startswith(said)


@pytest.mark.legacy
@pytest.mark.slow
def test_paths_of_the_first_generation_are_read(found: dict[str, Any]) -> None:
    steps, said = found["path"]
    assert steps == 3  # 19 rows after the header
    assert [line.split(" is skipped")[0] for line in said] == [
        f"conf.py: path: {name}: the first row of rows.csv" for name in ("train_set", "eval_set")
    ]
    assert found["fake"] == 10  # 10,000 rows in batches of 1,000


@pytest.mark.legacy
@pytest.mark.slow
def test_the_signature_omits_the_label_by_default(found: dict[str, Any]) -> None:
    without, with_label = found["signatures"]
    assert without == {"serving_default": ["x"], "examples:serving_default": ["examples"]}
    assert with_label == {"serving_default": ["x", "y"], "examples:serving_default": ["examples"]}


@pytest.mark.legacy
@pytest.mark.slow
def test_adaptors_without_a_constructor_and_ready_made_estimators_train(found: dict[str, Any]) -> None:
    assert "eval_average_loss" in found["adaptor"]
    assert found["ready-made"] == found["adaptor"]


@pytest.mark.legacy
@pytest.mark.slow
def test_sparse_columns_are_sparse_if_the_model_supports_them(found: dict[str, Any]) -> None:
    assert found["Sparse"] == [["SparseTensor"], ["words", "x"]]
    assert "SparseTensor" not in found["Dense"][0]
    assert found["answers"] == [[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]]  # as text, and from tf.Examples
