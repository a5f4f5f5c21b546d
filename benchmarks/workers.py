"""Measures the Ray engine with several workers: its overhead, the cost of a worker failure, and the scaling.

    python benchmarks/workers.py            # 15 minutes, on an otherwise idle machine

* the duration of a step on one worker of a Ray cluster, compared with no engine: at most 1.05;
* the recovery time, from the kill of a worker to the next step that is not redone, compared with plain Ray Train (its
  TensorflowTrainer as in its guide) with the same model, checkpoints and cluster;
* the goodput with one kill every 60 s, compared with the same: the time that the distinct steps would take without
  kills, as a share of the time from the first step to the last;
* the throughput of two workers with an input-bound training, compared with one: at least 1.6 on two idle cores.

All sides run `loop` below, which records the end of each step.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from pairs import arguments, compare, report

BATCH, WIDTH, STEPS_PER_CHECKPOINT, WARM_UP = 256, 256, 20, 20
EXAMPLES_PER_RECORD, TEXTS = 64, 40  # of the expensive input; TEXTS: CSV lines parsed per example

# This project's training module; like the function for plain Ray Train, it only calls `loop`.
MODULE = """
    import json, os, sys
    sys.path.insert(0, os.environ["BENCHMARKS"])
    import tensorflow as tf
    from generic_trainer import strategy

    def run_fn(fn_args):
        import workers
        workers.note_start(fn_args.worker_index)
        distribution = strategy(fn_args)
        model = workers.loop(distribution, fn_args.is_chief, fn_args.worker_index, json.loads(os.environ["LOOP"]))
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


@dataclasses.dataclass(frozen=True)
class Loop:
    """Settings of a side's training loop.

    Attributes:
      folder: Folder for checkpoints, the steps' times and the workers' process IDs.
      steps: Number of steps.
      step_seconds: Minimum duration of a step in seconds.
      is_input_bound: Whether the input is the bottleneck, with one core per worker.
    """

    folder: str
    steps: int
    step_seconds: float = 0.0
    is_input_bound: bool = False


def loop(distribution: Any, is_chief: bool, worker: int, settings: dict[str, Any]) -> Any:
    """Trains a network on synthetic examples and returns the model; called in each worker."""
    import tensorflow as tf

    how = Loop(**settings)
    folder = pathlib.Path(how.folder)
    (folder / f"pid-{worker}").write_text(str(os.getpid()))
    note = _Events(folder, worker).note
    note("group formed")
    with distribution.scope():
        first = tf.Variable(tf.random.stateless_normal([WIDTH, 512], (1, 1), 0, 0.05))
        second = tf.Variable(tf.random.stateless_normal([512, 1], (1, 2), 0, 0.05))
        step = tf.Variable(0, dtype=tf.int64)

    def on_one_worker(batch: Any) -> None:
        with tf.GradientTape() as tape:
            answer = tf.nn.relu(batch @ first) @ second
            loss = tf.reduce_sum(tf.square(answer - tf.reduce_sum(batch, 1, keepdims=True))) / BATCH
        gradients = tape.gradient(loss, [first, second])
        for variable, gradient in zip((first, second), gradients, strict=True):
            whole = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
            variable.assign_sub(1e-4 * whole)

    @tf.function
    def train_step(batch: Any) -> None:
        distribution.run(on_one_worker, args=(batch,))

    state = tf.train.Checkpoint(first=first, second=second, step=step)
    manager = tf.train.CheckpointManager(state, _checkpoints(folder, is_chief, worker), max_to_keep=2)
    note("model built")
    state.restore(tf.train.latest_checkpoint(str(folder / "checkpoints")))
    note("checkpoint restored")
    times = (folder / "steps").open("a", buffering=1) if is_chief else None
    batches = iter(_input(how, distribution))
    for number in range(int(step.numpy()) + 1, how.steps + 1):
        begin = time.monotonic()
        train_step(next(batches))
        note("traced, first step")
        step.assign(number)
        time.sleep(max(how.step_seconds - time.monotonic() + begin, 0))
        if times is not None:
            times.write(f"{time.time()} {number}\n")
        if how.step_seconds and number % STEPS_PER_CHECKPOINT == 0:
            manager.save(number)
    return _model(first, second)


class _Events:
    """Appends the time of each event of this process, in the order of the first occurrence, to a worker's file."""

    def __init__(self, folder: pathlib.Path, worker: int) -> None:
        self._file = folder / f"events-{worker}"
        self._noted: set[str] = set()

    def note(self, event: str, when: float | None = None) -> None:
        if event not in self._noted:
            self._noted.add(event)
            with self._file.open("a") as file:
                file.write(f"{when or time.time()} {event}\n")


