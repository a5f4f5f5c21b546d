"""Measures steps per second of Estimators with the restored tf.estimator and with a TensorFlow that includes it.

    python benchmarks/estimator_steps.py --native .venv-legacy/bin/python
    python benchmarks/estimator_steps.py --native .venv-legacy/bin/python --quick

Each measurement runs in a subprocess; the sides take turns, so that other load on the machine affects both. Building
the graph and the first steps are not counted. The result is the 20th percentile of the durations of blocks of 100
steps, as fast blocks are the least disturbed on a shared machine. The relevant number is the ratio of the medians: 1.0
or more means that the restored tf.estimator is at least as fast.
"""

# ruff: noqa: T201 (prints a table)

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

MODELS = ("wide_and_deep", "custom")
_WARM_UP = 200
_BLOCK = 100  # summaries are written every 100 steps, so once per block
_SENTINEL = "steps per second:"


def main() -> None:
    """Prints a table of all pairs and the ratio for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", required=True, help="Python interpreter with TensorFlow up to 2.15")
    parser.add_argument(
        "--restored", default=sys.executable, help="Python interpreter with a later TensorFlow (default: this one)"
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000, help="measured steps of each process")
    parser.add_argument("--quick", action="store_true", help="smoke test: one pair of 500 steps")
    parser.add_argument("--measure", choices=MODELS, help=argparse.SUPPRESS)  # what the child processes do
    options = parser.parse_args()
    if options.quick:
        options.pairs, options.steps = 1, 500
    if options.measure:
        print(_SENTINEL, _measure(options.measure, options.steps))
        return
    for model in MODELS:
        _compare(model, options)


def _compare(model: str, options: argparse.Namespace) -> None:
    sides: dict[str, list[float]] = {"restored": [], "native": []}
    print(f"{model}: steps per second\n{'pair':>6}{'restored':>12}{'native':>12}")
    for pair in range(options.pairs):
        # Alternate the order, because the first side may run on a colder machine.
        for side in ("restored", "native") if pair % 2 == 0 else ("native", "restored"):
            sides[side].append(_measure_in_subprocess(getattr(options, side), model, options))
        print(f"{pair + 1:>6}{sides['restored'][-1]:>12.1f}{sides['native'][-1]:>12.1f}", flush=True)
    restored, native = (statistics.median(sides[side]) for side in ("restored", "native"))
    print(f"{'median':>6}{restored:>12.1f}{native:>12.1f}\n{model}: ratio {restored / native:.3f}\n")


def _measure_in_subprocess(python: str, model: str, options: argparse.Namespace) -> float:
    line = [python, __file__, "--native", "-", "--measure", model, "--steps", str(options.steps)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(line)} exited with code {done.returncode}:\n{done.stderr[-3000:]}")
    return float(next(line for line in done.stdout.splitlines() if line.startswith(_SENTINEL)).split()[-1])


def _measure(model: str, steps: int) -> float:
    import tensorflow as tf

    if "estimator" not in dir(tf):
        from generic_trainer.executors.estimator import restore_estimator

        restore_estimator()

    class Clock(tf.estimator.SessionRunHook):  # type: ignore[misc,name-defined]
        """Records the time after every 100th step, after 200 warm-up steps."""

        def __init__(self) -> None:
            self.done = 0
            self.times: list[float] = []

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.done += 1
            if self.done >= _WARM_UP and self.done % _BLOCK == 0:
                self.times.append(time.perf_counter())

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(folder, tf_random_seed=1)
        estimator = {"wide_and_deep": _wide_and_deep, "custom": _custom}[model](config)
        estimator.train(_input_fn, steps=_WARM_UP + steps, hooks=[clock])
    blocks = [after - before for before, after in itertools.pairwise(clock.times)]
    return _BLOCK / statistics.quantiles(blocks, n=5)[0]


def _input_fn() -> Any:
    """Returns 4,096 in-memory examples in batches of 64, with two numbers and a category as features."""
    import numpy as np
    import tensorflow as tf

    random = np.random.RandomState(0)
    features = {
        "x": random.rand(4096, 1).astype("float32"),
        "y": random.rand(4096, 1).astype("float32"),
        "city": random.choice([b"Kiel", b"Bonn", b"Ulm"], [4096, 1]),
    }
    labels = (features["x"] > features["y"]).astype("int32")
    return tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(4096, 1).repeat().batch(64).prefetch(2)


def _columns() -> tuple[list[Any], list[Any]]:
    import tensorflow as tf

    numbers = [tf.feature_column.numeric_column(name) for name in ("x", "y")]
    city = tf.feature_column.categorical_column_with_vocabulary_list("city", ["Kiel", "Bonn", "Ulm"])
    return [*numbers, city], [*numbers, tf.feature_column.embedding_column(city, 8)]


def _wide_and_deep(config: Any) -> Any:
    import tensorflow as tf

    wide, deep = _columns()
    return tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[64, 32], config=config
    )


def _custom(config: Any) -> Any:
    import tensorflow.compat.v1 as tf

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        net = tf.feature_column.input_layer(features, _columns()[1])
        for units in (128, 64):
            net = tf.layers.dropout(tf.layers.dense(net, units, tf.nn.relu), 0.1, training=True)
        loss = tf.losses.sigmoid_cross_entropy(labels, tf.layers.dense(net, 1))
        train_op = tf.train.AdamOptimizer(0.001).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return tf.estimator.Estimator(model_fn, config=config)


if __name__ == "__main__":
    main()
