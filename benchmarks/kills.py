"""Kills workers and drivers at random, and checks that each record is trained exactly once per epoch.

    python benchmarks/kills.py --mode deterministic --kills 30 --seed 1
    python benchmarks/kills.py --mode dynamic --kills 30 --seed 1

A model that only counts record IDs, in a variable in its checkpoint, is trained on a local Ray cluster. Deterministic:
2 to 4 workers share the batches of a fixed order (all-reduce). Dynamic: a DLRover conf with 3 workers, which request
ranges of rows, and one parameter server. A random task's process is killed (SIGKILL) at random times. Every fifth kill
hits a host instead, the actor that starts the tasks; every seventh the driver with all its child processes, and the
command is then run again. At the end every ID must have been counted once per epoch, otherwise the exit code is 1. The
program also prints the recovery times, from a kill to the next step that was not redone, and the goodput: the time that
the distinct steps would take at the throughput without kills, as a share of the total time.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

RECORDS, BATCH, STEP_SECONDS = 1000, 20, 0.05
EPOCHS_A_KILL, LEAST_EPOCHS = 3, 10  # makes the job long enough for all kills
_MARK = "KILLS_OF"  # environment variable that all processes of a run inherit
_TASK, _HOST = "training_worker", "ray::WorkerHost"  # names of the processes
_LINES_SHOWN = 60  # lines of output of a failed command
MODULE = f"""
    import os
    import time
    import tensorflow as tf
    from absl import logging
    from generic_trainer import AsyncCheckpoints, strategy

    EPOCHS = int(os.environ["EPOCHS"])

    def run_fn(fn_args):
        distribution = strategy(fn_args)
        files = tf.io.gfile.glob(fn_args.train_files)
        data = tf.data.TFRecordDataset(files).map(lambda text: tf.strings.to_number(text, tf.int64))
        data = data.shuffle({RECORDS}, seed=1).repeat(EPOCHS).batch({BATCH})
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        data = data.with_options(options)
        with distribution.scope():
            counts = tf.Variable(tf.zeros([{RECORDS}], tf.int64), aggregation=tf.VariableAggregation.SUM)
            step = tf.Variable(0, dtype=tf.int64)
        state = tf.train.Checkpoint(counts=counts, step=step)

        @tf.function
        def train_step(batch):
            distribution.run(lambda ids: counts.assign_add(tf.math.bincount(
                tf.cast(ids, tf.int32), minlength={RECORDS}, maxlength={RECORDS}, dtype=tf.int64)), args=(batch,))

        with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
            checkpoints.restore()
            begin = int(step.numpy())
            for number, batch in enumerate(distribution.experimental_distribute_dataset(data.skip(begin)), begin + 1):
                train_step(batch)
                step.assign(number)
                time.sleep({STEP_SECONDS})
                if fn_args.is_chief:
                    logging.info("counted step %d of %d workers", number, fn_args.num_workers)
                if number % 10 == 0:
                    checkpoints.save(number)

        class Counts(tf.Module):
            def __init__(self):
                self.counts = tf.Variable(counts.numpy())

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
            def serve(self, examples):
                return {{"counts": self.counts}}

        model = Counts()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


CONF = f"""
    import os
    import time
    import tensorflow.compat.v1 as tf
    from absl import logging
    from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
    from dlrover.trainer.tensorflow.util.column_info import Column

    EPOCHS = int(os.environ["EPOCHS"])

    class Rows(ElasticReader):
        def count_data(self):
            self._data_nums = {RECORDS}

        def read_data_by_index_range(self, start_index, end_index):
            return [f"{{number}},1" for number in range(start_index, end_index)]

    def note(step):
        logging.info("counted step %d", step)
        time.sleep({STEP_SECONDS})

    class Counting(tf.estimator.Estimator):
        def model_fn(self, features, labels, mode):
            ids = features["id"]
            counts = tf.get_variable("counts", [{RECORDS}], tf.int64, tf.zeros_initializer(), trainable=False)
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, {{"counts": tf.gather(counts, ids)}})
            step = tf.train.get_or_create_global_step()
            count = tf.scatter_add(counts, ids, tf.ones_like(ids), use_locking=True)
            with tf.control_dependencies([count]):
                number = step.assign_add(1, use_locking=True)
            with tf.control_dependencies([tf.py_func(note, [number], [])]):
                done = tf.no_op()
            return tf.estimator.EstimatorSpec(mode, None, tf.zeros([]), done)

    COLUMNS = (Column.create(name="id", dtype="int64"), Column.create(name="y", dtype="int64", is_label=True))

    class TrainConf:
        classifier_class = Counting
        model_dir = "model_dir"
        save_steps = 10
        eval_steps = 1
        train_set = {{"reader": Rows("ids"), "columns": COLUMNS, "batch_size": {BATCH}, "epoch": EPOCHS}}
        eval_set = {{**train_set, "epoch": 1}}
"""


