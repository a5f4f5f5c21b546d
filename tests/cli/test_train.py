"""`generic-trainer train`: output, exit codes, and one-line errors."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.cli.summary import PipelineSummary, RunSummary

from ..world.records import example, write_records

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def train(command: Command, iris: Any, tmp_path: pathlib.Path) -> Command:
    def run(module: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path / "out"]
        return command("train", module, *data, *arguments, **options)

    return run


def test_it_prints_paths_and_metrics(train: Command, module: Callable[..., str], tmp_path: pathlib.Path) -> None:
    path = module("""
        import helpers
        def run_fn(fn_args):
            assert fn_args.custom_config == {"scale": 2}, fn_args.custom_config
            assert fn_args.hyperparameters == {"units": 4}
            assert (fn_args.train_steps, fn_args.eval_steps, fn_args.seed) == (3, None, 5)
            helpers.save(fn_args)
            print("a line of the module's")
            return {"val_auc": 0.75, "loss": 0.1}
    """, helpers=TINY)  # fmt: skip
    (tmp_path / "config.json").write_text('{"scale": 2}')
    (tmp_path / "hyperparameters.json").write_text('{"units": 4}')
    arguments = ["--custom-config", f"@{tmp_path}/config.json", "--train-steps", 3, "--eval-steps", 0, "--seed", 5]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = train(path, *arguments, "--hyperparameters", tmp_path / "hyperparameters.json", env=environment)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in temporary.rglob("*")] in ([], ["__pycache__"])  # of the code that AutoGraph generated
    assert done.stdout.splitlines() == [
        "a line of the module's",
        f"Model:        {tmp_path}/out/model/Format-Serving",
        f"Report:       {tmp_path}/out/model_run/report.html",
        f"TensorBoard:  {tmp_path}/out/model_run",
        "Eval metrics:",
        "  auc  0.75",
    ]
    assert (tmp_path / "out" / "model" / "Format-Serving" / "saved_model.pb").exists()
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["status"] == "succeeded"
    # A second run does not write into the logs of the finished first run.
    (tmp_path / "config.json").write_text('{"scale": 3}')
    assert train(path, *arguments).returncode == 1
    assert json.loads((tmp_path / "out" / "model_run.1" / "run.json").read_text()) == record
    assert json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())["status"] == "failed"
    assert (tmp_path / "out" / "model" / "Format-Serving" / "saved_model.pb").exists()


TINY = """
    import tensorflow as tf

    class Tiny(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, examples):
            return {"n": tf.strings.length(examples)}

    def save(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


READS_ALL = """
    import helpers
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    def run_fn(fn_args):
        schema = text_format.Parse(
            'feature { name: "sepal_length" type: FLOAT shape { dim { size: 1 } } presence { min_fraction: 1 } }',
            schema_pb2.Schema())
        options = TensorFlowDatasetOptions(batch_size=8, num_epochs=1)
        dataset = fn_args.data_accessor.tf_dataset_factory(fn_args.train_files, options, schema)
        assert sum(len(batch["sepal_length"]) for batch in dataset) == 3
        if fn_args.custom_config:
            raise ValueError("after that")
        helpers.save(fn_args)
"""


@pytest.fixture
def damaged(tmp_path: pathlib.Path) -> str:
    """Returns examples, five of which are invalid."""
    records = (example(sepal_length=float(n)) if n in (1, 4, 7) else b"\xff\xff" for n in range(8))
    return write_records(tmp_path / "damaged", records)


def test_skipped_records_are_reported_wherever_a_run_is_shown(
    command: Command, module: Callable[..., str], damaged: str, tmp_path: pathlib.Path
) -> None:
    path = module(READS_ALL, helpers=TINY)
    arguments = ["train", path, "--train-files", damaged, "--output", tmp_path / "out", "--on-bad-records"]

    done = command(*arguments, "skip:6")

    assert done.returncode == 0, done.stderr
    *_, a, b, c, more, metrics = done.stdout.partition("Skipped:      ")[2].splitlines()
    place = f"{'':14}{damaged}, byte"
    assert [line.startswith(place) for line in (a, b, c)] == [True] * 3
    assert (more.strip(), metrics.partition(":")[0]) == ("and more; all are in run.json", "Metrics")
    assert "Skipped:      5 unreadable records (limit: 6)" in done.stdout
    report = (tmp_path / "out" / "model_run" / "report.html").read_text()
    assert "Skipped 5 unreadable records (limit: 6)." in report
    assert "byte 0, record 1" in report
    shown = command("show", tmp_path / "out").stdout.partition("Skipped:      ")[2].splitlines()
    assert shown[1:4] == [a, b, c]

    failed = command(*arguments, "skip:2")
    assert failed.returncode == 2
    assert "3 records cannot be read, but on_bad_records=skip:2 skips at most 2" in failed.stderr
    bad = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())["bad_records"]
    assert (bad["limit"], bad["count"], len(bad["records"])) == (2, 3, 3)

    raised = command(*arguments, "skip:9", "--custom-config", '{"raise": true}')
    assert raised.returncode == 1
    bad = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())["bad_records"]
    assert (bad["limit"], bad["count"]) == (9, 5)  # without those of the previous run

    without = command(*arguments[:-1])
    assert without.returncode == 1
    said = f"Error: {damaged}: the record at byte 0, record 1, cannot be parsed: "
    assert said in without.stderr.replace("\n", " ")


