"""The history of a user's own TFX pipeline, run by TFX's own runners, with its metadata elsewhere than in its root."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.cli.main import cli
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.training import metadata_pointer
from generic_trainer.pipelines.history.runs import find_run, find_runs

from ...world.modules import with_tiny

Launch = Callable[..., None]

MODULE = with_tiny("""
    def run_fn(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        return {"val_auc": 0.75}
""")
FAILING = "def run_fn(fn_args):\n    raise ZeroDivisionError('mine')\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "good.py").write_text(MODULE)
    (folder / "failing.py").write_text(FAILING)
    (folder / "meta").mkdir()
    return folder


@pytest.fixture(scope="module")
def launch(place: pathlib.Path, iris: Any) -> Launch:
    """Runs a pipeline as its author would write it, with TFX's Pusher and our Trainer."""
    from tfx.components import Pusher
    from tfx.dsl.components.common.importer import Importer
    from tfx.orchestration import metadata, pipeline
    from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner
    from tfx.proto import pusher_pb2, trainer_pb2
    from tfx.types.standard_artifacts import Examples

    from generic_trainer import Trainer

    def run(module: str, name: str = "own", runner: str = "local", splits: tuple[str, ...] = ()) -> None:
        examples = Importer(
            source_uri=str(pathlib.Path(iris.schema).parent),
            artifact_type=Examples,
            properties={"split_names": '["train", "eval"]'},
        ).with_id("examples")
        trainer = Trainer(
            module_file=str(place / module),
            examples=examples.outputs["result"],
            train_args=trainer_pb2.TrainArgs(splits=splits),
        )
        filesystem = pusher_pb2.PushDestination.Filesystem(base_directory=str(place / "serving"))
        pusher = Pusher(
            model=trainer.outputs["model"], push_destination=pusher_pb2.PushDestination(filesystem=filesystem)
        )
        dag = pipeline.Pipeline(
            name,
            str(place / f"{name}_root"),
            components=[examples, trainer, pusher],
            enable_cache=True,
            metadata_connection_config=metadata.sqlite_metadata_connection_config(str(place / "meta" / "store.db")),
        )
        {"local": LocalDagRunner, "beam": BeamDagRunner}[runner]().run(dag)

    return run


@pytest.fixture(scope="module")
def root(place: pathlib.Path, launch: Launch) -> str:
    launch("good.py")
    launch("good.py")
    return str(place / "own_root")


def shown(capsys: Any, *arguments: str) -> str:
    cli.main(list(arguments), standalone_mode=False)
    return str(capsys.readouterr().out)


def test_cached_and_pushed_runs_are_found_from_the_root(root: str, place: pathlib.Path) -> None:
    for where in ({"places": [root]}, {"metadata": str(place / "meta" / "store.db")}, {"places": [str(place)]}):
        cached, first = find_runs(**where)[-2:]
        assert (cached.status, first.status) == ("cached", "succeeded")
        assert first.id == first.record.id
        assert first.pushed_model == cached.pushed_model
        assert pathlib.Path(str(first.pushed_model)).parent == place / "serving"
        assert first.metrics == {"eval": {"auc": 0.75}}
    assert find_run(str(first.model)).id == first.id  # from any working directory


@pytest.mark.parametrize("runner", ["local", "beam"])
def test_a_failed_run_is_shown_with_its_error_traceback_and_report(
    root: str, place: pathlib.Path, launch: Launch, runner: str, caplog: Any, capsys: Any
) -> None:
    with pytest.raises(Exception, match="mine"):  # Beam's own, with the text
        launch("failing.py", runner=runner)
    run = find_run("last", [root])
    assert (run.status, run.error) == ("failed", {"type": "ZeroDivisionError", "message": "mine"})
    report = pathlib.Path(root, "Trainer", "model_run", ".failed", str(run.execution), "report.html")
    assert run.model_run == str(report.parent)
    [told] = [one for one in caplog.records if one.getMessage().startswith("Report of the failed run")]
    assert (told.levelname, told.getMessage()) == ("WARNING", f"Report of the failed run: {report}")
    said = shown(capsys, "show", run.id, "--in", root)
    assert f"Module:       {place / 'failing.py'}\n" in said
    assert "Error:        ZeroDivisionError: mine\n" in said
    assert f"Report:       {report}\n" in said
    assert 'failing.py", line 2, in run_fn\n' in said
    assert "failed" in shown(capsys, "runs", root, "--status", "failed")
    assert shown(capsys, "report", run.id, "--in", root) == f"{report}\n"
    difference = shown(capsys, "diff", "last", str(find_runs([root])[-1].model), "--in", root)
    assert "-    raise ZeroDivisionError('mine')\n" in difference


def test_a_run_that_is_refused_before_it_trains_is_shown_with_its_error(root: str, launch: Launch) -> None:
    with pytest.raises(InputError, match="split 'nope' does not exist"):
        launch("good.py", splits=("nope",))
    run = find_run("last", [root])
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["message"].startswith("split 'nope' does not exist")
    assert pathlib.Path(str(run.model_run), "report.html").exists()


def test_pipelines_that_share_a_store_are_told_apart_by_their_roots(
    root: str, place: pathlib.Path, launch: Launch
) -> None:
    launch("good.py", name="other")
    assert [run.pipeline for run in find_runs([str(place / "other_root")])] == ["other"]
    assert find_run(str(place / "other_root")).pipeline == "other"
    assert {run.pipeline for run in find_runs([root])} == {"own"}
    assert {run.pipeline for run in find_runs([str(place)])} == {"own", "other"}


def test_without_the_store_the_records_on_disk_are_listed(root: str, tmp_path: pathlib.Path, caplog: Any) -> None:
    shutil.copytree(root, tmp_path / "root")
    gone = metadata_pointer.PipelineStore(str(tmp_path / "gone.db"), "own", str(tmp_path / "root"))
    os.remove(tmp_path / "root" / metadata_pointer.FILE_NAME)
    metadata_pointer.add_store(gone)
    kept = RunRecord()
    with kept.written_to(str(tmp_path / "root" / "Trainer" / "model_run" / ".failed" / "99")):
        pass
    assert kept.id in [run.id for run in find_runs([str(tmp_path / "root")])]
    assert f"ML Metadata in {tmp_path}/gone.db: there is no such file." in caplog.text


def test_a_note_of_a_database_has_no_password(tmp_path: pathlib.Path) -> None:
    from ml_metadata.proto import metadata_store_pb2

    mysql = metadata_store_pb2.MySQLDatabaseConfig(host="db", port=3307, database="tfx", user="a@b")
    mysql.password = "s3cret"  # noqa: S105
    url = metadata_pointer.url_of(metadata_store_pb2.ConnectionConfig(mysql=mysql))
    assert url == "mysql://a%40b@db:3307/tfx"
    metadata_pointer.add_store(metadata_pointer.PipelineStore(url, "own", str(tmp_path)))
    assert metadata_pointer.read_stores(str(tmp_path)) == [metadata_pointer.PipelineStore(url, "own", str(tmp_path))]
    fake = metadata_store_pb2.ConnectionConfig(fake_database=metadata_store_pb2.FakeDatabaseConfig())
    assert metadata_pointer.url_of(fake) == ""
