"""Measures the throughput of an ElasticDL model file in this project, in plain Keras, and in ElasticDL's own loop.

    python benchmarks/elasticdl_throughput.py
    python benchmarks/elasticdl_throughput.py --quick

The file is module_files/iris_elasticdl.py; the data are 200,000 CSV rows resampled from the iris dataset. The sides:

- dialect: the training of `generic-trainer elasticdl train`, including the CSV reader.
- keras: `fit` of the same model (tf-keras) on tf.data's CsvDataset, with the same parsing as a parallel map, the same
  shuffling and the same batches.
- elasticdl: a reimplementation of the local mode's loop of ElasticDL 0.2.0rc1, because that release cannot be installed
  with a current TensorFlow: a Python generator over csv.reader, the file's function with mode None, batches, and
  `model.call` under a GradientTape, all in eager mode. It omits tasks and logs, which would make it slower.

Each measurement runs in a subprocess, and the sides take turns. The time of an epoch counts from the request of its
first batch to the end of its last step. The first epoch includes compilation and is not counted; of the others the
fastest one counts, as it is the least disturbed on a shared machine. The relevant numbers are the ratios of the
medians: the targets are at least 0.9 of keras and 10 times elasticdl.
"""

# ruff: noqa: T201 (prints a table)

from __future__ import annotations

import argparse
import csv
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

SIDES = ("dialect", "keras", "elasticdl")
COLUMNS = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]
NEEDED = {"keras": 0.9, "elasticdl": 10.0}
_MODULE = pathlib.Path(__file__).resolve().parent.parent / "module_files" / "iris_elasticdl.py"
_WARM_UP_STEPS = 50  # for the eager loop, which does not compile
_SENTINEL = "examples per second:"


