"""A model replaces another one: readers always find a complete model, and killed replacements are repaired."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from generic_trainer.executors.errors import StorageError
from generic_trainer.executors.runtime.files import file_io
from generic_trainer.executors.saved_models import staging
from generic_trainer.executors.saved_models.publishing import publish
from generic_trainer.executors.saved_models.staging import Staging, staging_directory

FILES = ("saved_model.pb", "variables")

# Creates a staging directory with a moved model in the given folder, and waits.
HOLDER = """
import pathlib, sys, time
from generic_trainer.executors.saved_models.staging import staging_directory
with staging_directory(sys.argv[1]) as staging:
    for name in ("replaced-Format-Serving", "written/Format-Serving"):
        folder = pathlib.Path(staging.path, name)
        folder.mkdir(parents=True)
        for file in ("saved_model.pb", "variables"):
            (folder / file).write_text("before" if name.startswith("replaced") else "new")
    print(staging.path, flush=True)
    time.sleep(1000)
"""


def write_model(folder: pathlib.Path, text: str) -> None:
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(text)


def content(folder: pathlib.Path) -> set[str]:
    return {(folder / name).read_text() for name in FILES}


@contextlib.contextmanager
def held_elsewhere(folder: pathlib.Path) -> Iterator[tuple[subprocess.Popen[str], pathlib.Path]]:
    """Starts a process with a staging directory in a folder."""
    line = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, pathlib.Path(process.stdout.readline().strip())
        finally:
            process.kill()


def left_behind(folder: pathlib.Path) -> pathlib.Path:
    """Returns the staging directory of a process that was killed."""
    with held_elsewhere(folder) as (process, path):
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.exists()
    return path


def stage(own: Staging, name: str, text: str) -> None:
    write_model(pathlib.Path(own.written, name), text)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems exchange no folders")
def test_readers_always_find_a_model(tmp_path: pathlib.Path) -> None:
    final = tmp_path / "Format-Serving"
    write_model(final, "0")
    missed, over = [], threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                (final / FILES[0]).read_text()
            except FileNotFoundError:
                missed.append(1)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 200):
        with staging_directory(str(tmp_path)) as own:
            stage(own, final.name, str(number))
            publish(own.path, own.take_outputs(), [final.name], str(final))
        assert content(final) == {str(number)}
    over.set()
    reader.join()
    assert missed == []
    assert [path.name for path in tmp_path.iterdir()] == [final.name]


def test_only_what_is_named_is_published(tmp_path: pathlib.Path) -> None:
    with staging_directory(str(tmp_path)) as own:
        for name in ("Format-Serving", "Format-TFMA", "of another run"):
            stage(own, name, name)
        outputs = own.take_outputs()
        publish(own.path, outputs, ["Format-Serving", "Format-TFMA"], str(tmp_path / "Format-Serving"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Format-Serving", "Format-TFMA"]


def test_runs_have_staging_directories_of_their_own_which_no_other_user_can_enter(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        paths = {stack.enter_context(staging_directory(str(tmp_path))).path for _ in range(3)}
        assert len(paths) == 3
        assert {os.stat(path).st_mode & 0o777 for path in paths} == {0o700}
    assert list(tmp_path.iterdir()) == []


def test_a_model_moved_by_a_killed_run_is_restored(tmp_path: pathlib.Path) -> None:
    left_behind(tmp_path)
    with staging_directory(str(tmp_path)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["Format-Serving"]
    assert content(tmp_path / "Format-Serving") == {"before"}


def test_a_pipeline_removes_the_leftovers_of_killed_executions(tmp_path: pathlib.Path) -> None:
    left = left_behind(tmp_path / "model" / "7")
    write_model(tmp_path / "model" / "6" / "Format-Serving", "whole")
    (tmp_path / "model" / "8").mkdir()
    with staging_directory(str(tmp_path / "model" / "8")):
        assert not left.exists()
    assert content(tmp_path / "model" / "6" / "Format-Serving") == {"whole"}


def test_the_directory_of_a_running_run_is_kept(tmp_path: pathlib.Path) -> None:
    with held_elsewhere(tmp_path) as (_, path), staging_directory(str(tmp_path)) as own:
        with staging_directory(str(tmp_path)):  # of this process
            pass
        assert path.exists()
        assert pathlib.Path(own.path).exists()


def change_owner(path: pathlib.Path, **fields: object) -> None:
    note = path / ".owner"
    note.write_text(json.dumps({**json.loads(note.read_text()), **fields}))


@pytest.mark.parametrize("fields", [{"namespace": "pid:[1]"}, {"boot": "another machine's"}, {"boot": ""}])
def test_a_directory_of_another_container_stays_where_locks_prove_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str]
) -> None:
    """Two containers may have the same host name and PID 1, which do not distinguish them."""
    path = left_behind(tmp_path)
    monkeypatch.setattr(staging, "is_on_local_disk", lambda path: False)
    change_owner(path, **fields)
    with staging_directory(str(tmp_path)):
        assert path.exists()
    monkeypatch.undo()
    with staging_directory(str(tmp_path)):
        assert not path.exists()  # on a local disk the lock decides


def test_on_a_network_mount_the_directory_of_an_ended_process_is_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "is_on_local_disk", lambda path: False)
    left = left_behind(tmp_path)
    with held_elsewhere(tmp_path) as (_, path), staging_directory(str(tmp_path)):
        assert not left.exists()
        assert path.exists()


def test_directories_of_other_programs_stay(tmp_path: pathlib.Path) -> None:
    for name in (".staging-old-host-17", ".staging-x", ".staging"):
        write_model(tmp_path / name, "theirs")
    with staging_directory(str(tmp_path)):
        pass
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_published_model_that_differs_from_the_checked_one_is_rolled_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    from generic_trainer.executors.saved_models import publishing

    final = tmp_path / "Format-Serving"
    write_model(final, "before")
    real = publishing._move_into_place

    def loses_a_write(staged: str, target: str, *others: object) -> object:
        moved = real(staged, target, *others)
        pathlib.Path(target, "saved_model.pb").write_text("xyz")
        return moved

    monkeypatch.setattr(publishing, "_move_into_place", loses_a_write)
    if not exchanges:
        monkeypatch.setattr(publishing, "_exchanged", lambda one, other: False)
    with staging_directory(str(tmp_path)) as own:
        stage(own, final.name, "new")
        with pytest.raises(
            StorageError, match=r"saved_model\.pb: after publishing, the file differs from the checked one"
        ):
            publish(own.path, own.take_outputs(), [final.name], str(final))
    assert content(final) == {"before"}
    assert [path.name for path in tmp_path.iterdir()] == [final.name]


def test_a_file_beside_the_model_is_published_to_another_disk(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(18, os.strerror(18))

    with staging_directory(str(tmp_path)) as own:
        pathlib.Path(own.written, "labels.txt").write_text("a")
        stage(own, "Format-Serving", "new")
        outputs = own.take_outputs()
        monkeypatch.setattr(file_io.os, "rename", refuse)
        publish(own.path, outputs, ["Format-Serving", "labels.txt"], str(tmp_path / "Format-Serving"))
        monkeypatch.undo()
    assert (tmp_path / "labels.txt").read_text() == "a"
    assert content(tmp_path / "Format-Serving") == {"new"}


@pytest.mark.parametrize("exchanges", [True, False])
def test_concurrent_runs_with_one_output_publish_one_complete_model(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    from generic_trainer.executors.saved_models import publishing

    if not exchanges:
        monkeypatch.setattr(publishing, "_exchanged", lambda one, other: False)
    final = tmp_path / "Format-Serving"
    write_model(final, "before")

    def run(number: int) -> None:
        for turn in range(20):
            with staging_directory(str(tmp_path)) as own:
                stage(own, final.name, f"{number}/{turn}")
                outputs = own.take_outputs()
                with contextlib.nullcontext() if exchanges else contextlib.suppress(OSError):
                    publish(own.path, outputs, [final.name], str(final))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(8)))
    assert len(content(final)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [final.name]


def test_a_model_published_concurrently_by_another_run_is_not_a_lost_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems reuse the inode number of a deleted folder; the new folder must not be mistaken for it."""
    from generic_trainer.executors.saved_models import publishing

    final = tmp_path / "Format-Serving"
    write_model(final, "before")
    real = publishing._content_of

    def replaced_first(path: str) -> object:
        if path == str(final):
            shutil.rmtree(final)
            write_model(final, "of another run")
        return real(path)

    monkeypatch.setattr(publishing, "_content_of", replaced_first)
    with staging_directory(str(tmp_path)) as own:
        stage(own, final.name, "new")
        publish(own.path, own.take_outputs(), [final.name], str(final))
    assert content(final) == {"of another run"}


def test_a_model_is_published_to_an_object_store() -> None:
    bucket = f"ram://{uuid.uuid4().hex}"  # TensorFlow's in-memory file system
    for text in ("before", "new"):
        with staging_directory(bucket) as own:
            for name in FILES:
                file_io.write_text(f"{own.written}/Format-Serving/{name}", text)
            publish(own.path, own.take_outputs(), ["Format-Serving"], f"{bucket}/Format-Serving")
        assert {file_io.read_text(f"{bucket}/Format-Serving/{name}") for name in FILES} == {text}
    assert file_io.listdir(bucket) == ["Format-Serving"]
