"""Past runs, read from real ML Metadata stores and run records without TensorFlow or TFX."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.pipelines.history.metadata_store import open_store
from generic_trainer.pipelines.history.metric_comparison import is_higher_better
from generic_trainer.pipelines.history.run import Run, Selection
from generic_trainer.pipelines.history.runs import find_run, find_runs


@pytest.fixture
def root(metadata: Any) -> str:
    return str(metadata.root)


def record(folder: pathlib.Path, **fields: Any) -> RunRecord:
    """Writes the record of a run that ends immediately."""
    run = RunRecord(**fields)
    with run.written_to(str(folder)):
        pass
    return run


def test_pipeline_runs_are_listed_with_their_results(root: str) -> None:
    runs = find_runs([root])
    assert [run.pipeline_run for run in runs] == ["run-5", "run-4", "run-3", "run-2", "run-1"]
    assert [run.status for run in runs] == ["running", "succeeded", "failed", "cached", "succeeded"]
    assert {run.pipeline for run in runs} == {"taxi"}
    by_name = {run.pipeline_run: run for run in runs}
    first, cached = by_name["run-1"], by_name["run-2"]
    assert (first.id, first.module, first.fingerprint, first.dialect) == ("1" * 32, "code/taxi.py", "ab" * 32, "run_fn")
    assert first.metrics == {"eval": {"auc": 0.93, "loss": 0.2}, "train": {"auc": 0.95}}
    # Two Evaluators have judged the first model: the one after its training, and that of the cached run.
    assert (first.blessed, first.pushed_model) == (True, f"{root}/serving/run-1")
    assert (cached.blessed, cached.pushed_model, cached.model) == (False, None, first.model)
    assert cached.id != first.id
    assert (by_name["run-4"].blessed, by_name["run-4"].pushed_model) == (True, f"{root}/serving/run-4")
    assert by_name["run-4"].evaluation != first.evaluation
    failed = by_name["run-3"]
    assert (failed.model, failed.model_run, failed.blessed, failed.metrics) == (None, None, None, {})
    assert (by_name["run-5"].seconds, failed.seconds is not None) == (None, True)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"status": "succeeded"}, ["run-4", "run-1"]),
        ({"status": "cached"}, ["run-2"]),
        ({"module": "taxi_wide"}, ["run-4"]),
        ({"module": "taxi.py", "limit": 2}, ["run-5", "run-3"]),
        ({"module": "taxi_?ide.py"}, ["run-4"]),
        ({"limit": 1}, ["run-5"]),
    ],
)
def test_runs_are_filtered(root: str, wanted: dict[str, Any], names: list[str]) -> None:
    assert [run.pipeline_run for run in find_runs([root], **wanted)] == names


def test_the_best_come_first(root: str) -> None:
    runs = find_runs([root])
    assert [run.pipeline_run for run in Selection(sort="auc").first(runs)] == [
        "run-2",
        "run-1",
        "run-4",
        "run-5",
        "run-3",
    ]
    assert {run.pipeline_run for run in Selection(sort="train/auc", limit=3).first(runs)} == {"run-1", "run-2", "run-4"}
    losses = [Run(str(loss), "succeeded", "", metrics={"eval": {"loss": loss}}) for loss in (0.3, float("nan"), 0.1)]
    assert [run.id for run in Selection(sort="loss").first(losses)] == ["0.1", "0.3", "nan"]
    with pytest.raises(
        InputError, match=r"no run has this metric\. Did you mean 'auc'\? Available metrics: auc, loss\."
    ):
        find_runs([root], sort="acu")


@pytest.mark.parametrize(
    ("name", "higher"),
    [
        *[("eval/auc", True), ("val_accuracy", True), ("f1_score", True), ("SparseCategoricalAccuracy", True)],
        *[("loss", False), ("eval/binary_crossentropy", False), ("rmse", False), ("MeanSquaredError", False)],
        *[("learning_rate", None), ("weight", None), ("steps_per_second", None)],
    ],
)
def test_the_direction_of_a_metric_is_inferred_from_its_name(name: str, higher: bool | None) -> None:
    assert is_higher_better(name) is higher


@pytest.mark.parametrize(
    ("name", "pipeline_run"),
    [
        ("last", "run-5"),
        ("run-3", "run-3"),
        ("4444", "run-4"),
        ("{root}", "run-5"),
        ("{root}/Trainer/model/2", "run-1"),
        ("{root}/Trainer/model/2/Format-Serving", "run-1"),
        ("{root}/Trainer/model_run/2/", "run-1"),
        ("{root}/serving/run-4", "run-4"),
    ],
)
def test_a_pipeline_run_is_found_by_its_common_names(root: str, name: str, pipeline_run: str) -> None:
    assert find_run(name.format(root=root), [root]).pipeline_run == pipeline_run


def test_an_output_of_train_in_a_pipeline_root_is_found(metadata: Any, tmp_path: pathlib.Path) -> None:
    shutil.copytree(metadata.root, tmp_path / "root")
    inside = record(tmp_path / "root" / "tried" / "model_run")
    assert find_run(str(tmp_path / "root" / "tried")).id == inside.id


def test_a_folder_may_be_given_by_a_link(root: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert find_run(str(tmp_path / "link" / "Trainer" / "model" / "2")).pipeline_run == "run-1"


def test_an_unknown_or_ambiguous_name_is_rejected(root: str) -> None:
    with pytest.raises(InputError, match=r"There is no run 'run-9' in .*/root\. Did you mean 'run-\d'\?"):
        find_run("run-9", [root])
    with pytest.raises(InputError, match=r"'' matches 5 runs: \w{12} \(.*, running\), 4{12} "):
        find_run("", [root])
    with pytest.raises(InputError, match="There is no run '/nowhere/model'"):
        find_run("/nowhere/model", [root])


def test_runs_of_train_are_found_below_a_folder(tmp_path: pathlib.Path, root: str, caplog: Any) -> None:
    deep = tmp_path / "lab" / "a" / "out"
    old = record(deep / "model_run.1", code={"reference": "a.py"}, metrics={"eval": {"auc": 0.5}})
    new = record(
        deep / "model_run", code={"reference": "a.py"}, phases={"training": 2.0, "training/load": 0.5, "check": 1}
    )
    (deep / "model" / "Format-Serving").mkdir(parents=True)
    record(deep / "model_run" / "checkpoints" / "inner")  # inside of a run there are no other runs
    record(tmp_path / "lab" / ".hidden" / "model_run")
    record(tmp_path / "lab" / "checkpoints" / "model_run")
    record(tmp_path / "lab" / "1" / "2" / "3" / "4" / "5" / "6" / "model_run")
    (tmp_path / "lab" / "other").mkdir()
    (tmp_path / "lab" / "other" / "run.json").write_text('{"tool": "another one"}')
    (tmp_path / "lab" / "link").symlink_to(tmp_path / "lab")
    runs = find_runs([str(tmp_path / "lab")])
    assert [run.id for run in runs] == [new.id, old.id]
    assert (runs[0].seconds, runs[0].model) == (3.0, str(deep / "model"))
    assert runs[1].model is None  # replaced by the model of the newer run
    assert "other/run.json is not a run record: " in caplog.text
    # A run found in two places is listed once.
    assert len(find_runs([str(tmp_path / "lab"), str(tmp_path / "lab" / "a"), root, root])) == 2 + 5


@pytest.mark.parametrize("name", ["", "model_run", "model", "model/Format-Serving"])
def test_a_run_of_train_is_found_by_its_folders(tmp_path: pathlib.Path, name: str) -> None:
    record(tmp_path / "out" / "model_run.1")
    new = record(tmp_path / "out" / "model_run")
    (tmp_path / "out" / "model" / "Format-Serving").mkdir(parents=True)
    assert find_run(str(tmp_path / "out" / name)).id == new.id
    assert find_run(new.id[:6], [str(tmp_path)]).id == new.id


def test_a_killed_run_is_distinguished_from_a_running_one(tmp_path: pathlib.Path) -> None:
    program = f"""
        import time
        from generic_trainer.executors.monitoring.run_record import RunRecord
        with RunRecord().written_to({str(tmp_path / "model_run")!r}):
            print("on", flush=True)
            time.sleep(600)
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "on\n"
        [run] = find_runs([str(tmp_path)])
        assert (run.status, run.seconds) == ("running", None)
        running.kill()
    [run] = find_runs([str(tmp_path)], status="interrupted")
    assert (run.status, run.seconds) == ("interrupted", None)
    # The processes of another machine cannot be checked from here.
    path = tmp_path / "model_run" / "run.json"
    content = json.loads(path.read_text())
    content["process"]["host"] = "another"
    path.write_text(json.dumps(content))
    assert find_runs([str(tmp_path)])[0].status == "running"


