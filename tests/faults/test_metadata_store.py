"""Pipelines whose ML Metadata store is locked, full or deleted, or whose MySQL server stops."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import mariadb
import pytest
from storage_faults import CommandResult, Commands, Faults

from ..world.modules import with_tiny

MODULE = with_tiny(
    """
    import os
    import time

    def run_fn(fn_args):
        if hold := (fn_args.custom_config or {}).get("hold"):
            with open(hold, "w"):
                pass
            while os.path.exists(hold):
                time.sleep(0.05)
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
""",
    feature="x",
)
HOLDER = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
store.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def environment(faults: Faults, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of commands, with a MySQL password in a file."""
    password = tmp_path_factory.mktemp("secret") / "password"
    password.write_text(f"{mariadb.PASSWORD}\n")
    return faults.environment() | {"GENERIC_TRAINER_METADATA_PASSWORD_FILE": str(password)}


@dataclasses.dataclass
class Pipeline:
    """`run` in one root; each run trains again."""

    commands: Commands
    faults: Faults
    folder: pathlib.Path
    metadata: str = ""
    runs: int = 0

    @property
    def root(self) -> pathlib.Path:
        return self.folder / "root"

    @property
    def store(self) -> pathlib.Path:
        return self.root / "metadata.sqlite"

    def start(self, *more: str) -> None:
        self.runs += 1
        line = ["run", "--no-check", "--data", self.folder / "data", "--module-file", self.folder / "triple.py"]
        line += ["--pipeline-root", self.root, "--train-steps", self.runs, *more]
        self.commands.start(*line, *(["--metadata", self.metadata] if self.metadata else []))

    def result(self) -> CommandResult:
        done = self.commands.result()
        self.met = self.faults.hits()
        self.faults.clear()
        return done

    def run(self) -> CommandResult:
        self.start()
        return self.result()

    def run_with(self, meanwhile: Callable[[], object]) -> CommandResult:
        """Runs the pipeline and calls a function during training."""
        hold = self.folder / "hold"
        self.start("--custom-config", json.dumps({"hold": str(hold)}))
        end = time.monotonic() + 120
        while not hold.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        try:
            meanwhile()
        finally:
            hold.unlink()
        return self.result()

    def succeeds(self) -> None:
        """Runs it without faults, and asserts that it trains and pushes another model."""
        before = self.pushed()
        done = self.run()
        assert done.code == 0, done.said
        assert len(self.pushed() - before) == 1

    def pushed(self) -> set[str]:
        """Returns the names of pushed models, and asserts that they are complete."""
        folder = self.root / "serving"
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        for name in names:
            files = {str(path.relative_to(folder / name)) for path in (folder / name).rglob("*")}
            assert {"saved_model.pb", "variables/variables.index"} <= files
        return names


def _pipeline(commands: Commands, faults: Faults, folder: pathlib.Path, metadata: str = "") -> Pipeline:
    (folder / "data").mkdir()
    rows = [f"{number}.5,{number}" for number in range(60)]
    (folder / "data" / "data.csv").write_text("\n".join(["x,z", *rows]) + "\n")
    (folder / "triple.py").write_text(textwrap.dedent(MODULE))
    pipeline = Pipeline(commands, faults, folder, metadata)
    pipeline.succeeds()
    return pipeline


