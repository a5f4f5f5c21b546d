"""Measures mixed precision training throughput on GPUs with this project's trainer and with a custom training loop.

    make bench-gpu
    python benchmarks/gpu.py --quick
    python benchmarks/gpu.py --on-cpu-devices    the same code, tiny, on two logical devices of a CPU: does it run?

Two models in mixed_float16 on all GPUs of the machine (MirroredStrategy): one with the architecture of ResNet-50, and a
wide and deep model with 26 categories of 100,000 values each. The data are random and cached in memory, so that the
training loop and the device are measured, not the input.

- ours: this file as a training module with Keras's `fit`, run by `training.worker.execute` as in a pipeline.
- there: a `tf.function` of several steps around `strategy.run`, with the same optimizer and loss scaling.

The utilization is measured by nvidia-smi during each side's turn. Results on CPU devices are not meaningful for GPUs.
"""

# ruff: noqa: T201 (prints a table)

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pairs
from turns import Turns, epochs_as_turns, side

MODELS = {"resnet": "of ResNet-50's shape", "wide": "wide and deep"}
SWITCH = "--on-cpu-devices"
LEARNING_RATE = 0.001
_MODEL, _ON_CPU, _STEPS = "GPU_BENCHMARK_MODEL", "GPU_BENCHMARK_ON_CPU", "GPU_BENCHMARK_STEPS"
_SMI = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=200"]


def main() -> int:
    """Compares the sides and prints the table; returns the exit code, 2 if there is no GPU."""
    options = pairs.arguments(__doc__, switches={SWITCH: "run tiny models on two logical devices of a CPU"})
    if options.measure:
        os.environ["TF_USE_LEGACY_KERAS"] = "0"  # the models use Keras 3
        _SIDES[options.measure]()
        return 0
    if not options.on_cpu_devices and not pairs.measure_in_subprocess(__file__, "devices", options):
        print(f"TensorFlow found no GPU, so nothing was measured. Use {SWITCH} to run the code without one.")
        return 2
    if options.on_cpu_devices:
        print("Running on logical devices of a CPU: the results do not apply to GPUs.")
    rows = [row for model in MODELS for row in _compare(model, options)]
    pairs.report(rows, options)
    return 0


def _compare(model: str, options: argparse.Namespace) -> Iterator[pairs.Row]:
    steps = 4 if options.on_cpu_devices else 50 if options.quick else 200
    variables = {_MODEL: model, _ON_CPU: "1" if options.on_cpu_devices else "", _STEPS: str(steps)}
    device = "CPU devices" if options.on_cpu_devices else "GPU"
    used: dict[str, list[float]] = {"ours": [], "by_hand": []}
    with side(__file__, "ours", variables) as ours, side(__file__, "by_hand", variables) as by_hand:

        def with_utilization(name: str, turn: Callable[[], float]) -> Callable[[], float]:
            def measured_turn() -> float:
                with _utilization(used[name]):
                    return turn()

            return measured_turn

        for turn in (ours, by_hand):
            turn()
        yield pairs.compare(
            f"{device}, mixed precision, {MODELS[model]}",
            "a hand-written loop",
            options,
            ours=with_utilization("ours", ours),
            peer=with_utilization("by_hand", by_hand),
            unit="examples/s",
        )
    if used["ours"] and len(used["ours"]) == len(used["by_hand"]):
        yield pairs.Row(
            f"{device}'s utilization, {MODELS[model]}", "a hand-written loop", "%", used["ours"], used["by_hand"]
        )


@contextlib.contextmanager
def _utilization(values: list[float]) -> Iterator[None]:
    """Appends the mean utilization of all GPUs during the block in percent, if nvidia-smi is available."""
    if shutil.which(_SMI[0]) is None:
        yield
        return
    process = subprocess.Popen(_SMI, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield
    finally:
        process.terminate()
        output = process.communicate()[0].split()
    samples = [float(value) for value in output if value.isdigit()]
    if samples:
        values.append(max(0.01, statistics.mean(samples)))  # avoids a division by 0 in ratios


# Models and data of both sides.


def _is_tiny() -> bool:
    return bool(os.environ[_ON_CPU])


def _steps() -> int:
    return int(os.environ[_STEPS])


def _strategy() -> Any:
    """Returns a strategy for all GPUs, or for two logical devices of the CPU."""
    import tensorflow as tf

    if not _is_tiny():
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)  # two processes share the device
        return tf.distribute.MirroredStrategy()
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def _model() -> Any:
    import tensorflow as tf

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    return _residual_network() if os.environ[_MODEL] == "resnet" else _wide_and_deep()


