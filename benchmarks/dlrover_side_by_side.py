"""Compares DLRover and this project on the same conf: job duration, time to the first step, and rows per second.

    python benchmarks/dlrover_side_by_side.py --peer PEER/bin/python
    python benchmarks/dlrover_side_by_side.py --peer PEER/bin/python --quick

The README in this folder describes how to create the peer's environment. Both sides use the same conf file: rows "x,2x"
from an ElasticReader, a linear model, and a separate evaluation set. Its model_fn adds a hook that records the end of
each step, so the same code measures both sides. A job is a command with its child processes in a temporary folder:

- dlrover: `python -m dlrover.trainer --platform=local_kubernetes --conf=conf.TrainConf --ps_num=1 --worker_num=1`,
  which starts a parameter server, a chief and an evaluator. DLRover's local master is started before it and stopped
  after it. Durations "with master" count from the master's start.
- ours: `generic-trainer dlrover --conf=conf.TrainConf`.

The sides take turns. `job` is the duration of the command, `first step` the time from its start to the end of the first
step. `rows/s` is the throughput between the first and the last step, including all other work of the trainer; `rows/s
median` is derived from the median step, i.e. without pauses for checkpoints and evaluations. `evaluated` and `exported`
are the steps of the last evaluated and exported model. The relevant numbers are the ratios of the medians.
"""

# ruff: noqa: T201 (prints a table)

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

SIDES = ("ours", "dlrover")
EVAL_ROWS = 200
STEPS_PER_CHECKPOINT = 100  # also DLRover's default
_MASTER_STARTS = 60.0  # seconds; timeout for the master's port

_CONF = '''
import json
import os
import time

import tensorflow.compat.v1 as tf
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.util.column_info import Column


class Reader(ElasticReader):
    """Rows "x,2x", of which x is computed from the row's index."""

    def __init__(self, path, rows):
        self.rows = rows
        super().__init__(path=path)

    def count_data(self):
        self._data_nums = self.rows

    def read_data_by_index_range(self, start_index, end_index):
        rows = []
        for index in range(start_index, end_index):
            x = index * 7919 % 1000 + 1
            rows.append(f"{x},{2 * x}")
            if ROW_SECONDS:
                time.sleep(ROW_SECONDS)
        return rows


class Stamps(tf.train.SessionRunHook):
    """Notes when each step was done."""

    def __init__(self):
        self.times = []

    def after_run(self, run_context, run_values):
        self.times.append(time.time())

    def end(self, session):
        step = int(session.run(tf.train.get_global_step()))
        with open(os.environ["STAMPS"], "w") as file:
            json.dump({"times": self.times, "global_step": step}, file)


class Line(tf.estimator.Estimator):
    def __init__(self, model_dir, config=None, params=None):
        super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

    def model_fn(self, features, labels, mode, params):
        y = tf.layers.dense(tf.reshape(features["x"], [-1, 1]) / 1000, 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=y * 1000)
        loss = tf.losses.mean_squared_error(tf.reshape(labels, [-1, 1]) / 1000, y)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        train_op = tf.train.GradientDescentOptimizer(0.3).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Stamps()])


COLUMNS = (
    Column.create(name="x", dtype="float32", is_label=False),
    Column.create(name="y", dtype="float32", is_label=True),
)


class TrainConf:
    classifier_class = Line
    model_dir = "model"
    save_steps = SAVE_STEPS
    eval_steps = EVAL_STEPS
    train_set = {"reader": Reader("train", ROWS), "columns": COLUMNS, "epoch": EPOCHS, "batch_size": BATCH_SIZE}
    eval_set = {"reader": Reader("eval", EVAL_ROWS), "columns": COLUMNS, "batch_size": BATCH_SIZE}
'''


@dataclasses.dataclass(frozen=True)
class Job:
    """Measurements of one job.

    Attributes:
        job: Seconds from the command's start to its end.
        job_with_master: The same, from the start of DLRover's master.
        first_step: Seconds from the command's start to the end of the first step.
        first_step_with_master: The same, from the start of DLRover's master.
        rows_per_second: Throughput from the end of the first step to the end of the last one.
        rows_per_second_median: Throughput derived from the median duration of a step.
        steps: Number of training steps.
        evaluated: Step of the last evaluated model; None without one.
        exported: Step of the last exported model; None without one.
    """

    job: float
    job_with_master: float
    first_step: float
    first_step_with_master: float
    rows_per_second: float
    rows_per_second_median: float
    steps: int
    evaluated: int | None
    exported: int | None


