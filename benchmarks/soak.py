"""Soak test for resource leaks in a long-lived process: 500 short trainings, then 50 pipelines on one metadata store.

    python benchmarks/soak.py --page build/soak.html --json build/soak.json     about 20 minutes on two cores
    python benchmarks/soak.py --quick                                           20 and 5

All runs share one process, as in a service or a notebook; one in twenty trainings fails. After each run these resources
are measured: resident memory of this process and of its children, such as the fork server of the trainings; open files;
threads; child processes; files and folders in the temporary folder; and the run's wall-clock and CPU seconds. Each row
compares the median of the last fifth of the runs with that of the second fifth; caches fill during the first fifth.
Wall-clock seconds have no target, because they depend on other load on the machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence

import psutil
from pairs import Row, arguments, report

TRAININGS, QUICK_TRAININGS = 500, 20
PIPELINES, QUICK_PIPELINES = 50, 5
FAILS_EACH = 20
FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
_KERAS_MODULE = pathlib.Path(__file__).resolve().parent.parent / "module_files" / "iris_keras.py"

# A short custom training loop with the outputs of a typical run: logs, a checkpoint and a model.
MODULE = """
    import tensorflow as tf

    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            parsed = tf.io.parse_example(examples, {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)})
            return {"y": self.weight * parsed["sepal_length"]}

    def run_fn(fn_args):
        model = Line()
        checkpoint = tf.train.Checkpoint(model=model)
        with tf.summary.create_file_writer(fn_args.model_run_dir + "/train").as_default():
            for step in range(20):
                model.weight.assign_add(0.05)
                tf.summary.scalar("weight", model.weight, step=step)
        checkpoint.save(fn_args.checkpoint_dir + "/ckpt")
        if fn_args.custom_config["fail"]:
            raise ValueError("as it was asked to")
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
"""


@dataclasses.dataclass(frozen=True)
class Reading:
    """Resources after a run, and its duration."""

    seconds: float
    processor_seconds: float
    memory: float  # MB
    files: int
    threads: int
    children: int
    temporary: int


def main() -> None:
    """Runs the trainings and the pipelines, and reports the rows."""
    options = arguments(__doc__, pairs=1, values={"--page": "also write charts of all readings to this HTML file"})
    trainings = QUICK_TRAININGS if options.quick else TRAININGS
    pipelines = QUICK_PIPELINES if options.quick else PIPELINES
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = os.path.join(folder, "tmp")  # used by this test only
        os.mkdir(tempfile.tempdir)
        place = pathlib.Path(folder)
        _write_examples(place / "data")
        readings = {
            f"{trainings} trainings": list(_readings(trainings, _training(place))),
            f"{pipelines} pipelines": list(_readings(pipelines, _pipeline(place))),
        }
    report([row for what, values in readings.items() for row in rows_of(what, values)], options)
    if options.page:
        _write_page(options.page, readings)


def _readings(runs: int, run: Callable[[int], None]) -> Iterator[Reading]:
    for number in range(runs):
        begin, used = time.perf_counter(), _processor_seconds()
        with _quiet():
            run(number)
        reading = _reading(time.perf_counter() - begin, _processor_seconds() - used)
        print(f"{number + 1} of {runs}: {reading}", file=sys.stderr, flush=True)  # noqa: T201
        yield reading


def _processor_seconds() -> float:
    """Returns the CPU seconds of this process and its children, including children that have ended."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (own, *own.children(recursive=True)))


def _reading(seconds: float, processor_seconds: float) -> Reading:
    own = psutil.Process()
    children = own.children(recursive=True)
    memory = sum(process.memory_info().rss for process in (own, *children))
    temporary = sum(len(folders) + len(files) for _, folders, files in os.walk(tempfile.gettempdir()))
    return Reading(seconds, processor_seconds, memory / 1e6, own.num_fds(), own.num_threads(), len(children), temporary)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Redirects standard output and error to /dev/null during the block, including those of TensorFlow's C++ code."""
    with open(os.devnull, "w") as nowhere:
        kept = [os.dup(number) for number in (1, 2)]
        try:
            for number in (1, 2):
                os.dup2(nowhere.fileno(), number)
            yield
        finally:
            for number, copy in enumerate(kept, 1):
                os.dup2(copy, number)
                os.close(copy)