def _residual_network() -> Any:
    """Returns a network with the depth and width of ResNet-50 and 1,000 logits; on CPU a tiny one."""
    import tensorflow as tf

    layers = tf.keras.layers
    size, width, stages = (32, 4, (1, 1)) if _is_tiny() else (224, 64, (3, 4, 6, 3))

    def convolved(x: Any, filters: int, kernel: int, stride: int = 1, activate: bool = True) -> Any:
        x = layers.BatchNormalization()(layers.Conv2D(filters, kernel, stride, "same", use_bias=False)(x))
        return layers.ReLU()(x) if activate else x

    inputs = tf.keras.Input((size, size, 3))
    x = layers.MaxPooling2D(3, 2, "same")(convolved(inputs, width, 7, 2))
    for stage, blocks in enumerate(stages):
        filters = width * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            short = x if block else convolved(x, 4 * filters, 1, stride, activate=False)
            inner = convolved(convolved(x, filters, 1, stride), filters, 3)
            x = layers.ReLU()(layers.Add()([short, convolved(inner, 4 * filters, 1, activate=False)]))
    logits = layers.Dense(1000, dtype="float32")(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(inputs, logits)


def _wide_and_deep() -> Any:
    """Returns a wide and deep network with 13 numeric and 26 categorical inputs and two logits."""
    import tensorflow as tf

    layers = tf.keras.layers
    values, width, units = (50, 4, (16,)) if _is_tiny() else (100_000, 32, (1024, 512, 256))
    numbers, ids = tf.keras.Input((13,)), tf.keras.Input((26,), dtype="int32")
    embedded = layers.Flatten()(layers.Embedding(26 * values, width)(ids))
    deep = layers.Concatenate()([numbers, embedded])
    for count in units:
        deep = layers.Dense(count, "relu")(deep)
    wide = layers.Flatten()(layers.Embedding(26 * values, 2)(ids))
    return tf.keras.Model((numbers, ids), layers.Dense(2, dtype="float32")(layers.Concatenate()([deep, wide])))


def _batch_size() -> int:
    """Returns the batch size per device."""
    return 4 if _is_tiny() else {"resnet": 128, "wide": 4096}[os.environ[_MODEL]]


def _data(replicas: int) -> tuple[Any, int]:
    """Returns a repeated dataset of two cached global batches, and the global batch size."""
    import numpy as np
    import tensorflow as tf

    random, size = np.random.default_rng(0), _batch_size() * replicas
    if os.environ[_MODEL] == "resnet":
        pixels = 32 if _is_tiny() else 224
        inputs: Any = random.normal(size=(2 * size, pixels, pixels, 3)).astype("float32")
        labels = random.integers(0, 1000, 2 * size)
    else:
        ids = random.integers(0, 26 * (50 if _is_tiny() else 100_000), (2 * size, 26)).astype("int32")
        inputs = (random.normal(size=(2 * size, 13)).astype("float32"), ids)
        labels = random.integers(0, 2, 2 * size)
    batches = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(size, drop_remainder=True)
    return batches.cache().repeat().prefetch(tf.data.AUTOTUNE), size


def _loss() -> Any:
    import tensorflow as tf

    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum_over_batch_size")


# The two sides.


def run_fn(fn_args: Any) -> None:
    """Trains with `fit`, as the training module of side "ours"."""
    import tensorflow as tf

    del fn_args
    strategy = _strategy()
    batches, size = _data(strategy.num_replicas_in_sync)
    with strategy.scope():
        model = _model()
        model.compile(tf.keras.optimizers.Adam(LEARNING_RATE), _loss(), jit_compile=False)
    turns = epochs_as_turns(_steps() * size)
    model.fit(batches, epochs=10**6, steps_per_epoch=_steps(), callbacks=[turns], verbose=0)


def _ours() -> None:
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors.modules import keras_version
    from generic_trainer.executors.modules.source import find_source
    from generic_trainer.executors.training import worker

    with tempfile.TemporaryDirectory() as folder:
        fn_args = FnArgs(serving_model_dir=os.path.join(folder, "model"), model_run_dir=os.path.join(folder, "run"))
        request = worker.TrainingRequest(
            find_source(__file__, folder), None, fn_args, TrainingOptions(dialect="run_fn"),
            keras_version.choose("3", []),
        )  # fmt: skip
        worker.execute(request.to_json())


def _by_hand() -> None:
    """Trains with a custom loop as in TensorFlow's guide to distributed training."""
    import tensorflow as tf

    strategy = _strategy()
    batches, size = _data(strategy.num_replicas_in_sync)
    with strategy.scope():
        model, loss = _model(), _loss()
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(LEARNING_RATE))
        optimizer.build(model.trainable_variables)

    def step(data: Any) -> None:
        inputs, labels = data
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True)) / strategy.num_replicas_in_sync
            scaled = optimizer.scale_loss(value)
        optimizer.apply_gradients(
            zip(tape.gradient(scaled, model.trainable_variables), model.trainable_variables, strict=True)
        )

    @tf.function  # type: ignore[untyped-decorator]
    def epoch(iterator: Any, steps: Any) -> None:
        for _ in tf.range(steps):
            strategy.run(step, (next(iterator),))

    iterator = iter(strategy.experimental_distribute_dataset(batches))
    turns = Turns(_steps() * size)
    while True:
        turns.begin()
        epoch(iterator, tf.constant(_steps()))
        turns.end()


def _devices() -> None:
    import tensorflow as tf

    pairs.send(len(tf.config.list_physical_devices("GPU")))


_SIDES: dict[str, Callable[[], None]] = {"ours": _ours, "by_hand": _by_hand, "devices": _devices}


if __name__ == "__main__":
    sys.exit(main())
