"""Error messages for faulty DLRover confs. All run in one subprocess, which `tf.estimator` requires."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

# Each case changes a working conf; its error is printed as [case, type, message with notes].
PROGRAM = """
import json, sys, types
import tensorflow.compat.v1 as tf
from generic_trainer.executors.dialects.dlrover.shim import provide_dlrover
from generic_trainer.executors.estimator import restore_estimator
from generic_trainer.executors.fn_args import FnArgs

restore_estimator()
provide_dlrover()
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.reader.file_reader import FileReader
from dlrover.trainer.tensorflow.util.column_info import Column
from generic_trainer.executors.dialects.dlrover.conf import find_conf
from generic_trainer.executors.dialects.dlrover.run import train

FOLDER = sys.argv[1]

class Rows(ElasticReader):
    count = 40

    def count_data(self):
        self._data_nums = self.count

    def read_data_by_index_range(self, start_index, end_index):
        return [f"{i},{2 * i}" for i in range(start_index, end_index)]

class Linear(tf.estimator.Estimator):
    def __init__(self, model_dir, config=None, params=None):
        super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

    def model_fn(self, features, labels, mode, params):
        answer = tf.get_variable("w", []) * tf.cast(features["x"], tf.float32)
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, answer)
        loss = tf.losses.mean_squared_error(tf.cast(labels, tf.float32), answer)
        step = tf.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(mode, answer, loss, tf.train.AdamOptimizer().minimize(loss, step))

def conf(**changes):
    columns = changes.pop("columns", COLUMNS)
    reader = changes.pop("reader", Rows("rows"))
    source = {"path": changes.pop("path")} if "path" in changes else {"reader": reader}
    train_set = {**source, "columns": columns, "batch_size": 8, "epoch": 1}
    values = {"classifier_class": Linear, "train_set": train_set, "eval_set": {**train_set, "reader": Rows("rows")}}
    return type("TrainConf", (), {**values, **changes})

def column(name, dtype="float32", **more):
    return Column.create(name=name, dtype=dtype, **more)

COLUMNS = [column("x"), column("y", is_label=True)]

class NeverCounts(Rows):
    def count_data(self):
        pass

class Empty(Rows):
    count = 0

class Short(Rows):
    def read_data_by_index_range(self, start_index, end_index):
        return super().read_data_by_index_range(start_index, end_index)[:-1]

class Numbers(Rows):
    def read_data_by_index_range(self, start_index, end_index):
        return [(i, 2 * i) for i in range(start_index, end_index)]

class Raises(Rows):
    count = 400

    def read_data_by_index_range(self, start_index, end_index):
        if end_index > 200:
            raise ConnectionError("the table is gone")
        return super().read_data_by_index_range(start_index, end_index)

def written(name, text):
    with open(f"{FOLDER}/{name}", "w") as file:
        file.write(text)
    return f"{FOLDER}/{name}"

GOOD = "".join(f"{i},{2 * i}\\n" for i in range(30))
SHORT = written("short.csv", "x,y\\n" + GOOD + "7\\n" + GOOD)
WORD = written("word.csv", "x,y\\n" + GOOD + "seven,14\\n")
HEADER = written("header.csv", "x,y\\n")
TABS = written("tabs.csv", "x\\ty\\n1\\t2\\n")
CASES = {
    "good": {},
    "no estimator": {"classifier_class": dict},
    "a dotted name that is not there": {"classifier_class": "collections.OrderedDic"},
    "no label": {"columns": [column("x"), column("y")]},
    "two labels": {"columns": [column("x", is_label=True), column("y", is_label=True)]},
    "dtype": {"columns": [column("x", "flaot32"), column("y", is_label=True)]},
    "same name": {"columns": [column("x"), column("x", is_label=True)]},
    "no columns": {"columns": ()},
    "too few fields": {"reader": FileReader(SHORT)},
    "not a number": {"reader": FileReader(WORD)},
    "another delimiter": {"reader": FileReader(TABS)},
    "header only": {"reader": FileReader(HEADER)},
    "never counts": {"reader": NeverCounts("table")},
    "empty": {"reader": Empty("table")},
    "fewer rows": {"reader": Short("table")},
    "rows of tuples": {"reader": Numbers("table")},
    "raises in the middle": {"reader": Raises("table")},
    "unreadable path": {"path": f"file://{FOLDER}/shrot.csv"},
    "unknown scheme": {"path": "odps://project/table"},
    "no reader": {"reader": None},
    "a reader of nothing": {"reader": 5},
    "negative steps": {"max_steps": -1},
    "no eval_set": {"eval_set": None},
    "save by both": {"save_steps": 10, "save_secs": 10},
}