def _training(place: pathlib.Path) -> Callable[[int], None]:
    from generic_trainer import FnArgs, train

    module = place / "code" / "line.py"
    module.parent.mkdir()
    module.write_text(textwrap.dedent(MODULE))

    def run(number: int) -> None:
        out = place / "trainings" / str(number)
        fails = number % FAILS_EACH == FAILS_EACH - 1
        fn_args = FnArgs(
            train_files=[f"{place}/data/train/*"],
            eval_files=[f"{place}/data/eval/*"],
            serving_model_dir=f"{out}/model/Format-Serving",
            model_run_dir=f"{out}/model_run",
            custom_config={"fail": fails},
        )
        with contextlib.suppress(ValueError) if fails else contextlib.nullcontext():
            train(str(module), fn_args)

    return run


def _pipeline(place: pathlib.Path) -> Callable[[int], None]:
    from generic_trainer.pipelines.local import LocalPipeline, run_pipeline

    pipeline = LocalPipeline(
        data=f"{place}/data",
        module_file=str(_KERAS_MODULE),
        label="variety",
        pipeline_root=f"{place}/pipeline",
        train_steps=20,
        eval_steps=1,
        cache=False,
    )

    def run(number: int) -> None:
        if not run_pipeline(pipeline).model:
            sys.exit(f"pipeline {number} has no model")

    return run


def _write_examples(folder: pathlib.Path) -> None:
    import tensorflow as tf
    from sklearn.datasets import load_iris

    rows = list(zip(*load_iris(return_X_y=True), strict=True))
    for split, chosen in {"train": rows[::2], "eval": rows[1::2]}.items():
        (folder / split).mkdir(parents=True)
        with tf.io.TFRecordWriter(f"{folder}/{split}/part-0.gz", "GZIP") as writer:
            for values, variety in chosen:
                example = tf.train.Example()
                for name, value in zip(FEATURES, values, strict=True):
                    example.features.feature[name].float_list.value.append(float(value))
                example.features.feature["variety"].int64_list.value.append(int(variety))
                writer.write(example.SerializeToString())


# {field: (name, unit, maximum ratio of the last fifth to the second fifth)}
_RESOURCES: dict[str, tuple[str, str, float | None]] = {
    "seconds": ("wall time", "s", None),
    "processor_seconds": ("CPU time", "s", 1.1),
    "memory": ("memory", "MB", 1.05),
    "files": ("open files", "", 1.0),
    "threads": ("threads", "", 1.0),
    "children": ("child processes", "", 1.0),
    "temporary": ("temporary files", "", 1.0),
}


def rows_of(runs: str, readings: Sequence[Reading]) -> Iterator[Row]:
    """Yields a row per resource with the growth from the second to the last fifth of the runs."""
    fifth = max(1, len(readings) // 5)
    for field, (name, unit, at_most) in _RESOURCES.items():
        values = [getattr(reading, field) for reading in readings]
        early, late = (statistics.median(part) for part in (values[fifth : 2 * fifth], values[-fifth:]))
        # Adds 1 to counts on both sides, because most of them are 0.
        more = 0 if unit else 1
        row = Row(f"{runs}: {name} in the last fifth", "the second fifth", unit, [late + more], [early + more])
        yield dataclasses.replace(row, at_most=at_most)


def _write_page(path: str, readings: dict[str, list[Reading]]) -> None:
    from generic_trainer.executors.reporting.document import Chart, Report, Section
    from generic_trainer.executors.reporting.page import html_of

    def chart(field: str, values: Sequence[Reading]) -> Chart:
        name, unit, _ = _RESOURCES[field]
        shown = [getattr(reading, field) for reading in values]
        return Chart(name.capitalize(), "run", list(range(1, len(values) + 1)), {name: shown}, unit)

    sections = [
        Section(f"soak-{number}", runs, [chart(field, values) for field in _RESOURCES])
        for number, (runs, values) in enumerate(readings.items())
    ]
    facts = [("what", "Resources after each run, in one long-running process")]
    pathlib.Path(path).write_text(html_of(Report("Soak test", "", facts, sections)), encoding="utf-8")


if __name__ == "__main__":
    main()