def main() -> int:
    """Trains with kills and prints the results; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=list(_COMMANDS), default=DETERMINISTIC)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)  # noqa: S311 (no secret)
    epochs = max(EPOCHS_A_KILL * arguments.kills, LEAST_EPOCHS)
    os.environ["EPOCHS"] = str(epochs)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        line = _COMMANDS[arguments.mode](folder)
        killed, begin = 0, time.monotonic()
        kills: list[float] = []
        steps: list[tuple[float, int]] = []  # (time of a step's log line, step)
        while True:
            finished, killed = _run_driver(line, folder, chance, killed, arguments.kills, kills, steps)
            if finished:
                break
        took = time.monotonic() - begin
        counts = _COUNTS[arguments.mode](folder)
    wrong = {number: count for number, count in enumerate(counts) if count != epochs}
    pace = _pace(steps)
    counted = len({number for _, number in steps})
    sys.stdout.write(
        f"{arguments.mode}, seed {arguments.seed}: {killed} kills; "
        f"ids not counted exactly {epochs} times: {len(wrong)} of {RECORDS}\n"
    )
    took_each = _recoveries(kills, steps) or [0]
    each = ", ".join(f"{seconds:.1f}" for seconds in took_each)
    sys.stdout.write(
        f"recovery time from a kill to the next counted step: {statistics.median(took_each):.1f} s (median of {each})\n"
    )
    sys.stdout.write(f"repeated steps: {len(steps) - counted} of {len(steps)}; goodput {counted * pace / took:.2f}\n")
    return int(bool(wrong))


def _recoveries(kills: list[float], steps: list[tuple[float, int]]) -> list[float]:
    """Returns the seconds from each kill to the first step after it that was not redone later."""
    counted = {number: when for when, number in steps}  # the last time of each step
    return [min(when for when in counted.values() if when > moment) - moment for moment in kills]


def _pace(steps: list[tuple[float, int]]) -> float:
    """Returns the mean seconds per step in the longest period without a kill."""
    stretches: list[list[tuple[float, int]]] = [[]]
    for now, number in steps:
        if stretches[-1] and (number != stretches[-1][-1][1] + 1 or now - stretches[-1][-1][0] > 2):
            stretches.append([])
        stretches[-1].append((now, number))
    longest = max(stretches, key=len)
    return (longest[-1][0] - longest[0][0]) / (longest[-1][1] - longest[0][1])


def _deterministic(folder: pathlib.Path) -> list[str]:
    import tensorflow as tf

    (folder / "counting.py").write_text(textwrap.dedent(MODULE))
    for part in range(2):
        with tf.io.TFRecordWriter(str(folder / f"ids-{part}")) as writer:
            for number in range(part, RECORDS, 2):
                writer.write(str(number).encode())
    return [
        *[sys.executable, "-m", "generic_trainer.cli.main", "train", str(folder / "counting.py")],
        *["--train-files", f"{folder}/ids-*", "--output", str(folder / "out"), "--skip-check", "answers"],
        *["--engine", "ray", "--workers", "2:4", "--cpus-per-worker", "0.5", "--max-failures", "-1"],
    ]


def _dynamic(folder: pathlib.Path) -> list[str]:
    (folder / "counting.py").write_text(textwrap.dedent(CONF))
    return [
        *[sys.executable, "-m", "generic_trainer.cli.main", "dlrover", "--conf", "counting.TrainConf"],
        *["--output", str(folder / "out"), "--skip-check", "answers"],
        *["--engine", "ray", "--workers", "3", "--ps", "1", "--cpus-per-worker", "0.5", "--max-failures", "-1"],
    ]


def _run_driver(
    line: list[str],
    folder: pathlib.Path,
    chance: random.Random,
    killed: int,
    most: int,
    kills: list[float],
    steps: list[tuple[float, int]],
) -> tuple[bool, int]:
    """Runs the command and kills at random; returns whether it finished, and the total number of kills."""
    wait, since, seen = chance.uniform(0.2, 4), None, max((number for _, number in steps), default=0)
    environment = {**os.environ, _MARK: str(folder)}
    with subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder, env=environment
    ) as running:
        assert running.stderr is not None
        first = None
        last: collections.deque[str] = collections.deque(maxlen=_LINES_SHOWN)
        for row in running.stderr:
            last.append(row)
            if not (found := re.search(r"counted step (\d+)", row)):
                continue
            now, number = time.monotonic(), int(found[1])
            steps.append((now, number))
            if since is not None and number > seen:
                since = None
            seen, first = max(seen, number), first or now
            if killed < most and since is None and now - first > wait:
                killed, since, first, wait = killed + 1, now, None, chance.uniform(0.2, 4)
                kills.append(now)
                if killed % 7 == 0:
                    os.killpg(running.pid, signal.SIGKILL)
                    break
                name = _HOST if killed % 5 == 0 else _TASK
                os.kill(chance.choice(_processes(folder, name)), signal.SIGKILL)
        running.stderr.close()
    if running.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"{''.join(last)}the command exited with code {running.returncode}")
    return running.returncode == 0, killed


def _processes(folder: pathlib.Path, name: str) -> list[int]:
    """Returns the process IDs of this run with a name, which Linux cuts to 15 bytes."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if f"{_MARK}={folder}".encode() not in (path.parent / "environ").read_bytes().split(b"\0"):
                continue
            if path.read_text().strip() == name[:15]:
                found.append(int(path.parent.name))
    return found


def _counts_of_model(folder: pathlib.Path) -> list[int]:
    import tensorflow as tf

    model = tf.saved_model.load(str(folder / "out" / "model" / "Format-Serving"))
    counts: list[int] = model.counts.numpy().tolist()
    return counts


def _counts_of_checkpoint(folder: pathlib.Path) -> list[int]:
    import tensorflow as tf

    checkpoint = tf.train.load_checkpoint(str(folder / "model_dir"))
    counts: list[int] = checkpoint.get_tensor("counts/.ATTRIBUTES/VARIABLE_VALUE").tolist()
    return counts


DETERMINISTIC, DYNAMIC = "deterministic", "dynamic"
_COMMANDS = {DETERMINISTIC: _deterministic, DYNAMIC: _dynamic}
_COUNTS = {DETERMINISTIC: _counts_of_model, DYNAMIC: _counts_of_checkpoint}

if __name__ == "__main__":
    sys.exit(main())