def test_the_modules_exception_ends_with_1_and_its_traceback_once(train: Command, module: Callable[..., str]) -> None:
    path = module("def run_fn(fn_args):\n    raise ValueError('no such column: fare')\n")
    done = train(path)
    assert done.returncode == 1
    assert done.stderr.count(f'File "{path}", line 2, in run_fn') == 1
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert done.stderr.splitlines()[-1] == f"generic-trainer: failed: ValueError: no such column: fare ({path}:2)"


def test_a_syntax_error_shows_the_line(train: Command, module: Callable[..., str]) -> None:
    path = module("def run_fn(fn_args:\n    pass\n")
    done = train(path)
    assert done.returncode == 1
    assert f'File "{path}", line 1' in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "generic-trainer: failed: SyntaxError: '(' was never closed (trainer_module.py, line 1, column 11)"
    )


def test_an_invalid_model_exits_with_3(train: Command, module: Callable[..., str], tmp_path: pathlib.Path) -> None:
    done = train(module("def run_fn(fn_args): pass"))
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        f"generic-trainer: run_fn wrote no model: {tmp_path}/out/model/Format-Serving does not exist. "
        "It must save one to fn_args.serving_model_dir."
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--custom-config", "[1]"], "must be a JSON object, not a list"),
        (["--custom-config", "{a: 1}"], "is not JSON"),
        (["--custom-config", "@/nowhere.json"], "cannot read the file (No such file or directory)"),
        (["--hyperparameters", "/nowhere.json"], "--hyperparameters /nowhere.json does not exist"),
        (["--base-model", "/nowhere"], "base_model /nowhere: no SavedModel in Format-Serving"),
        (["--schema", "/nowhere.pbtxt"], "schema /nowhere.pbtxt does not exist"),
        (["--train-files", "/nowhere/*"], "train_files: no file matches '/nowhere/*'"),
        (["--data-view", "/nowhere"], "--data-view /nowhere: there is no such folder"),
        (["--keras", "4"], "Invalid value for '--keras': '4' is not one of 'auto', '2', '3'"),
        (["--train-steps", "-1"], "Invalid value for '--train-steps'"),
        (["--dialect", "run_fun"], "dialect='run_fun' is not installed"),
        (["--timeout", "5", "--no-isolate"], "timeout needs isolate=True"),
        (["--output", "/dev/null"], "--output /dev/null: this is a character device. Give a folder."),
    ],
)
def test_wrong_usage_ends_with_2_and_one_line(
    arguments: list[str], text: str, train: Command, tiny_module: str, tmp_path: pathlib.Path
) -> None:
    done = train(tiny_module, *arguments)
    assert done.returncode == 2, done.stderr
    assert text in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "model" / "Format-Serving").exists()


