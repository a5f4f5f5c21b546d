"""Measures whole trainings on 10 and 100 times the data: examples per second, and peak memory.

    python benchmarks/scale.py
    python benchmarks/scale.py --quick       # 500 to 50,000 rows, less than the buffers: a smoke test

Each measurement is a subprocess that trains, as the trainer's subprocess does, and exports. The memory is its peak
resident set size (VmHWM). Examples per second are counted from the first reported step to the last, without start,
tracing, evaluation and export. The data once are 15,000 rows, more than the shuffle buffer of `tf_dataset_factory`.

- Keras: module_files/iris_keras.py, gzipped TFRecords, shuffled, read through `fn_args.data_accessor`.
- Estimator: module_files/iris_estimator.py, with the same files.
- ElasticDL: module_files/iris_elasticdl.py, a CSV file with a header row.
- DLRover: a conf with a reader that generates its rows, and a checkpoint every 500 steps.

Ten times the data take tenths of a second in the fastest dialects, in which other load on the machine can halve the
throughput; the ratio is then too high. Memory may grow by 5%: buffers fill, and the allocator fragments.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from pairs import Row, arguments, compare, read_measurement, report, send

ROWS, QUICK_ROWS = 15_000, 500
TIMES = (1, 10, 100)
BATCH_SIZE = 128
FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
COLUMNS = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]
_MODULES = pathlib.Path(__file__).resolve().parent.parent / "module_files"
_KERAS = {"keras": "3", "estimator": "2", "elasticdl": "2", "dlrover": "2"}
_SECONDS_BETWEEN_LOOKS = 0.005

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
    batch_size = 128
    save_steps = 500
    eval_steps = 5
    train_set = {"reader": Reader("train", ROWS), "columns": COLUMNS, "epoch": 1}
    eval_set = {"reader": Reader("eval", 640), "columns": COLUMNS}
"""


def main() -> None:
    """Compares the sizes for each dialect, and prints the table."""
    options = arguments(__doc__, pairs=1)
    if options.measure:
        dialect, _, rows = options.measure.partition(":")
        speed = _train(dialect, int(rows), options.folder)
        send({"speed": speed, "memory": _peak()})
        return
    once = QUICK_ROWS if options.quick else ROWS
    sizes = [times * once for times in TIMES]
    with tempfile.TemporaryDirectory(prefix="scale-") as options.folder:
        for rows in sizes:
            _write_data(options.folder, rows)
        report([row for dialect in _KERAS for row in _rows(dialect, sizes, options)], options)


def _rows(dialect: str, sizes: list[int], options: argparse.Namespace) -> list[Row]:
    """Measures a dialect with all sizes of data, in ascending and descending order in turns; returns the ratios."""
    measured: dict[int, list[dict[str, float]]] = {rows: [] for rows in sizes}
    for pair in range(options.pairs):
        for rows in reversed(sizes) if pair % 2 else sizes:
            measured[rows].append(_measure_in_subprocess(dialect, rows, options))
    ten, hundred = sizes[-2:]
    compared: list[tuple[str, str, int, int, dict[str, float]]] = [
        (f"examples per second, {dialect}", "speed", hundred, ten, {"at_least": 0.9}),
        *(
            (f"resident memory, {dialect}", "memory", large, small, {"at_most": 1.05})
            for small, large in itertools.pairwise(sizes)
        ),
    ]
    return [
        compare(
            f"{name}: training on {large:,} rows",
            f"on {small:,}",
            options,
            ours=(sent[value] for sent in measured[large]).__next__,
            peer=(sent[value] for sent in measured[small]).__next__,
            unit="MB" if value == "memory" else "/s",
            **target,
        )
        for name, value, large, small, target in compared
    ]


def _measure_in_subprocess(dialect: str, rows: int, options: argparse.Namespace) -> dict[str, float]:
    line = [sys.executable, __file__, "--measure", f"{dialect}:{rows}", "--folder", options.folder]
    environment = {"TF_USE_LEGACY_KERAS": "1"} if _KERAS[dialect] == "2" else {}
    sent: dict[str, float] = json.loads(read_measurement(line, environment))
    return sent


def _peak() -> float:
    """Returns this process's peak resident set size in MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


class _Steps:
    """The times at which steps were reported, seen from a thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: list[tuple[float, float]] = []  # (time, steps)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at the reports during the block."""
        end = threading.Event()
        thread = threading.Thread(target=self._watch, args=[end])
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def per_second(self) -> float:
        """Returns the steps per second."""
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        return (last - first) / (end - begin) if len(self._seen) > 1 else 0.0  # of few data

    def _watch(self, end: threading.Event) -> None:
        from generic_trainer.executors.monitoring.progress_reports import read

        while not end.wait(_SECONDS_BETWEEN_LOOKS):
            progress = read(self._path)
            if progress is not None and progress.steps > (self._seen[-1][1] if self._seen else 0):
                self._seen.append((time.perf_counter(), progress.steps))


def _train(dialect: str, rows: int, folder: str) -> float:
    """Trains one epoch; returns the examples per second."""
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors.modules import keras_version
    from generic_trainer.executors.modules.source import find_source
    from generic_trainer.executors.monitoring import progress_reports
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
        options = TrainingOptions(dialect={"keras": "run_fn", "estimator": "trainer_fn"}.get(dialect, dialect))
        request = worker.TrainingRequest(source, source.function, fn_args, options, keras)
        reports = os.environ[progress_reports.VARIABLE] = progress_reports.create_progress_file(scratch)
        steps = _Steps(reports)
        with steps.watched():
            worker.execute(request.to_json())
        return BATCH_SIZE * steps.per_second()


def _work(dialect: str, data: str) -> tuple[str, dict[str, Any]]:
    """Returns the module reference and the custom_config of a dialect."""
    if dialect in ("keras", "estimator"):
        return str(_MODULES / f"iris_{dialect}.py"), {"epochs": 1, "batch_size": BATCH_SIZE}
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