def say(case, action):
    try:
        action()
    except Exception as error:
        said = "\\n".join([str(error), *getattr(error, "__notes__", [])])
        print(json.dumps([case, type(error).__name__, said]), flush=True)
    else:
        print(json.dumps([case, "", ""]), flush=True)

for number, (case, changes) in enumerate(CASES.items()):
    work = f"{FOLDER}/{number}"
    fn_args = FnArgs(train_files=[], eval_files=[], serving_model_dir=f"{work}/model", model_run_dir=f"{work}/run")
    say(case, lambda: train(conf(**changes), fn_args, "conf.py: TrainConf"))
module = types.ModuleType("conf")
module.__file__ = "conf.py"
say("no conf", lambda: find_conf(module, None))
module.TrainConf = conf()
module.TrainConf.__module__ = "conf"
say("another conf", lambda: find_conf(module, "TrianConf"))
module.Unfinished = type("Unfinished", (), {"classifier_class": Linear, "train_set": None})
say("no train_set", lambda: find_conf(module, "Unfinished"))
module.Other = type("Other", (), {**vars(conf())})
module.Other.__module__ = "conf"
say("two confs", lambda: find_conf(module, None))
"""

SAID = {
    "good": ("", ""),
    "no estimator": ("ModuleError", "conf.py: TrainConf: classifier_class=dict is not a tf.estimator.Estimator"),
    "a dotted name that is not there": ("ModuleError", "collections has no 'OrderedDic'. Did you mean 'OrderedDict'?"),
    "no label": ("InputError", "train_set must have exactly one column with is_label=True; it has none of x, y."),
    "two labels": ("InputError", "train_set must have exactly one column with is_label=True; it has 'x' and 'y'."),
    "dtype": ("InputError", "'flaot32'"),
    "same name": ("InputError", "2 columns with the name 'x'"),
    "no columns": ("InputError", "train_set has no columns"),
    "too few fields": ("InputError", "short.csv, row 31 after the header"),
    "not a number": ("InputError", "word.csv, row 31 after the header"),
    "another delimiter": ("InputError", "tabs.csv, row 1 after the header"),
    "header only": ("InputError", "header.csv has no rows below the header"),
    "never counts": ("InputError", "NeverCounts"),
    "empty": ("InputError", "Empty"),
    "fewer rows": ("RowsError", "Short.read_data_by_index_range(0, 40) returned 39 rows; it must return 40"),
    "rows of tuples": ("RowsError", "row 0 is of type tuple: (0, 0)"),
    "raises in the middle": ("ConnectionError", "the table is gone"),
    "unreadable path": ("InputError", "Did you mean 'short.csv'?"),
    "unknown scheme": ("WrongPathError", "'odps://project/table'. It must begin with one of fake://, file://"),
    "no reader": ("InputError", "conf.py: TrainConf: train_set has no reader and no path"),
    "a reader of nothing": ("InputError", "the reader 5 has neither read_data_by_index_range"),
    "negative steps": ("InputError", "max_steps=-1: give an integer from 0 to"),
    "save by both": ("InputError", "save_steps=10 and save_secs=10: set only one of them"),
    "no conf": ("ModuleError", "conf.py contains no conf class"),
    "another conf": ("ModuleError", "no conf class 'TrianConf'. Did you mean 'TrainConf'?"),
    "no train_set": ("ModuleError", "conf.py: Unfinished lacks train_set"),
    "no eval_set": ("InputError", "conf.py: TrainConf: eval_set must be a dict with columns and a reader or path"),
    "two confs": ("ModuleError", "several conf classes: TrainConf, Other"),
}


@pytest.fixture(scope="module")
def said(program: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    printed = program(PROGRAM, tmp_path_factory.mktemp("conf"))
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    return {case: (kind, message) for case, kind, message in lines}


@pytest.mark.slow
@pytest.mark.parametrize("case", SAID)
def test_a_faulty_conf_is_rejected_with_the_reason(said: dict[str, tuple[str, str]], case: str) -> None:
    kind, words = SAID[case]
    assert said[case][0] == kind, said[case]
    assert words in said[case][1]


@pytest.mark.slow
def test_a_bad_row_is_reported_with_its_number_and_the_reason(said: dict[str, tuple[str, str]]) -> None:
    _, short = said["too few fields"]
    assert "'7'" in short
    assert "1" in short and "2" in short  # noqa: PT018
    _, word = said["not a number"]
    assert "'seven,14'" in word
    assert "'x'" in word
    assert r"'\t'" in said["another delimiter"][1]
    _, raised = said["raises in the middle"]
    assert "failed 3 times" in raised
    assert "[160, 240)" in raised
