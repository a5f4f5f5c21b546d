"""Measures the peak memory of training with ten times the data, compared with the data once.

    python benchmarks/memory.py
    python benchmarks/memory.py --quick       # 2,000 and 20,000 rows, less than the buffers: a smoke test

Each measurement is a subprocess that trains one epoch, as the trainer's subprocess does, and exports; the result is its
peak resident set size (VmHWM). The data once are 15,000 rows, more than the shuffle buffer of `tf_dataset_factory`.

- Keras: module_files/iris_keras.py, gzipped TFRecords, shuffled, read through `fn_args.data_accessor`.
- ElasticDL: module_files/iris_elasticdl.py, a CSV file with a header row.
- DLRover: a conf with a reader that generates its rows, and a checkpoint every 50 steps.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import tempfile
from typing import Any

from pairs import Row, arguments, compare, measure_in_subprocess, report, send

ROWS, QUICK_ROWS = 15_000, 2_000
TIMES = 10
BATCH_SIZE = 64
FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
COLUMNS = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]
_MODULES = pathlib.Path(__file__).resolve().parent.parent / "module_files"
_KERAS = {"keras": "3", "elasticdl": "2", "dlrover": "2"}

CONF = """
import tensorflow.compat.v1 as tf
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.util.column_info import Column
from linear_dlrover import COLUMNS, LineEstimator

class Reader(ElasticReader):
    def __init__(self, path, rows):
        self.rows = rows
        super().__init__(path=path)

    def count_data(self):
        self._data_nums = self.rows

    def read_data_by_index_range(self, start_index, end_index):
        return [f"{index % 997},{index % 997 * 2}" for index in range(start_index, end_index)]

class TrainConf:
    classifier_class = LineEstimator
    params = {"learning_rate": 0.1}
    batch_size = 64
    save_steps = 50
    eval_steps = 5
    train_set = {"reader": Reader("train", ROWS), "columns": COLUMNS, "epoch": 1}
    eval_set = {"reader": Reader("eval", 640), "columns": COLUMNS}
"""


def main() -> None:
    """Compares both sizes for each dialect, and prints the table."""
    options = arguments(__doc__, pairs=2)
    if options.measure:
        dialect, _, rows = options.measure.partition(":")
        _train(dialect, int(rows), options.folder)
        send(_peak())
        return
    rows = QUICK_ROWS if options.quick else ROWS
    with tempfile.TemporaryDirectory(prefix="memory-") as options.folder:
        _write_data(options.folder, rows)
        _write_data(options.folder, TIMES * rows)
        report([_row(dialect, rows, options) for dialect in _KERAS], options)


def _row(dialect: str, rows: int, options: argparse.Namespace) -> Row:
    environment = {"TF_USE_LEGACY_KERAS": "1"} if _KERAS[dialect] == "2" else {}
    measure = functools.partial(measure_in_subprocess, __file__, options=options, environment=environment)
    return compare(
        f"resident memory while training on {TIMES * rows:,} rows, {dialect}",
        f"on {rows:,}",
        options,
        ours=lambda: measure(f"{dialect}:{TIMES * rows}"),
        peer=lambda: measure(f"{dialect}:{rows}"),
        unit="MB",
        at_most=1.05,
    )


def _peak() -> float:
    """Returns this process's peak resident set size in MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def _train(dialect: str, rows: int, folder: str) -> None:
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors.modules import keras_version
    from generic_trainer.executors.modules.source import find_source
    from generic_trainer.executors.training import worker

    data = os.path.join(folder, str(rows))
    reference, config = _work(dialect, data)
    keras = keras_version.KerasChoice(_KERAS[dialect], "the benchmark's")
    with tempfile.TemporaryDirectory() as scratch:
        fn_args = FnArgs(
            train_files=[] if dialect == "dlrover" else [f"{data}/train.gz"],
            eval_files=[] if dialect == "dlrover" else [f"{data}/eval.gz"],
            serving_model_dir=os.path.join(scratch, "model"),
            model_run_dir=os.path.join(scratch, "run"),
            checkpoint_dir=os.path.join(scratch, "checkpoints"),
            seed=1,
            custom_config=config,
        )
        source = find_source(reference, scratch)
        options = TrainingOptions(dialect={"keras": "run_fn"}.get(dialect, dialect))
        request = worker.TrainingRequest(source, source.function, fn_args, options, keras)
        worker.execute(request.to_json())


def _work(dialect: str, data: str) -> tuple[str, dict[str, Any]]:
    """Returns the module reference and the custom_config of a dialect."""
    if dialect == "keras":
        return str(_MODULES / "iris_keras.py"), {"epochs": 1, "batch_size": BATCH_SIZE}
    if dialect == "dlrover":
        return f"{data}/conf.py", {}
    csv = {
        "training_data": f"{data}/train.csv",
        "validation_data": f"{data}/eval.csv",
        "minibatch_size": BATCH_SIZE,
        "data_reader_params": {"columns": COLUMNS},
    }
    return str(_MODULES / "iris_elasticdl.py"), csv


def _write_data(folder: str, rows: int) -> None:
    """Writes the same random rows as TFRecords and as CSV, and the conf; the species is a function of four numbers."""
    import random

    import tensorflow as tf

    here = pathlib.Path(folder, str(rows))
    here.mkdir()
    draw = random.Random(1)  # noqa: S311
    flowers = [[round(draw.uniform(0, 8), 1) for _ in FEATURES] for _ in range(1000)]
    species = [int(sum(flower) // 11) for flower in flowers]
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    **{
                        name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                        for name, value in zip(FEATURES, flower, strict=True)
                    },
                    "variety": tf.train.Feature(int64_list=tf.train.Int64List(value=[kind])),
                }
            )
        ).SerializeToString()
        for flower, kind in zip(flowers, species, strict=True)
    ]
    lines = [f"{','.join(map(str, flower))},{kind}\n" for flower, kind in zip(flowers, species, strict=True)]
    for name, count in (("train", rows), ("eval", 640)):
        with tf.io.TFRecordWriter(str(here / f"{name}.gz"), tf.io.TFRecordOptions("GZIP", compression_level=1)) as file:
            for number in range(count):
                file.write(examples[number % 1000])
        with open(here / f"{name}.csv", "w", encoding="utf-8") as text:
            text.write(",".join(COLUMNS) + "\n")
            text.writelines(lines[number % 1000] for number in range(count))
    (here / "conf.py").write_text(CONF.replace("ROWS", str(rows)), encoding="utf-8")
    (here / "linear_dlrover.py").write_text((_MODULES / "linear_dlrover.py").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