def test_no_data_are_needed_by_a_module_that_reads_none(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = module("""
        import helpers
        def run_fn(fn_args):
            assert (fn_args.train_files, fn_args.eval_files) == ([], [])
            helpers.save(fn_args)
            fn_args.train_files[0]
    """, helpers=TINY)  # fmt: skip
    done = command("train", path, "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "The run has no training data: --train-files was not given." in done.stderr
    assert done.stderr.splitlines()[-1].startswith("generic-trainer: failed: IndexError: list index out of range")
    pathlib.Path(path).write_text(pathlib.Path(path).read_text().replace("fn_args.train_files[0]", ""))
    assert command("train", path, "--output", tmp_path / "out").returncode == 0


@pytest.mark.parametrize(
    ("code", "reads_them", "arguments"),
    [
        ("def run_fn(fn_args):\n    fn_args.train_files[0]", True, ["train"]),
        ("def run_fn(fn_args):\n    [][1]", False, ["train"]),
        ("def run_fn(fn_args):\n    pass\n[][1]", False, ["train"]),
        ("def main():\n    return [][1]\nmain()", False, ["script"]),  # has no --train-files
    ],
)
def test_missing_data_are_named_if_the_code_that_failed_reads_them(
    code: str,
    reads_them: bool,
    arguments: list[str],
    command: Command,
    module: Callable[..., str],
    tmp_path: pathlib.Path,
) -> None:
    done = command(*arguments, module(code), "--output", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert ("--train-files was not given" in done.stderr) == reads_them


def test_a_model_of_another_library_is_announced_before_the_training(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = module("""
        import os, pickle, sys
        from sklearn.linear_model import LinearRegression
        def run_fn(fn_args):
            print("TRAINS", file=sys.stderr)
            os.makedirs(fn_args.serving_model_dir)
            with open(os.path.join(fn_args.serving_model_dir, "model.pkl"), "wb") as file:
                pickle.dump(LinearRegression().fit([[1], [2]], [1, 2]), file)
    """)  # fmt: skip
    done = command("train", path, "--output", tmp_path / "out")
    assert done.returncode == 3
    before, _, after = done.stderr.partition("TRAINS")
    assert "If its model is no SavedModel, such as one of scikit-learn, use --skip-check parses" in before
    assert "contains no SavedModel, only model.pkl" in after
    done = command("train", path, "--output", tmp_path / "out", "--skip-check", "parses")
    assert done.returncode == 0
    assert "neither TensorFlow nor Keras" not in done.stderr
    assert "Not checked:  the model was not loaded, because --skip-check was given" in done.stdout
    assert (tmp_path / "out" / "model" / "Format-Serving" / "model.pkl").exists()


def test_a_missing_module_ends_with_2(train: Command, tiny_module: str) -> None:
    done = train(tiny_module.replace("tiny", "tinny"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("tinny.py does not exist. Did you mean 'tiny.py'?")


@pytest.mark.thorough
def test_a_dotted_module_in_the_working_directory(train: Command, tiny_module: str, tmp_path: pathlib.Path) -> None:
    folder = pathlib.Path(tiny_module).parent
    done = train("tiny.run_fn", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_publishes_nothing_and_is_recorded_as_an_interrupt_with_the_metrics_so_far(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module("""
        import pathlib, time
        import tensorflow as tf
        from generic_trainer import report_progress
        def run_fn(fn_args):
            with tf.summary.create_file_writer(f"{fn_args.model_run_dir}/eval").as_default(step=3):
                tf.summary.scalar("auc", 0.5)
            report_progress(3, metrics={"loss": 0.25})
            pathlib.Path(fn_args.model_run_dir, "here").write_text("")
            time.sleep(1000)
    """)
    line = [sys.executable, "-m", "generic_trainer.cli.main", "train", path, "--train-files", iris.train]
    running = subprocess.Popen([*line, "--output", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "out" / "model_run" / "here").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors.splitlines()[-1] == "generic-trainer: interrupted; nothing was published."
    assert list((tmp_path / "out" / "model").iterdir()) == []
    model_run = tmp_path / "out" / "model_run"
    record = json.loads((model_run / "run.json").read_text())
    assert (record["status"], record["traceback"]) == ("interrupted", "")
    assert record["error"] == {"type": "KeyboardInterrupt", "message": "interrupted by Ctrl-C"}
    assert record["metrics"] == {"train": {"loss": 0.25}, "eval": {"auc": 0.5}}
    assert "Interrupted: interrupted by Ctrl-C" in (model_run / "report.html").read_text()
    listed = json.loads(command("runs", str(tmp_path / "out"), "--status", "interrupted", "--json").stdout)
    assert [run["id"] for run in listed] == [record["id"]]
    assert listed[0]["seconds"] > 0


def test_help_and_version(command: Command) -> None:
    import generic_trainer

    assert command("--version").stdout.splitlines()[0] == f"generic-trainer {generic_trainer.__version__}"
    text = command("train", "--help").stdout
    assert "Trains MODULE and checks the model that it writes." in text
    for flag in ("--skip-check", "--required-signature", "--isolate / --no-isolate", "--custom-config JSON|@FILE"):
        assert flag in text


def test_json_is_all_of_the_standard_output(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    source = (
        textwrap.dedent(TINY)
        + "\ndef run_fn(fn_args):\n    print('from the module')\n    save(fn_args)\n    return {'loss': 0.5}\n"
    )
    arguments = ["train", module(source), "--train-files", iris.train, "--output", tmp_path / "out"]
    done = command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "model": str(tmp_path / "out" / "model" / "Format-Serving"),
        "model_run": str(tmp_path / "out" / "model_run"),
        "report": str(tmp_path / "out" / "model_run" / "report.html"),
        "metrics": {"train": {"loss": 0.5}},
        "metrics_of": None,
        "hyperparameters": {},
        "cluster": None,
        "bad_records": None,
        "not_checked": None,
    }
    assert "from the module" in done.stderr


def test_the_keys_of_the_json_are_in_the_help(command: Command) -> None:
    for name, kind in (("train", RunSummary), ("run", PipelineSummary)):
        said = " ".join(command(name, "--help").stdout.split())
        keys = ", ".join(field.name for field in dataclasses.fields(kind))
        assert f"With --json an object with: {keys}." in said


def test_quiet_shows_only_warnings_and_the_summary(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    source = (
        "from absl import logging\n" + textwrap.dedent(TINY) + "\ndef run_fn(fn_args):\n    print('printed')\n"
        "    logging.info('logged')\n    logging.warning('warned')\n    save(fn_args)\n    return {'loss': 0.5}\n"
    )
    arguments = ["train", module(source), "--train-files", iris.train, "--output", tmp_path / "out", "--quiet"]
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert [line[9:15] for line in done.stderr.splitlines()] == ["warned"]
    assert done.stdout.startswith(f"Model:        {tmp_path}/out/model/Format-Serving\n")
    assert "printed" not in done.stdout
    kept = (tmp_path / "out" / "model_run" / "generic-trainer.log").read_text()
    assert "printed\n" in kept
    assert "logged\n" in kept
    refused = command("-v", *arguments)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("generic-trainer: -v shows all logs, --quiet only warnings")
