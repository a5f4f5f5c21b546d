"""Measures the throughput of the dialects' training loops, compared with a direct `fit` with the best known flags.

    python benchmarks/training_loops.py
    python benchmarks/training_loops.py --quick

The model has the size of the taxi example: three numbers and twelve categories, wide and deep (embeddings of width 8,
layers of 100, 70, 48 and 34 units), in batches of 512. The data are in memory and cheap to batch, so that only the
loops differ. This file is the training module of all sides of this project, run by `training.worker.execute` as in a
pipeline:

- Keras 2 and 3: `run_fn` with the same compile and fit as the other side.
- ElasticDL: `custom_model`, `feed`, `loss` and `optimizer`, with the defaults of that dialect.
- Estimator: `model_fn`, with an Estimator's default hooks, logs and summaries.

The other side is `fit` of the same model on the same data with steps_per_execution=16, the fastest of 1, 4, 16 and 50,
each with and without jit_compile: Keras 3 uses XLA by default, and Keras 2 is slower with it.

An Estimator's Adam updates only the embedding rows in the gradient; so does the optimizer of its peer (`legacy.Adam` of
Keras 2), which is a tenth slower for this model than the newer Adam.

The Estimator is bound by its session, which runs one step at a time from Python. Reusing prepared calls
(`estimator/session_calls.py`) reduced the tiny model's step from 0.55 to 0.35 ms, of which the graph takes 0.15 and the
monitored session with its hooks the rest. Disabling summaries and logs made no difference. For the taxi model, samples
of the stack show 92 % of a step in the session's run, 3.5 % in hooks after it and 4 % in other Python code. The main
thread takes 0.35 ms of CPU time per step, and 0.1 ms in `fit`. Several steps per session run would need the model
function inside a graph loop, which would affect hooks, summaries and random seeds. With groups of steps the remaining
overhead is Keras's Python code between steps, about 10 us, which matters only for tiny models.

Both sides are processes that train continuously but take turns by epoch: a pair is one epoch of each. The first epochs,
which compile and autotune, are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

from pairs import Row, arguments, compare, report
from turns import Turns, epochs_as_turns, side

BATCH_SIZE = {"taxi": 512, "tiny": 64}
STEPS = {"taxi": 300, "tiny": 1500}  # per epoch
QUICK_STEPS = 100
SIZES = (10, 10, 10, 10, 10, 10, 10, 11, 61, 24, 8, 13)  # values per category
EXAMPLES = 51_200
_MODEL, _STEPS = "TRAINING_LOOPS_MODEL", "TRAINING_LOOPS_STEPS"  # environment variables of a side's process


def main() -> None:
    """Compares the sides and prints the table."""
    options = arguments(__doc__, pairs=7)
    if options.measure:
        _SIDES[options.measure]()
        return
    rows = [
        _compare("Keras 3", "keras3", "fit3", "taxi", options, at_least=0.95),
        _compare("Keras 2", "keras2", "fit2", "taxi", options, at_least=0.95),
        _compare("ElasticDL", "elasticdl", "fit2", "taxi", options, at_least=0.95),
        _compare("Estimator", "estimator", "fit2-legacy", "taxi", options, at_least=0.95),
    ]
    if not options.quick:
        rows.append(_compare("Estimator", "estimator", "fit2-legacy", "tiny", options))
    report(rows, options)


def _compare(
    what: str, ours: str, peer: str, model: str, options: argparse.Namespace, at_least: float | None = None
) -> Row:
    steps = QUICK_STEPS if options.quick else STEPS[model]
    with _side(ours, model, steps) as our_turn, _side(peer, model, steps) as their_turn:
        for turn in (our_turn, their_turn):  # waits for the warm-up of one side after the other
            turn()
        return compare(
            f"training loop, {what}, {model} model, batches of {BATCH_SIZE[model]}",
            "fit with the best flags",
            options,
            ours=our_turn,
            peer=their_turn,
            unit="examples/s",
            at_least=at_least,
        )


def _side(name: str, model: str, steps: int) -> contextlib.AbstractContextManager[Callable[[], float]]:
    variables = {_MODEL: model, _STEPS: str(steps), "TF_USE_LEGACY_KERAS": "0" if name.endswith("3") else "1"}
    return side(__file__, name, variables)


def _model_name() -> str:
    return os.environ[_MODEL]


def _steps() -> int:
    return int(os.environ[_STEPS])


def _examples() -> int:
    """Returns the number of examples in an epoch."""
    return _steps() * BATCH_SIZE[_model_name()]


# Model and data of all sides.


def data() -> Any:
    """Returns the unbatched examples of an epoch."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    numbers = random.normal(size=(EXAMPLES, 3)).astype("float32")
    ids = np.stack([random.integers(0, size, EXAMPLES) for size in SIZES], 1).astype("int32")
    labels = (numbers[:, :1] + ids[:, :1] / 5 > 1).astype("float32")
    examples = tf.data.Dataset.from_tensor_slices(({"numbers": numbers, "ids": ids}, labels))
    return examples.shuffle(1024, seed=1).repeat().take(_examples())


def batches() -> Any:
    """Returns the batches of an epoch."""
    import tensorflow as tf

    return data().batch(BATCH_SIZE[_model_name()]).prefetch(tf.data.AUTOTUNE)


