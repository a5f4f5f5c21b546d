"""Measures whole pipelines against TFX's own components under its LocalDagRunner, with the same module, data and steps.

    python benchmarks/pipelines.py                   the taxi CSV in the tfx wheel, 785 training steps
    python benchmarks/pipelines.py --rows 1000000    the same rows repeated, 59 MB
    python benchmarks/pipelines.py --quick

Our side is `generic-trainer run` in an empty root, with its check and report. The peer is a program with CsvExampleGen,
StatisticsGen, SchemaGen, ExampleValidator, Transform, Trainer, Evaluator and Pusher, without a check. The rows of
single steps are times from ML Metadata, from the registration of a step's execution to its end. On our side, the steps
before training share the processors with the check.

`a training step in a warm process` runs a pipeline of an importer and a Trainer twice in one process; the module fits a
small Keras model for ten steps. The time of the second Trainer is measured. TFX's Trainer runs the module in its own
process, and does not check the model.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from pairs import Row, arguments, compare, read_measurement, report, send

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
_MODULE = _REPOSITORY / "module_files" / "taxi_keras.py"
_STEPS = 785  # five passes over two thirds of the taxi data, in batches of 64
_FEW_STEPS = 10
_NOT_PUSHED = 4  # exit code of `run`: after few steps, the model may miss the Evaluator's threshold
_LABEL = "big_tip"
_TIMED = ("CsvExampleGen", "StatisticsGen", "Transform", "Trainer", "Evaluator")

_TINY = """
import tensorflow as tf
from tensorflow import keras

FEATURES = {"fare": tf.io.FixedLenFeature([1], tf.float32)}


def run_fn(fn_args):
    files = tf.io.gfile.glob(fn_args.train_files)
    rows = tf.data.TFRecordDataset(files, compression_type="GZIP").batch(1)
    rows = rows.map(lambda examples: tf.io.parse_example(examples, FEATURES)["fare"])
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(rows.map(lambda fare: (fare, 2 * fare)).repeat(), steps_per_epoch=fn_args.train_steps, verbose=0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples):
        return {"tip": model(tf.io.parse_example(examples, FEATURES)["fare"])}

    tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": serve})