def main() -> None:
    """Prints a table of all rounds and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument(
        "--epochs", type=int, default=3, help="measured epochs, after the first (elasticdl: one, in parts)"
    )
    parser.add_argument("--minibatch-size", type=int, default=64)
    parser.add_argument("--quick", action="store_true", help="smoke test: one round of 20,000 rows")
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "CSV"), help=argparse.SUPPRESS)  # in child processes
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.rows, options.epochs = 1, 20_000, 2
    if options.measure:
        print(_SENTINEL, options.rows / _measure(*options.measure, options))
        return
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "iris.csv")
        _write_csv(data, options.rows)
        _compare(data, options)


def _compare(data: str, options: argparse.Namespace) -> None:
    print(
        f"{options.rows:,} rows, batches of {options.minibatch_size}; examples per second\n"
        "elasticdl: a reimplementation of the local training loop of 0.2.0rc1, which cannot be installed.\n"
        f"{'round':>6}" + "".join(f"{side:>12}" for side in SIDES)
    )
    speeds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(options.rounds):
        # Alternate the order, because the first side may run on a colder machine.
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            speeds[side].append(_measure_in_subprocess(side, data, options))
        print(f"{number + 1:>6}" + "".join(f"{speeds[side][-1]:>12,.0f}" for side in SIDES), flush=True)
    medians = {side: statistics.median(values) for side, values in speeds.items()}
    print(f"{'median':>6}" + "".join(f"{medians[side]:>12,.0f}" for side in SIDES))
    for side, needed in NEEDED.items():
        print(f"dialect / {side}: {medians['dialect'] / medians[side]:.2f} (target: at least {needed:g})")


def _measure_in_subprocess(side: str, data: str, options: argparse.Namespace) -> float:
    line = [sys.executable, __file__, "--measure", side, data]
    line += ["--rows", str(options.rows), "--epochs", str(options.epochs)]
    line += ["--minibatch-size", str(options.minibatch_size)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(line)} exited with code {done.returncode}:\n{done.stderr[-3000:]}")
    return float(next(line for line in done.stdout.splitlines() if line.startswith(_SENTINEL)).split()[-1])


def _write_csv(path: str, rows: int) -> None:
    """Writes rows resampled from the 150 of the iris dataset, with noise added so that rows are distinct."""
    import numpy as np
    from sklearn.datasets import load_iris

    random = np.random.default_rng(0)
    flowers = load_iris()
    drawn = random.integers(0, len(flowers.target), rows)
    measures = flowers.data[drawn] + random.normal(0, 0.05, (rows, 4))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for values, species in zip(measures, flowers.target[drawn], strict=True):
            writer.writerow([*(f"{value:.3f}" for value in values), species])


def _measure(side: str, data: str, options: argparse.Namespace) -> float:
    from generic_trainer.executors.dialects.loading import loaded
    from generic_trainer.executors.modules.source import find_source

    with tempfile.TemporaryDirectory() as scratch:
        with loaded(find_source(str(_MODULE), scratch)) as module:
            return _MEASURES[side](module, data, options)


def _dialect(module: Any, data: str, options: argparse.Namespace) -> float:
    from generic_trainer.executors.dialects.elasticdl import training
    from generic_trainer.executors.fn_args import FnArgs

    config = {
        "training_data": data,
        "data_reader_params": {"columns": COLUMNS, "sep": ","},
        "minibatch_size": options.minibatch_size,
        "num_epochs": 1 + options.epochs,
    }
    clock = _clock()
    module.callbacks = lambda: [clock]
    with tempfile.TemporaryDirectory() as folder:
        fn_args = FnArgs(
            train_files=[],
            eval_files=[],
            serving_model_dir=os.path.join(folder, "model"),
            model_run_dir=os.path.join(folder, "run"),
            custom_config={**config, "checkpoint_dir": os.path.join(folder, "checkpoints")},
        )
        training.train(module, "custom_model", fn_args)
    return float(min(clock.seconds[1:]))


def _keras(module: Any, data: str, options: argparse.Namespace) -> float:
    import tensorflow as tf

    def parse(*row: Any) -> Any:  # as in the file's feed
        return tf.strings.to_number(tf.stack(row[:-1])), tf.strings.to_number(row[-1], tf.int32)

    def loss(labels: Any, predictions: Any) -> Any:  # Keras adds a dimension to the labels
        return module.loss(tf.squeeze(labels, 1), predictions)

    dataset = tf.data.experimental.CsvDataset(data, [tf.string] * len(COLUMNS), header=True)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).shuffle(1024, seed=1)
    dataset = dataset.batch(options.minibatch_size).prefetch(tf.data.AUTOTUNE)
    model = module.custom_model()
    model.compile(optimizer=module.optimizer(), loss=loss)
    clock = _clock()
    model.fit(dataset, epochs=1 + options.epochs, callbacks=[clock], verbose=0)
    return float(min(clock.seconds[1:]))


def _elasticdl(module: Any, data: str, options: argparse.Namespace) -> float:
    """Trains one epoch like `LocalExecutor` of ElasticDL 0.2.0rc1 (contracts/elasticdl.md, 5.3 and 5.4)."""
    import tensorflow as tf

    model, optimizer = module.custom_model(), module.optimizer()

    def read_records() -> Iterator[list[str]]:
        with open(data, newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = next(rows)
            places = [header.index(name) for name in COLUMNS]
            for row in rows:
                yield [row[place] for place in places]

    def train(features: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = model.call(features, training=True)
            loss = module.loss(labels, outputs)
            if model.losses:
                loss += tf.math.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    def batches() -> Any:
        dataset = tf.data.Dataset.from_generator(read_records, tf.string)
        return module.feed(dataset, None, None).batch(options.minibatch_size)

    for features, labels in itertools.islice(batches(), _WARM_UP_STEPS):
        train(features, labels)
    steps = -(-options.rows // options.minibatch_size)
    part = -(-steps // options.epochs)  # the fastest part counts, like the fastest epoch of the other sides
    times = [time.perf_counter()]
    for step, (features, labels) in enumerate(batches(), 1):
        train(features, labels)
        if step % part == 0:
            times.append(time.perf_counter())
    return min(after - before for before, after in itertools.pairwise(times)) * steps / part


def _clock() -> Any:
    """Returns a callback that records the duration of each epoch in `seconds`."""
    import tensorflow as tf

    class Clock(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._begin = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds.append(time.perf_counter() - self._begin)

    return Clock()


_MEASURES: dict[str, Callable[[Any, str, argparse.Namespace], float]] = {
    "dialect": _dialect,
    "keras": _keras,
    "elasticdl": _elasticdl,
}


if __name__ == "__main__":
    main()