def custom_model() -> Any:
    """Returns the model: logits of shape [batch, 1]."""
    import tensorflow as tf

    layers = tf.keras.layers
    numbers = tf.keras.Input((3,), name="numbers")
    ids = tf.keras.Input((len(SIZES),), name="ids", dtype="int32")
    if _model_name() == "tiny":
        hidden = layers.Dense(16, activation="relu")(numbers)
        return tf.keras.Model({"numbers": numbers, "ids": ids}, layers.Dense(1)(hidden))
    columns = [ids[:, place] for place in range(len(SIZES))]
    embedded = [layers.Embedding(size, 8)(column) for size, column in zip(SIZES, columns, strict=True)]
    deep = layers.Concatenate()([numbers, *embedded])
    for units in (100, 70, 48, 34):
        deep = layers.Dense(units, activation="relu")(deep)
    wide = [layers.Embedding(size, 1)(column) for size, column in zip(SIZES, columns, strict=True)]
    logits = layers.Add()([layers.Dense(1)(deep), *wide])
    return tf.keras.Model({"numbers": numbers, "ids": ids}, logits)


def loss(labels: Any, predictions: Any) -> Any:
    """Returns the mean cross entropy of a batch."""
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, predictions))


def optimizer() -> Any:
    """Returns the optimizer."""
    import tensorflow as tf

    return tf.keras.optimizers.Adam(0.001)


# This project's sides, by dialect.


def run_fn(fn_args: Any) -> None:
    """Trains with `fit` and the best flags, as a training module."""
    del fn_args
    _fit(steps_per_execution=16)


def feed(dataset: Any, mode: str, metadata: Any) -> Any:
    """Returns the in-memory examples instead of the reader's records."""
    del dataset, mode, metadata
    return data()


def callbacks() -> list[Any]:
    """Returns ElasticDL's callbacks."""
    return [epochs_as_turns(_examples())]


def input_fn(mode: str) -> Any:
    """Returns the Estimator's batches, repeated indefinitely."""
    del mode
    return batches().repeat()


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Returns the EstimatorSpec for training, or for the dry run of the export before it."""
    import tensorflow.compat.v1 as tf

    logits = custom_model()(features)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
    value = loss(labels, logits)
    train_op = tf.train.AdamOptimizer(0.001).minimize(value, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=value, train_op=train_op)


def serving_input_receiver_fn() -> Any:
    """Returns placeholders for the features, for the dry run of the export."""
    import tensorflow.compat.v1 as tf

    features = {
        "numbers": tf.placeholder(tf.float32, [None, 3]),
        "ids": tf.placeholder(tf.int32, [None, len(SIZES)]),
    }
    return tf.estimator.export.ServingInputReceiver(features, features)


def hooks() -> list[Any]:
    """Returns the Estimator's hooks: one that makes a turn of each epoch."""
    import tensorflow.compat.v1 as tf

    class StepsAsTurns(tf.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self) -> None:
            self._turns = Turns(_examples())
            self._step = 0

        def before_run(self, run_context: Any) -> None:
            if self._step % _steps() == 0:
                self._turns.begin()

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self._step += 1
            if self._step % _steps() == 0:
                self._turns.end()

    return [StepsAsTurns()]


def _legacy_adam() -> Any:
    """Returns Keras 2's legacy Adam, which makes sparse updates of embeddings like an Estimator's Adam."""
    import tensorflow as tf

    return tf.keras.optimizers.legacy.Adam(0.001)


def _fit(make_optimizer: Callable[[], Any] = optimizer, **flags: Any) -> None:
    model = custom_model()
    model.compile(make_optimizer(), loss, **flags)
    model.fit(batches(), epochs=10**6, callbacks=[epochs_as_turns(_examples())], verbose=0)


def _execute(dialect: str, function: str | None = None) -> None:
    """Runs this file as a training module, as the trainer's subprocess does."""
    from generic_trainer import FnArgs, TrainingOptions
    from generic_trainer.executors.modules import keras_version
    from generic_trainer.executors.modules.source import find_source
    from generic_trainer.executors.training import worker

    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder, "rows.csv")
        rows.write_text("x\n1\n", encoding="utf-8")
        fn_args = FnArgs(
            serving_model_dir=os.path.join(folder, "model"),
            model_run_dir=os.path.join(folder, "run"),
            checkpoint_dir=os.path.join(folder, "checkpoints"),
            train_files=[],
            eval_files=[],
            seed=1,
            train_steps=10**9,
            eval_steps=1,
            custom_config={
                "training_data": str(rows), "minibatch_size": BATCH_SIZE[_model_name()], "num_epochs": 10**6
            },
        )  # fmt: skip
        keras = keras_version.KerasChoice("2" if os.environ["TF_USE_LEGACY_KERAS"] == "1" else "3", "this side's")
        training_options = TrainingOptions(dialect=dialect)
        request = worker.TrainingRequest(find_source(__file__, folder), function, fn_args, training_options, keras)
        worker.execute(request.to_json())


_SIDES: dict[str, Callable[[], None]] = {
    "keras2": lambda: _execute("run_fn"),
    "keras3": lambda: _execute("run_fn"),
    "elasticdl": lambda: _execute("elasticdl"),
    "estimator": lambda: _execute("model_fn"),
    "fit2": lambda: _fit(steps_per_execution=16),
    "fit2-legacy": lambda: _fit(_legacy_adam, steps_per_execution=16),
    "fit3": lambda: _fit(steps_per_execution=16),
}


if __name__ == "__main__":
    main()
