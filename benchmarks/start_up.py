"""Measures the time and memory until `run_fn` is called, the overhead of a run, and the SavedModel check.

    python benchmarks/start_up.py
    python benchmarks/start_up.py --quick

All sides use one module and the same iris examples. Its `run_fn` records time and memory and writes a small model:

- tfx: `python -m tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor` with TFX's GenericExecutor.
- step: `python -m generic_trainer.executors.kubeflow_step` with the same arguments and this project's executor.
- train: `generic-trainer train` on the same files.
- import: `python -c "import tensorflow"`, until the import is complete.

Memory is the total of all processes of the command when `run_fn` is called; shared pages count once. `overhead` is the
duration of a training, without run_fn and check, in a process that has trained before, i.e. the overhead of the second
and later trainings. The first one also imports TensorFlow, which the other rows measure. `check` is the phase "check"
of `generic-trainer train`, compared with a new Python process that loads the model and calls it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from pairs import Row, arguments, compare, read_measurement, report, send

_TFX = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"
_OURS = "generic_trainer.executors.kubeflow_step"
_EXECUTORS = {
    _TFX: "tfx.components.trainer.executor.GenericExecutor",
    _OURS: "generic_trainer.executors.generic_executor.GenericExecutor",
}
_FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")

_MODULE = '''
import json
import os
import time


def memory(session):
    """Returns the bytes of all processes of the command: private memory, and once the shared memory of the largest."""
    alone, shared = 0, 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                if f"START_UP_RUN={session}".encode() not in file.read().split(b"\\0"):
                    continue
            with open(f"/proc/{process}/smaps_rollup") as file:
                sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file if line.endswith("kB\\n")}
        except OSError:
            continue
        own = sizes["Private_Clean"] + sizes["Private_Dirty"]
        alone, shared = alone + own, max(shared, sizes["Rss"] - own)
    return alone + shared


def run_fn(fn_args):
    entered = time.time()
    import tensorflow as tf

    with open(os.environ["START_UP_NOTES"], "w") as file:
        json.dump({"entered": entered, "bytes": memory(os.environ["START_UP_RUN"])}, file)

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            features = tf.io.parse_example(examples, {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)})
            return {"y": 3.0 * features["sepal_length"]}

    model = Model()
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
'''

_BY_HAND = """
import sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
examples = next(iter(tf.data.TFRecordDataset(sys.argv[2], "GZIP").batch(1)))
print(model.signatures["serving_default"](examples))
"""


def main() -> None:
    """Measures all rows and prints the table."""
    options = arguments(__doc__, pairs=3)
    if options.measure:
        send(_overhead(pathlib.Path(options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        _write_inputs(pathlib.Path(folder))
        report(_rows(pathlib.Path(folder), options), options)


def _rows(folder: pathlib.Path, options: argparse.Namespace) -> list[Row]:
    notes: dict[str, list[dict[str, float]]] = {}

    def seconds(side: str) -> Callable[[], float]:
        def measure() -> float:
            notes.setdefault(side, []).append(_until_run_fn(side, folder))
            return notes[side][-1]["seconds"]

        return measure

    step, train, tfx = (seconds(side) for side in (_OURS, "train", _TFX))
    until = "until run_fn is entered: "
    rows = [
        compare(f"{until}the Kubeflow step", "TFX's command", options, ours=step, peer=tfx, unit="s", inverse=True,
                at_least=1.4),
        compare(f"{until}generic-trainer train", "TFX's command", options, ours=train, peer=tfx, unit="s",
                inverse=True, at_least=1.4),
        compare(f"{until}the Kubeflow step", "import tensorflow", options, ours=step, peer=_import, unit="s",
                at_most=1.1),
        compare(f"{until}generic-trainer train", "import tensorflow", options, ours=train, peer=_import, unit="s",
                at_most=1.1),
    ]  # fmt: skip
    for side, name in ((_OURS, "the Kubeflow step"), ("train", "generic-trainer train")):
        bytes_of = [[one["bytes"] / 2**20 for one in notes[key][: options.pairs]] for key in (side, _TFX)]
        rows.append(Row(f"memory when run_fn is entered: {name}", "TFX's command", "MiB", *bytes_of, at_most=0.8))
    model = str(folder / "train" / "model" / "Format-Serving")
    examples = str(folder / "examples" / "Split-eval" / "part-0.gz")
    rows.append(
        compare("the SavedModel's check", "load and call by hand", options, ours=lambda: _check(folder),
                peer=lambda: _timed([sys.executable, "-c", _BY_HAND, model, examples]), unit="s", at_most=1.3)
    )  # fmt: skip
    for _ in range(options.pairs):
        line = [sys.executable, __file__, "--measure", "overhead", "--folder", str(folder)]
        found = json.loads(read_measurement(line, _environment(folder)))
        small, large = (found[key] for key in ("small", "large"))
        notes.setdefault("overhead", []).append({"small": small, "large": large})
    overheads = [[one[key] for one in notes["overhead"]] for key in ("small", "large")]
    rows.append(Row("overhead of a later training", "0.3 s", "s", overheads[0], [0.3] * options.pairs, at_most=1.0))
    rows.append(Row("overhead, 100 times the data", "0.3 s", "s", overheads[1], [0.3] * options.pairs, at_most=1.0))
    return rows


def _write_inputs(folder: pathlib.Path) -> None:
    import tensorflow as tf
    from sklearn.datasets import load_iris

    data = load_iris()
    rows = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                    for name, value in zip(_FEATURES, values, strict=True)
                }
            )
        ).SerializeToString()
        for values in data.data
    ]
    for name, times, files in (("Split-train", 1, 1), ("Split-eval", 1, 1), ("large", 100, 20)):
        (folder / "examples" / name).mkdir(parents=True)
        for number in range(files):
            with tf.io.TFRecordWriter(str(folder / "examples" / name / f"part-{number}.gz"), "GZIP") as writer:
                for row in rows * (times // files or 1):
                    writer.write(row)
    (folder / "start_up_module.py").write_text(_MODULE)


def _environment(folder: pathlib.Path) -> dict[str, str]:
    return {"START_UP_NOTES": str(folder / "notes.json"), "START_UP_RUN": f"{os.getpid()}-{time.monotonic_ns()}"}


def _until_run_fn(side: str, folder: pathlib.Path) -> dict[str, float]:
    began = time.time()
    _timed(_train_line(folder) if side == "train" else _step_line(side, folder), _environment(folder))
    notes = json.loads((folder / "notes.json").read_text())
    return {"seconds": notes["entered"] - began, "bytes": notes["bytes"]}


def _train_line(folder: pathlib.Path) -> list[str]:
    command = [sys.executable, "-m", "generic_trainer.cli.main", "train", str(folder / "start_up_module.py")]
    files = [f"--train-files={folder}/examples/Split-train/*", f"--eval-files={folder}/examples/Split-eval/*"]
    return [*command, *files, "--train-steps=1", f"--output={folder / 'train'}"]


def _step_line(command: str, folder: pathlib.Path) -> list[str]:
    def artifact(title: str, uri: pathlib.Path, **metadata: str) -> dict[str, Any]:
        properties = "".join(f"\n  {key}:\n    type: string" for key in metadata)
        schema = f"title: tfx.{title}\ntype: object\n" + (f"properties:{properties}\n" if metadata else "")
        described = {"name": title, "uri": str(uri), "metadata": metadata, "type": {"instanceSchema": schema}}
        return {"artifacts": [described]}

    outputs = folder / command.rpartition(".")[2]
    parameters = {"train_args": '{"num_steps": 1}', "eval_args": '{"num_steps": 1}',
                  "module_file": str(folder / "start_up_module.py")}  # fmt: skip
    examples = artifact("Examples", folder / "examples", split_names='["train", "eval"]')
    invocation = {
        "inputs": {"artifacts": {"examples": examples}, "parameterValues": parameters},
        "outputs": {
            "artifacts": {
                "model": artifact("Model", outputs / "model"),
                "model_run": artifact("ModelRun", outputs / "model_run"),
            },
            "outputFile": str(outputs / "executor_output.json"),
        },
    }
    (outputs / "executor_output.json").unlink(missing_ok=True)
    spec = {"parameters": {name: {"parameterType": "STRING"} for name in parameters}}
    return [
        *[sys.executable, "-m", command, "--executor_class_path", _EXECUTORS[command]],
        *["--json_serialized_invocation_args", json.dumps(invocation)],
        *["--json_serialized_inputs_spec_args", json.dumps(spec)],
    ]


def _import() -> float:
    began = time.time()
    measured = read_measurement([sys.executable, "-c", "import tensorflow, time; print('measured:', time.time())"])
    return float(measured) - began


def _timed(line: list[str], environment: dict[str, str] | None = None) -> float:
    """Runs a command; returns its duration in seconds."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        sys.exit(f"{' '.join(line)} ended with code {done.returncode}:\n{done.stderr[-3000:]}")
    return time.perf_counter() - began


def _check(folder: pathlib.Path) -> float:
    _timed(_train_line(folder), _environment(folder))
    record = json.loads((folder / "train" / "model_run" / "run.json").read_text())
    return float(record["phases"]["check"])


def _overhead(folder: pathlib.Path) -> dict[str, float]:
    """Trains in one process: once as warm-up, then on few and on many examples; returns the overheads in seconds."""
    from generic_trainer import FnArgs, train

    def on_top(number: int, examples: str) -> float:
        outputs = folder / f"overhead-{os.getpid()}-{number}"
        fn_args = FnArgs(
            train_files=[f"{folder}/examples/{examples}/*"],
            eval_files=[f"{folder}/examples/Split-eval/*"],
            serving_model_dir=str(outputs / "model"),
            model_run_dir=str(outputs / "run"),
        )
        began = time.perf_counter()
        record = train(str(folder / "start_up_module.py"), fn_args)
        seconds = time.perf_counter() - began
        return seconds - record.phases["training/run_fn"] - record.phases["check"]

    on_top(0, "Split-train")
    return {"small": on_top(1, "Split-train"), "large": on_top(2, "large")}


if __name__ == "__main__":
    main()