def test_a_killed_step_is_identified_by_the_record_that_it_left(metadata: Any, tmp_path: pathlib.Path) -> None:
    shutil.copytree(metadata.root, tmp_path / "root")
    [running] = find_runs([str(tmp_path / "root")], status="running")
    folder = tmp_path / "root" / "Trainer" / "model_run" / str(running.execution)
    left = record(folder)
    content = json.loads((folder / "run.json").read_text()) | {"status": "running"}
    content["process"]["started"] = "0"  # not this process, although it has the same PID
    (folder / "run.json").write_text(json.dumps(content))
    run = find_run("last", [str(tmp_path / "root")])
    assert (run.status, run.id, run.model_run) == ("interrupted", left.id, str(folder))


def test_a_failed_step_is_identified_by_the_record_that_was_kept(metadata: Any, tmp_path: pathlib.Path) -> None:
    shutil.copytree(metadata.root, tmp_path / "root")
    [failed] = find_runs([str(tmp_path / "root")], status="failed")
    assert (failed.error, failed.model_run) == (None, None)
    folder = tmp_path / "root" / "Trainer" / "model_run" / ".failed" / str(failed.execution)
    kept = record(folder, error={"type": "ValueError", "message": "no such column"})
    run = find_run(kept.id, [str(tmp_path / "root")])
    assert (run.pipeline_run, run.model_run) == ("run-3", str(folder))
    assert run.error == {"type": "ValueError", "message": "no such column"}