def note_start(worker: int) -> None:
    """Notes the start of this process and the call of the training function."""
    events = _Events(pathlib.Path(json.loads(os.environ["LOOP"])["folder"]), worker)
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    events.note("process started", time.time() - age)
    events.note("training function called")


def _checkpoints(folder: pathlib.Path, is_chief: bool, worker: int) -> str:
    return str(folder / ("checkpoints" if is_chief else f"scratch-{worker}"))


def _input(how: Loop, distribution: Any) -> Any:
    """Returns a distributed dataset with each worker's part of global batches of BATCH examples."""
    import tensorflow as tf

    size = BATCH // distribution.num_replicas_in_sync
    if not how.is_input_bound:
        batch = tf.random.stateless_normal([size, WIDTH], (2, 1))
        return distribution.distribute_datasets_from_function(lambda _: tf.data.Dataset.from_tensors(batch).repeat())
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    chance = random.Random(1)  # noqa: S311 (no secret)
    texts = [",".join(str(round(chance.random(), 6)) for _ in range(WIDTH)) for _ in range(TEXTS)]

    def parse(number: Any) -> Any:  # depends on the record, so that it is not computed only once
        rows = [tf.fill([EXAMPLES_PER_RECORD], tf.gather(texts, (number + place) % TEXTS)) for place in range(TEXTS)]
        return tf.add_n([tf.stack(tf.io.decode_csv(row, [[0.0]] * WIDTH), 1) for row in rows]) / TEXTS

    records = tf.data.Dataset.range(10**9).map(parse).unbatch().batch(size, drop_remainder=True).prefetch(2)
    return distribution.distribute_datasets_from_function(lambda _: records.with_options(options))


def _model(first: Any, second: Any) -> Any:
    import tensorflow as tf

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = tf.Variable(first.numpy()), tf.Variable(second.numpy())

        @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32)])
        def serve(self, x: Any) -> Any:
            return {"answer": tf.nn.relu(x @ self.first) @ self.second}

    return Model()


def plain_ray_train(workers: int) -> None:
    """Trains as in Ray Train's guide; called in a subprocess."""
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer

    def train(settings: dict[str, Any]) -> None:
        import sys

        import ray.train
        import tensorflow as tf

        sys.path.insert(0, os.environ["BENCHMARKS"])
        import workers

        context = ray.train.get_context()
        workers.note_start(context.get_world_rank())
        distribution = tf.distribute.MultiWorkerMirroredStrategy()
        workers.loop(distribution, context.get_world_rank() == 0, context.get_world_rank(), settings)

    settings = json.loads(os.environ["LOOP"])
    ray.init("local", include_dashboard=False, object_store_memory=200 * 10**6)
    TensorflowTrainer(
        train,
        train_loop_config=settings,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="plain", storage_path=f"{settings['folder']}/ray", failure_config=FailureConfig(max_failures=-1)
        ),
    ).fit()


@dataclasses.dataclass(frozen=True)
class Deaths:
    """Schedule of kills: seconds from the first step to the first kill, seconds between kills, and number of kills."""

    first: float
    every: float
    count: int


def ours(
    how: Loop, workers: int, deaths: Deaths | None = None, engine: str = "ray", cpus: float = 1.0
) -> list[tuple[float, int]]:
    """Runs a side with this project's Ray engine or without an engine; returns (time, step) for each step."""
    import textwrap

    folder = pathlib.Path(how.folder)
    (folder / "module.py").write_text(textwrap.dedent(MODULE))
    (folder / "data").write_bytes(b"")
    line = [sys.executable, "-m", "generic_trainer.cli.main", "train", str(folder / "module.py")]
    line += ["--train-files", str(folder / "data"), "--output", str(folder / "out"), "--skip-check", "answers"]
    if engine == "ray":
        line += ["--engine", "ray", "--workers", str(workers), "--max-failures", "-1", "--cpus-per-worker", str(cpus)]
    return _run(line, how, deaths)


def plain(how: Loop, workers: int, deaths: Deaths | None = None) -> list[tuple[float, int]]:
    """Runs a side with plain Ray Train; returns (time, step) for each step."""
    return _run([sys.executable, __file__, "--measure", f"plain-{workers}"], how, deaths)