@dataclasses.dataclass(frozen=True)
class Measure:
    """A line of the summary: heading, whether lower is better, the required ratio, and the number of decimals."""

    heading: str
    less_is_better: bool = False
    needed: float | None = None
    digits: int = 0


MEASURES = {
    "job": Measure("job s", less_is_better=True, needed=5, digits=1),
    "job_with_master": Measure("  with master", less_is_better=True, digits=1),
    "first_step": Measure("first step s", less_is_better=True, needed=3, digits=1),
    "first_step_with_master": Measure("  with master", less_is_better=True, digits=1),
    "rows_per_second": Measure("rows/s", needed=5),
    "rows_per_second_median": Measure("rows/s median"),
}


def main() -> None:
    """Prints a table of all jobs, then the medians with their spread and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="Python interpreter with DLRover 0.6.1")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--row-seconds", type=float, default=0.0, help="seconds that the reader waits for each row")
    parser.add_argument("--timeout", type=float, default=600, help="timeout of a job in seconds")
    parser.add_argument("--side", choices=SIDES, help="run only this side, without ratios")
    parser.add_argument("--quick", action="store_true", help="smoke test: one pair of 50 steps")
    options = parser.parse_args()
    options.peer = os.path.abspath(options.peer)  # jobs run in other folders; the link of an environment is kept
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if options.quick:
        options.pairs, options.rows, options.epochs = 1, 25 * options.batch_size, 2
    sides = [options.side] if options.side else list(SIDES)
    # Warms the page cache with TensorFlow's files, so that the first pair is comparable with the others.
    for python in (options.peer, sys.executable):
        subprocess.run([python, "-c", "import tensorflow"], capture_output=True, check=True)
    _print_summary(_run_pairs(sides, options))


def _run_pairs(sides: list[str], options: argparse.Namespace) -> dict[str, list[Job]]:
    print(
        f"{options.rows:,} rows x {options.epochs} epochs in batches of {options.batch_size}: "
        f"{_steps(options):,} steps\n{'pair':>4}  {'side':<8}"
        + "".join(f"{measure.heading:>15}" for measure in MEASURES.values())
        + f"{'steps':>8}{'evaluated':>11}{'exported':>10}"
    )
    jobs: dict[str, list[Job]] = {side: [] for side in sides}
    for pair in range(options.pairs):
        # Alternate the order, because the first side may run on a colder machine.
        for side in sides if pair % 2 == 0 else reversed(sides):
            job = _RUNS[side](options)
            jobs[side].append(job)
            values = [f"{getattr(job, name):>15,.{measure.digits}f}" for name, measure in MEASURES.items()]
            left = f"{job.steps:>8}{_or_none(job.evaluated):>11}{_or_none(job.exported):>10}"
            print(f"{pair + 1:>4}  {side:<8}{''.join(values)}{left}", flush=True)
    return jobs


def _or_none(step: int | None) -> str:
    return "none" if step is None else str(step)


def _print_summary(jobs: dict[str, list[Job]]) -> None:
    print(f"\n{'median (min .. max)':<24}" + "".join(f"{side:>28}" for side in jobs))
    for name, measure in MEASURES.items():
        values = {side: [float(getattr(job, name)) for job in done] for side, done in jobs.items()}
        line = f"{measure.heading:<24}" + "".join(f"{_spread(values[side], measure.digits):>28}" for side in jobs)
        if len(jobs) == len(SIDES):
            ratio = statistics.median(values["ours"]) / statistics.median(values["dlrover"])
            line += f"   {1 / ratio if measure.less_is_better else ratio:.1f} times better"
            line += f" (target: at least {measure.needed:g})" if measure.needed else ""
        print(line)


def _spread(values: list[float], digits: int) -> str:
    median, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low} .. {high})"


def _run_ours(options: argparse.Namespace) -> Job:
    with tempfile.TemporaryDirectory() as name:
        folder = _write_conf(name, options)
        line = [sys.executable, "-m", "generic_trainer.cli.main", "dlrover", "--conf=conf.TrainConf"]
        begin, end = _run_job(line, folder, {}, options.timeout)
        return _read_job(folder, begin, begin, end, options)


def _run_dlrover(options: argparse.Namespace) -> Job:
    with tempfile.TemporaryDirectory() as name:
        folder = _write_conf(name, options)
        port = _free_port()
        master_line = [options.peer, "-m", "dlrover.python.master.main", "--platform=local"]
        master_line += ["--job_name=side-by-side", "--port", str(port)]
        line = [options.peer, "-m", "dlrover.trainer", "--platform=local_kubernetes", "--conf=conf.TrainConf"]
        line += ["--ps_num=1", "--worker_num=1"]
        master_begin = time.time()
        with _run_in_group(master_line, folder, {}, "master.log") as master:
            _wait_for_port(port, master, folder / "master.log")
            address = {"DLROVER_MASTER_ADDR": f"127.0.0.1:{port}"}
            begin, end = _run_job(line, folder, address, options.timeout)
        return _read_job(folder, master_begin, begin, end, options)


def _write_conf(folder: str, options: argparse.Namespace) -> pathlib.Path:
    values = {
        "SAVE_STEPS": STEPS_PER_CHECKPOINT,
        "EVAL_STEPS": max(1, EVAL_ROWS // options.batch_size),
        "EVAL_ROWS": EVAL_ROWS,
        "ROWS": options.rows,
        "EPOCHS": options.epochs,
        "BATCH_SIZE": options.batch_size,
        "ROW_SECONDS": options.row_seconds,
    }
    settings = "".join(f"{name} = {value}\n" for name, value in values.items())
    path = pathlib.Path(folder)
    (path / "conf.py").write_text(settings + _CONF, encoding="utf-8")
    return path


def _run_job(line: list[str], folder: pathlib.Path, variables: dict[str, str], timeout: float) -> tuple[float, float]:
    """Runs a command; returns its start and end time."""
    begin = time.time()
    with _run_in_group(line, folder, {**variables, "STAMPS": str(folder / "stamps.json")}, "job.log") as job:
        try:
            code = job.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        end = time.time()
    if code != 0:
        outcome = f"ran for more than {timeout:g} s" if code is None else f"exited with code {code}"
        sys.exit(f"{' '.join(line)} {outcome}:\n{_tail(folder / 'job.log')}")
    return begin, end


@contextlib.contextmanager
def _run_in_group(
    line: list[str], folder: pathlib.Path, variables: dict[str, str], log: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command in a new process group for the duration of the block, and kills the group afterwards."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    for name in ("PYTHONDONTWRITEBYTECODE", "TF_USE_LEGACY_KERAS", "TF_CONFIG"):
        environment.pop(name, None)
    with open(folder / log, "wb") as output:
        process = subprocess.Popen(
            line, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


def _read_job(folder: pathlib.Path, master_begin: float, begin: float, end: float, options: argparse.Namespace) -> Job:
    stamps = folder / "stamps.json"
    if not stamps.exists():
        sys.exit(f"No training session completed:\n{_tail(folder / 'job.log')}")
    noted = json.loads(stamps.read_text(encoding="utf-8"))
    if noted["global_step"] != _steps(options):
        print(f"not all rows were trained: {noted['global_step']} of {_steps(options)} steps", file=sys.stderr)
    times = noted["times"]
    trained = options.rows * options.epochs - options.batch_size  # without the first step, which ends before
    step_seconds = statistics.median(after - before for before, after in itertools.pairwise(times))
    return Job(
        job=end - begin,
        job_with_master=end - master_begin,
        first_step=times[0] - begin,
        first_step_with_master=times[0] - master_begin,
        rows_per_second=trained / (times[-1] - times[0]),
        rows_per_second_median=options.batch_size / step_seconds,
        steps=noted["global_step"],
        evaluated=_last_evaluated(folder),
        exported=_last_exported(folder),
    )


def _last_evaluated(folder: pathlib.Path) -> int | None:
    """Returns the last step in the evaluation summaries, which Estimators write to folders `eval` or `eval_…`."""
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # hides the iterator's deprecation warning; there is no other iterator
    files = [str(path) for path in folder.rglob("events.out.tfevents.*") if path.parent.name.startswith("eval")]
    events = itertools.chain.from_iterable(map(tf.compat.v1.train.summary_iterator, files))
    return max((int(event.step) for event in events if event.summary.value), default=None)


def _last_exported(folder: pathlib.Path) -> int | None:
    """Returns the last step in the SavedModels; Estimators export the global step with the weights."""
    import tensorflow as tf

    exports = [str(path.parent / "variables" / "variables") for path in folder.rglob("saved_model.pb")]
    return max((int(tf.train.load_variable(path, "global_step")) for path in exports), default=None)


def _steps(options: argparse.Namespace) -> int:
    steps: int = math.ceil(options.rows * options.epochs / options.batch_size)
    return steps


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    until = time.monotonic() + _MASTER_STARTS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    sys.exit(f"DLRover's master does not accept connections on port {port}:\n{_tail(log)}")


def _tail(log: pathlib.Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-3000:]


_RUNS: dict[str, Callable[[argparse.Namespace], Job]] = {"ours": _run_ours, "dlrover": _run_dlrover}


if __name__ == "__main__":
    main()