def foreign(path: pathlib.Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")


def newer(path: pathlib.Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE MLMDEnv SET schema_version = 99")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "metadata.sqlite: there is no such file."),
        (lambda path: path.write_text("text" * 1000), "is not a SQLite file: file is not a database."),
        (lambda path: (path.unlink(), foreign(path)), "is a SQLite file, but not an ML Metadata store."),
        (newer, "cannot be read: MLMD database version 99 is greater than library version"),
    ],
)
def test_an_unreadable_store_is_rejected(metadata: Any, tmp_path: pathlib.Path, spoil: Any, message: str) -> None:
    path = tmp_path / "metadata.sqlite"
    shutil.copy(metadata.root / "metadata.sqlite", path)
    spoil(path)
    with pytest.raises(InputError, match=re.escape(message)):
        find_runs(metadata=str(path))


def test_a_locked_store_is_rejected_if_named_and_skipped_if_found(
    metadata: Any, tmp_path: pathlib.Path, caplog: Any
) -> None:
    (tmp_path / "root").mkdir()
    shutil.copy(metadata.root / "metadata.sqlite", tmp_path / "root")
    beside = record(tmp_path / "out" / "model_run")
    program = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1])
        connection.execute("BEGIN EXCLUSIVE")
        print("locked", flush=True)
        input()
    """
    line = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "root" / "metadata.sqlite")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(InputError, match="cannot be read now: database is locked"):
            find_runs([str(tmp_path / "root")])
        assert [run.id for run in find_runs([str(tmp_path)])] == [beside.id]
        holder.communicate("\n")
    assert "database is locked" in caplog.text


def test_reading_neither_creates_nor_changes_a_store(metadata: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "metadata.sqlite"
    with pytest.raises(InputError):
        open_store(str(path))
    assert not path.exists()
    shutil.copy(metadata.root / "metadata.sqlite", path)
    before = path.read_bytes()
    find_runs([str(tmp_path)])
    assert path.read_bytes() == before


def test_a_database_keeps_its_password(capfd: Any) -> None:
    with pytest.raises(InputError, match=r"ML Metadata in mysql://127\.0\.0\.1:1/store cannot be read") as caught:
        find_runs(metadata="mysql://me:s3cret@127.0.0.1:1/store")
    run = Run("1", "failed", "", metadata="mysql://me:s3cret@127.0.0.1:1/store")
    assert "s3cret" not in f"{caught.value} {run} {run.to_json()} {capfd.readouterr()}"


def test_neither_tensorflow_nor_tfx_is_imported(root: str) -> None:
    program = f"""
        import sys
        from generic_trainer.cli.main import cli
        cli.main(["runs", {root!r}], standalone_mode=False)
        cli.main(["lineage", "1111", "--in", {root!r}], standalone_mode=False)
        heavy = {{"tensorflow", "apache_beam", "tfx.types", "tfx.orchestration", "tfx.dsl.io.fileio", "numpy"}}
        print(sorted(heavy & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