def _run(line: list[str], how: Loop, deaths: Deaths | None) -> list[tuple[float, int]]:
    environment = {
        **os.environ,
        "LOOP": json.dumps(dataclasses.asdict(how)),
        "BENCHMARKS": str(pathlib.Path(__file__).resolve().parent),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "RAY_TRAIN_V2_ENABLED": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = pathlib.Path(how.folder)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(line, env=environment, stdout=log, stderr=log, start_new_session=True)
        killed = 0
        while process.poll() is None:
            time.sleep(0.02)
            steps = _steps(folder)
            if deaths is None or killed == deaths.count or len(steps) < WARM_UP:
                continue
            due = steps[0][0] + deaths.first + killed * deaths.every
            if time.time() >= due:
                os.kill(int((folder / "pid-1").read_text()), signal.SIGKILL)
                with (folder / "kills").open("a") as kills:
                    kills.write(f"{time.time()}\n")
                killed += 1
    if process.returncode:
        sys.exit(f"{' '.join(line)} exited with code {process.returncode}:\n{(folder / 'log').read_text()[-3000:]}")
    return _steps(folder)


def _steps(folder: pathlib.Path) -> list[tuple[float, int]]:
    if not (folder / "steps").exists():
        return []
    rows = [row.split() for row in (folder / "steps").read_text().splitlines()]
    return [(float(row[0]), int(row[1])) for row in rows if len(row) == 2]


def seconds_per_step(steps: list[tuple[float, int]]) -> float:
    """Returns the median time between consecutive steps, after warm-up."""
    gaps = [b[0] - a[0] for a, b in zip(steps[WARM_UP:], steps[WARM_UP + 1 :], strict=False) if b[1] == a[1] + 1]
    return statistics.median(gaps)


def recovery(steps: list[tuple[float, int]], folder: pathlib.Path) -> float:
    """Returns the median time from a kill to the first step after it that was not redone later."""
    counted = {number: when for when, number in steps}  # the last time of each step
    took = []
    for moment in map(float, (folder / "kills").read_text().split()):
        took.append(min(when for when in counted.values() if when > moment) - moment)
    return statistics.median(took)


def goodput(steps: list[tuple[float, int]]) -> float:
    """Returns the time that the distinct steps would take without kills, as a share of the total time."""
    return len({number for _, number in steps}) * seconds_per_step(steps) / (steps[-1][0] - steps[0][0])


def main() -> None:
    """Measures all rows and prints the table."""
    options = arguments(__doc__, pairs=3)
    if options.measure:
        plain_ray_train(int(options.measure.rpartition("-")[2]))
        return
    report([_overhead(options), *_deaths(options), _scaling(options)], options)


def _in_folder(measure: Callable[[str], Any]) -> Callable[[], Any]:
    def call() -> Any:
        with tempfile.TemporaryDirectory(prefix="workers-") as folder:
            return measure(folder)

    return call


def _overhead(options: argparse.Namespace) -> Any:
    steps = 200 if options.quick else 2000

    def side(engine: str) -> Callable[[], float]:
        return _in_folder(lambda folder: 1000 * seconds_per_step(ours(Loop(folder, steps), 1, engine=engine)))

    return compare(
        "a step on one worker of a Ray cluster", "no engine", options,
        ours=side("ray"), peer=side("none"), unit="ms", at_most=1.05,
    )  # fmt: skip


def _deaths(options: argparse.Namespace) -> Iterator[Any]:
    """Measures recovery and goodput in the same runs."""
    seconds = 0.05
    how = {"steps": 400, "step_seconds": seconds} if options.quick else {"steps": 3000, "step_seconds": seconds}
    deaths = Deaths(5, 60, 1) if options.quick else Deaths(20, 60, 2)
    measured: dict[str, list[tuple[float, float]]] = {"ours": [], "plain": []}

    def side(name: str, run: Callable[..., list[tuple[float, int]]]) -> Callable[[], float]:
        def measure(folder: str) -> float:
            steps = run(Loop(folder, **how), 2, deaths)  # type: ignore[arg-type]
            measured[name].append((recovery(steps, pathlib.Path(folder)), goodput(steps)))
            return measured[name][-1][0]

        return _in_folder(measure)

    peer = "plain Ray Train"
    row = compare(
        "from a worker's death to the next step that counts", peer, options,
        ours=side("ours", ours), peer=side("plain", plain), unit="s",
    )  # fmt: skip
    yield row
    yield dataclasses.replace(
        row,
        what="goodput with a death every 60 s",
        unit="",
        ours=[good for _, good in measured["ours"]],
        peer=[good for _, good in measured["plain"]],
    )


def _scaling(options: argparse.Namespace) -> Any:
    steps = 40 if options.quick else 150

    def side(workers: int) -> Callable[[], float]:
        def measure(folder: str) -> float:
            return BATCH / seconds_per_step(ours(Loop(folder, steps, is_input_bound=True), workers))

        return _in_folder(measure)

    return compare(
        "two workers, bound by their input", "one worker", options,
        ours=side(2), peer=side(1), unit="examples/s", at_least=1.6,
    )  # fmt: skip


if __name__ == "__main__":
    main()