"""


def main() -> None:
    """Measures all rows and prints the table."""
    options = arguments(__doc__, pairs=3, values={"--rows": "number of rows (default: the 15,002 of the taxi CSV)"})
    if options.measure:
        folder = pathlib.Path(options.folder)
        send({"tfx": _run_tfx, "tiny-tfx": _tiny_tfx, "tiny-ours": _tiny_ours}[options.measure](folder))
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        _write_data(pathlib.Path(folder) / "data", int(options.rows or 0))
        report(_rows(options), options)


def _rows(options: argparse.Namespace) -> list[Row]:
    few = _FEW_STEPS if options.quick or options.rows else _STEPS
    scale = f"{int(options.rows):,} CSV rows" if options.rows else "the taxi CSV"
    sides = _Sides(options, few)
    target = 0.5 if options.rows else 0.7
    rows = [
        compare(
            f"a whole pipeline, {scale}, {few} steps",
            "TFX's components and LocalDagRunner, without a check",
            options, unit="s", ours=sides.ours, peer=sides.peer, at_most=target,
        ),
        *(sides.row(f"of this: {step}", step) for step in _TIMED),
    ]  # fmt: skip
    if not options.rows:
        sides = _Sides(options, _FEW_STEPS)
        compare(
            f"a whole pipeline, {_FEW_STEPS} steps", "the same", options, unit="s", ours=sides.ours, peer=sides.peer
        )
        rows.append(sides.row(f"Trainer, {_FEW_STEPS} steps", "Trainer", at_most=1.2))
        rows.append(
            compare(
                "a training step in a warm process, ten steps of a small model",
                "TFX's Trainer and LocalDagRunner", options, unit="s", at_most=1.2,
                ours=functools.partial(_measure, "tiny-ours", options),
                peer=functools.partial(_measure, "tiny-tfx", options),
            )
        )  # fmt: skip
    return rows


class _Sides:
    """Runs whole pipelines, and keeps the times of their steps.

    Args:
      options: The flags.
      steps: Number of training steps.
    """

    def __init__(self, options: argparse.Namespace, steps: int) -> None:
        self._folder = pathlib.Path(options.folder)
        self._options = options
        self._steps = steps
        self._times: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}

    def ours(self) -> float:
        """Runs `generic-trainer run` in an empty root; returns the seconds."""
        return self._run(
            "ours",
            lambda root: [
                sys.executable, "-m", "generic_trainer.cli.main", "run", "--data", str(self._folder / "data"),
                "--module-file", str(_MODULE), "--label", _LABEL, "--train-steps", str(self._steps),
                "--pipeline-root", root,
            ],
        )  # fmt: skip

    def peer(self) -> float:
        """Runs TFX's pipeline in an empty root; returns the seconds."""
        program = [sys.executable, __file__, "--measure", "tfx", "--folder"]
        return self._run("peer", lambda root: [*program, root])

    def row(self, what: str, step: str, at_most: float | None = None) -> Row:
        """Returns the row of a step's times."""
        ours, peer = ([times[step] for times in self._times[side]] for side in ("ours", "peer"))
        return Row(what, f"TFX's {step}", "s", ours, peer, at_most=at_most)

    def _run(self, side: str, line: Callable[[str], list[str]]) -> float:
        with tempfile.TemporaryDirectory(dir=self._folder) as root:
            environment = {**os.environ, "BENCH_DATA": str(self._folder / "data"), "BENCH_STEPS": str(self._steps)}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
            begin = time.perf_counter()
            done = subprocess.run(line(f"{root}/root"), capture_output=True, text=True, check=False, env=environment)
            seconds = time.perf_counter() - begin
            if done.returncode not in (0, _NOT_PUSHED):
                sys.exit(f"{side} exited with code {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
            self._times[side].append(_step_times(f"{root}/root/metadata.sqlite"))
        return seconds


def _measure(side: str, options: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        return float(read_measurement([sys.executable, __file__, "--measure", side, "--folder", folder]))


def _step_times(store: str) -> dict[str, float]:
    """Returns the seconds of each step of the last pipeline run in a metadata store."""
    import ml_metadata as mlmd
    from ml_metadata.proto import metadata_store_pb2

    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = store
    opened = mlmd.MetadataStore(config)
    types = {kind.id: kind.name.rpartition(".")[2] for kind in opened.get_execution_types()}
    return {
        types[run.type_id]: (run.last_update_time_since_epoch - run.create_time_since_epoch) / 1000
        for run in sorted(opened.get_executions(), key=lambda run: int(run.create_time_since_epoch))
    }


def _write_data(folder: pathlib.Path, rows: int) -> None:
    origin = find_spec("tfx").origin  # type: ignore[union-attr]
    taxi = pathlib.Path(str(origin)).parent / "examples" / "chicago_taxi_pipeline" / "data" / "simple" / "data.csv"
    folder.mkdir()
    with open(taxi, newline="") as source, open(folder / "data.csv", "w", newline="") as file:
        reader, writer = csv.reader(source), csv.writer(file, lineterminator="\n")
        writer.writerow(next(reader))
        lines = list(reader)
        writer.writerows(itertools.islice(itertools.cycle(lines), rows or len(lines)))


def _run_tfx(root: pathlib.Path) -> float:
    """Runs the peer's pipeline; its times are taken by the parent process."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # the module's preprocessing layer is of Keras 2
    sys.path.insert(0, str(_MODULE.parent))
    import tensorflow_model_analysis as tfma
    from tfx import v1 as tfx

    components = tfx.components
    examples = components.CsvExampleGen(input_base=os.environ["BENCH_DATA"])
    statistics = components.StatisticsGen(examples=examples.outputs["examples"])
    schema = components.SchemaGen(statistics=statistics.outputs["statistics"], infer_feature_shape=True)
    validator = components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    # Functions by name, not a module file, which TFX would package with pip.
    transform = components.Transform(
        examples=examples.outputs["examples"],
        schema=schema.outputs["schema"],
        preprocessing_fn="taxi_keras.preprocessing_fn",
    )
    trainer = components.Trainer(
        run_fn="taxi_keras.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(num_steps=int(os.environ["BENCH_STEPS"])),
        eval_args=tfx.proto.EvalArgs(num_steps=0),
    )
    evaluator = components.Evaluator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        schema=schema.outputs["schema"],
        eval_config=tfma.EvalConfig(
            model_specs=[
                tfma.ModelSpec(
                    signature_name="serving_default",
                    label_key=_LABEL,
                    preprocessing_function_names=["transform_features"],
                )
            ],
            slicing_specs=[tfma.SlicingSpec()],
            metrics_specs=[
                tfma.MetricsSpec(
                    metrics=[tfma.MetricConfig(class_name=name) for name in ("ExampleCount", "AUC", "BinaryAccuracy")]
                )
            ],
        ),
    )
    pusher = components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(root / "serving"))
        ),
    )
    _run_pipeline(root, [examples, statistics, schema, validator, transform, trainer, evaluator, pusher])
    return 0.0


def _tiny_tfx(folder: pathlib.Path) -> float:
    from tfx import v1 as tfx

    (folder / "tiny_module.py").write_text(_TINY)
    sys.path.insert(0, str(folder))
    return _second_run(folder, lambda **inputs: tfx.components.Trainer(run_fn="tiny_module.run_fn", **inputs))


def _tiny_ours(folder: pathlib.Path) -> float:
    from generic_trainer import Trainer

    (folder / "tiny_module.py").write_text(_TINY)
    return _second_run(folder, lambda **inputs: Trainer(module_file=str(folder / "tiny_module.py"), **inputs))


def _second_run(folder: pathlib.Path, trainer: Callable[..., Any]) -> float:
    """Runs a pipeline of an importer and a Trainer twice in this process; returns the seconds of the second Trainer."""
    import tensorflow as tf
    from tfx import v1 as tfx
    from tfx.types import artifact_utils

    examples = folder / "examples"
    for split in ("train", "eval"):
        (examples / f"Split-{split}").mkdir(parents=True)
        with tf.io.TFRecordWriter(str(examples / f"Split-{split}" / "part-0.gz"), "GZIP") as writer:
            features = {"fare": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    for _ in range(2):
        importer = tfx.dsl.Importer(
            source_uri=str(examples),
            artifact_type=tfx.types.standard_artifacts.Examples,
            properties={"split_names": artifact_utils.encode_split_names(["train", "eval"])},
        ).with_id("examples")
        step = trainer(
            examples=importer.outputs["result"],
            train_args=tfx.proto.TrainArgs(num_steps=_FEW_STEPS),
            eval_args=tfx.proto.EvalArgs(num_steps=1),
        )
        _run_pipeline(folder, [importer, step])
    return _step_times(str(folder / "metadata.sqlite"))["Trainer"]


def _run_pipeline(root: pathlib.Path, nodes: list[Any]) -> None:
    from tfx import v1 as tfx

    tfx.orchestration.LocalDagRunner().run(
        tfx.dsl.Pipeline(
            pipeline_name="peer",
            pipeline_root=str(root),
            components=nodes,
            metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
                str(root / "metadata.sqlite")
            ),
            beam_pipeline_args=["--direct_running_mode=in_memory", "--direct_num_workers=1"],
        )
    )


if __name__ == "__main__":
    main()
