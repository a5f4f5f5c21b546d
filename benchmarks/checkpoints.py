"""Measures the training pause caused by a checkpoint, compared with a synchronous `tf.train.Checkpoint.save`.

    python benchmarks/checkpoints.py
    python benchmarks/checkpoints.py --quick        # 64 MB

The model has 64 layers of 16 MB, i.e. 1 GB of variables; every step with a batch of 32 updates all of them. The pause
is the duration of `save` plus the extra duration of the following step (difference of medians), which includes deferred
work. Training uses one processor, which leaves another one for writing, as in training on a GPU. In the row with a
batch of 4, steps are bound by memory bandwidth: they mostly read and write 1 GB of variables twice, and the copy
(12 GB/s, the memory's limit; neither two threads nor other instructions made it faster) competes with the step. In the
last row training uses all processors, so writing competes for them; the cost is the extra duration of all steps until
the checkpoint is complete.

The remaining pause is Python code that traverses the objects, 0.3 ms per variable, and contention between the copy and
a step's updates. If steps are shorter than four copies, `save` waits for the copy, 0.08 s per GB. Copies by TensorFlow,
made when the next step writes a variable, took 0.2 to 0.3 of the time of a synchronous save.

The first checkpoint of a training is not counted, because it also allocates the memory for the copy. Files are deleted
before they are flushed to the disk, so that the sides do not wait for each other's writes.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pairs import Row, arguments, read_measurement, report, send

LAYERS = 64
WIDTH, QUICK_WIDTH = 2048, 512  # 16 MB and 1 MB per layer
BATCH, SMALL_BATCH = 32, 4
_USUAL = 3  # steps before a checkpoint, to measure the usual duration


def main() -> None:
    """Measures each row in a subprocess, and prints the table."""
    options = arguments(__doc__, pairs=3)
    if options.measure:
        send(_measure(options))
        return
    what = "a GB of variables" if not options.quick else "64 MB of variables"
    save = "a synchronous tf.train.Checkpoint.save"
    report(
        [
            _row("eager", f"pause for one checkpoint, {what}", save, options, at_most=0.1),
            _row("estimator", f"pause for one checkpoint, {what}, Estimator", save, options, at_most=0.1),
            _row("memory", f"pause for one checkpoint, {what}, steps bound by the memory", save, options),
            _row("crowded", f"time that one checkpoint costs a training on all processors, {what}", save, options),
        ],
        options,
    )


def _row(side: str, what: str, against: str, options: argparse.Namespace, at_most: float | None = None) -> Row:
    line = [sys.executable, __file__, "--measure", side, "--pairs", str(options.pairs)]
    measured = json.loads(read_measurement(line + (["--quick"] if options.quick else [])))
    ours, peer = ([measured[f"{name} {pair}"] for pair in range(options.pairs)] for name in ("ours", "peer"))
    return Row(what, against, "s", ours, peer, at_most=None if options.quick else at_most)


def _measure(options: argparse.Namespace) -> dict[str, float]:
    import tensorflow as tf

    if options.measure != "crowded":
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    width = QUICK_WIDTH if options.quick else WIDTH
    pauses: dict[str, list[Pause]] = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
        with _SIDES[options.measure](folder, width) as sides:
            for pair in range(-1, options.pairs):  # the first pair allocates the memory
                # Alternate the order, because the first side may run on a colder machine.
                for name in ("ours", "peer")[:: 1 if pair % 2 == 0 else -1]:
                    pauses[name].append(sides[name]())
                    _delete_tensors(folder)
    return {
        f"{name} {pair}": seconds
        for name, measured in pauses.items()
        for pair, seconds in enumerate(_totals(measured[1:]))
    }


@dataclasses.dataclass(frozen=True)
class Pause:
    """Durations in seconds of a save, of the step after it, and of usual steps before it."""

    save: float
    after: float
    usual: Sequence[float]


def _totals(pauses: Sequence[Pause]) -> list[float]:
    """Returns the duration of each pause in seconds."""
    usual = statistics.median(seconds for pause in pauses for seconds in pause.usual)
    longer = statistics.median(pause.after for pause in pauses) - usual
    return [pause.save + max(0.0, longer) for pause in pauses]


Sides = dict[str, Callable[[], Pause]]


@contextlib.contextmanager
def _eager(folder: str, width: int, batch: int = BATCH) -> Iterator[Sides]:
    train, state, peer = _training(folder, width, batch)
    number = 0

    def pause(save: Callable[[], Any]) -> Pause:
        usual = [_seconds(train) for _ in range(_USUAL)]
        return Pause(_seconds(save), _seconds(train), usual)

    def ours() -> Pause:
        nonlocal number
        number += _USUAL + 1
        paused = pause(lambda: checkpoints.save(number))
        checkpoints.wait()
        return paused

    with _checkpoints(folder, state) as checkpoints:
        yield {"ours": ours, "peer": lambda: pause(peer)}


@contextlib.contextmanager
def _crowded(folder: str, width: int) -> Iterator[Sides]:
    train, state, peer = _training(folder, width, SMALL_BATCH)
    number = 0

    def ours() -> Pause:
        nonlocal number
        number += _USUAL + 1
        usual = statistics.median(_seconds(train) for _ in range(_USUAL))
        begin, steps = time.perf_counter(), 0
        checkpoints.save(number)
        while steps < 1 or checkpoints.is_writing:
            train()
            steps += 1
        return Pause(time.perf_counter() - begin - steps * usual, 0.0, [0.0])

    with _checkpoints(folder, state) as checkpoints:
        yield {"ours": ours, "peer": lambda: Pause(_seconds(peer), 0.0, [0.0])}


def _training(folder: str, width: int, batch: int) -> tuple[Callable[[], Any], Any, Callable[[], Any]]:
    """Returns a training step, the training state, and a function that saves the state synchronously."""
    import tensorflow as tf

    layers = [tf.Variable(tf.fill([width, width], 1 / width)) for _ in range(LAYERS)]
    train = tf.function(lambda: _train(tf.ones([batch, width]), layers))
    state = tf.train.Checkpoint(layers=layers)
    return train, state, lambda: state.write(os.path.join(folder, "peer", "ckpt"))


def _checkpoints(folder: str, state: Any) -> Any:
    from generic_trainer import AsyncCheckpoints

    return AsyncCheckpoints(state, os.path.join(folder, "ours"), max_to_keep=1)


@contextlib.contextmanager
def _estimator(folder: str, width: int) -> Iterator[Sides]:
    """Yields an Estimator session with the saver hook, and as the other side eager variables of the same size."""
    import tensorflow as tf
    from tensorflow.python.eager.context import eager_mode as eagerly

    from generic_trainer.executors.estimator.background_saving import BackgroundSaverHook

    class TimedHook(BackgroundSaverHook):
        took = 0.0

        def _save(self, session: Any, step: int) -> Any:
            begin = time.perf_counter()
            try:
                return super()._save(session, step)
            finally:
                self.took = time.perf_counter() - begin

    state = tf.train.Checkpoint(layers=[tf.Variable(tf.fill([width, width], 1.0)) for _ in range(LAYERS)])
    v1, every = tf.compat.v1, _USUAL + 2
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        layers = [
            v1.get_variable(f"layer_{number}", [width, width], initializer=v1.constant_initializer(1 / width))
            for number in range(LAYERS)
        ]
        with tf.control_dependencies([_train(tf.ones([BATCH, width]), layers)]):
            train = step.assign_add(1, read_value=False)
        saver = v1.train.Saver(max_to_keep=1, sharded=True)
        hook = TimedHook(os.path.join(folder, "ours"), save_steps=every, saver=saver)
        with v1.train.SingularMonitoredSession(hooks=[hook]) as session:

            def ours() -> Pause:
                # One step ran since the last checkpoint, so the fourth of these five steps saves.
                times = [_seconds(lambda: session.run(train)) for _ in range(every)]
                hook._writer.wait()
                return Pause(hook.took, times[-1], times[:_USUAL])

            def peer() -> Pause:
                with eagerly():
                    return Pause(_seconds(lambda: state.write(os.path.join(folder, "peer", "ckpt"))), 0.0, [0.0])

            session.run(train)
            while int(session.run(step)) % every != 1:  # the hook saves after steps 5, 10, …
                session.run(train)
            yield {"ours": ours, "peer": peer}


def _train(batch: Any, layers: list[Any]) -> Any:
    """Builds one step of gradient descent: every layer's output is the next one's input."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        outputs = batch
        for layer in layers:
            outputs = outputs @ layer
        loss = tf.reduce_mean(outputs)
    gradients = tape.gradient(loss, layers)
    updates = [layer.assign_sub(1e-9 * one, read_value=False) for layer, one in zip(layers, gradients, strict=True)]
    with tf.control_dependencies(updates):
        return tf.identity(loss)


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _delete_tensors(folder: str) -> None:
    for path in pathlib.Path(folder).glob("*/*.data-*"):
        path.unlink()


_SIDES: dict[str, Callable[[str, int], contextlib.AbstractContextManager[Sides]]] = {
    "eager": _eager,
    "estimator": _estimator,
    "memory": lambda folder, width: _eager(folder, width, SMALL_BATCH),
    "crowded": _crowded,
}


if __name__ == "__main__":
    main()