@pytest.fixture(scope="module")
def of_module(commands: Commands, faults: Faults, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return _pipeline(commands, faults, tmp_path_factory.mktemp("pipeline"))


@pytest.fixture
def pipeline(of_module: Pipeline) -> Iterator[Pipeline]:
    """A pipeline that has run before."""
    yield of_module
    of_module.faults.clear()


@contextlib.contextmanager
def locked(store: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """Locks a SQLite file in another process for the duration of the block."""
    command = [sys.executable, "-c", HOLDER, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield holder


def let_go_after(holder: subprocess.Popen[str], seconds: float) -> None:
    assert holder.stdin is not None
    threading.Timer(seconds, holder.stdin.close).start()


def is_sound(store: pathlib.Path) -> bool:
    with contextlib.closing(sqlite3.connect(store)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_temporary_lock_is_waited_for(pipeline: Pipeline, when: str) -> None:
    with contextlib.ExitStack() as stack:

        def lock() -> None:
            let_go_after(stack.enter_context(locked(pipeline.store)), 5)

        if when == "before":
            lock()
            done = pipeline.run()
        else:
            done = pipeline.run_with(lock)
    assert done.code == 0, done.said


@pytest.mark.thorough
@pytest.mark.slow
def test_a_permanent_lock_ends_the_run(pipeline: Pipeline) -> None:
    """ML Metadata times out after five minutes; `fuser` shows the process with the lock."""
    with contextlib.ExitStack() as stack:
        done = pipeline.run_with(lambda: stack.enter_context(locked(pipeline.store)))
    assert done.code == 2, done.said
    assert (
        f"ML Metadata in {pipeline.store} is locked by another process (find it with `fuser {pipeline.store}`"
        in done.message
    )
    assert done.last_line.endswith("Run again after the lock is released.")
    pipeline.succeeds()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "error", "said"),
    [
        (
            "write sync",
            errno.ENOSPC,
            ("database or disk is full.", "are free there. Free up disk space there, and run again."),
        ),
        ("create write sync remove", errno.EROFS, ("cannot be used: disk I/O error.", "Check the disk")),
    ],
    ids=["full", "read-only"],
)
def test_a_store_that_cannot_be_written(pipeline: Pipeline, calls: str, error: int, said: tuple[str, ...]) -> None:
    before = pipeline.pushed()
    pipeline.faults.fail(calls, "*/metadata.sqlite*", error, skip=20)
    done = pipeline.run()
    assert pipeline.met, done.said
    assert done.code == 2, done.said
    assert f"ML Metadata in {pipeline.store} " in done.message
    for text in said:
        assert text in done.message
    assert is_sound(pipeline.store)
    assert pipeline.pushed() == before
    pipeline.succeeds()


@pytest.mark.slow
def test_a_full_disk_during_a_push_leaves_no_partial_model(pipeline: Pipeline) -> None:
    before = pipeline.pushed()
    pipeline.faults.fail("write", "*/serving/*/variables/*", errno.ENOSPC)
    done = pipeline.run()
    assert pipeline.met, done.said
    assert done.code == 2, done.said
    assert f"generic-trainer: Copying {pipeline.root}/serving/" in done.message
    assert ": No space left on device." in done.message
    assert pipeline.pushed() == before
    pipeline.succeeds()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "skip", "said"),
    [
        ("*/root/logs/*", 0, "/logs/"),
        ("*/model_run/*/run.json.part-*", 4, "Could not update the run record."),
        ("*/report.html.part-*", 0, "The report"),
    ],
    ids=["logs", "record", "report"],
)
def test_records_that_cannot_be_written_do_not_prevent_publishing(
    pipeline: Pipeline, pattern: str, skip: int, said: str
) -> None:
    before = pipeline.pushed()
    pipeline.faults.fail("create write", pattern, errno.ENOSPC, skip=skip)
    done = pipeline.run()
    assert pipeline.met, done.said
    assert done.code == 0, done.said
    assert said in done.said
    assert "No space left on device" in done.said
    assert len(pipeline.pushed() - before) == 1


@pytest.mark.thorough
@pytest.mark.slow
def test_a_store_and_a_root_that_are_deleted_during_the_run(pipeline: Pipeline) -> None:
    done = pipeline.run_with(pipeline.store.unlink)
    assert done.code == 2, done.said
    assert f"ML Metadata in {pipeline.store} was deleted or replaced while the pipeline ran" in done.message
    pipeline.succeeds()

    done = pipeline.run_with(lambda: shutil.rmtree(pipeline.root))
    assert done.code == 2, done.said
    pipeline.succeeds()


def test_a_password_on_the_command_line_is_rejected(commands: Commands) -> None:
    done = commands.run("runs", "--metadata", "mysql://trainer:hunter2@127.0.0.1/mlmd")
    assert done.code == 2
    assert "a password on the command line is visible to all users of this machine" in done.message
    assert "GENERIC_TRAINER_METADATA_PASSWORD_FILE" in done.message
    assert "hunter2" not in done.said


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[mariadb.MariaDb]:
    if reason := mariadb.missing():
        pytest.skip(reason)
    server = mariadb.MariaDb(tmp_path)
    yield server
    server.stop()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_mysql_server_that_stops_during_the_run(
    environment: dict[str, str], faults: Faults, server: mariadb.MariaDb, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with Commands(environment) as commands:
        pipeline = _pipeline(commands, faults, folder, server.url)

        done = pipeline.run_with(server.stop)
        assert done.code == 2, done.said
        assert "does not respond (Connection refused). Start the server" in done.message
        assert len(pipeline.pushed()) == 1
        server.start()
        pipeline.succeeds()

        server.stop()
        done = pipeline.run()
        assert done.code == 2, done.said
        assert "does not respond (Connection refused). Start the server" in done.message
        server.start()
        pipeline.succeeds()
    with Commands(environment) as commands:  # another process, because the one that trained has ended
        _require_history(commands, server)
        done = commands.run("runs", "--metadata", server.url.replace("trainer@", "somebody@"))
    assert done.code == 2
    assert "the server denied access to user 'somebody'" in done.message
    text = mariadb.PASSWORD.encode()
    assert [path for path in pipeline.root.rglob("*") if path.is_file() and text in path.read_bytes()] == []


def _require_history(commands: Commands, server: mariadb.MariaDb) -> None:
    """The history commands list the four runs; the second failed with the server."""
    where = ["--metadata", server.url]
    listed = json.loads(commands.run("runs", *where, "--json").said)
    assert [run["status"] for run in listed] == ["succeeded", "succeeded", "interrupted", "succeeded"]
    model = pathlib.Path(listed[0]["model"])
    for command in (["show", "last"], ["lineage", "last"]):
        done = commands.run(*command, *where)
        assert done.code == 0, done.said
        assert str(model) in done.said
    done = commands.run("diff", listed[0]["id"], listed[1]["id"], *where)
    assert done.code == 0, done.said
    assert "train_steps" in done.said


def shown(server: mariadb.MariaDb) -> str:
    return server.url.replace("trainer@", "")
