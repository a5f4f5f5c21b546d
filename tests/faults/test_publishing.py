"""A model takes another one's place: readers find a whole one meanwhile, and what was killed in between is mended."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import threading

import pytest

from generic_trainer.executors.publishing import publish, staging_folder

FILES = ("saved_model.pb", "variables")


def write_model(folder: pathlib.Path, text: str) -> None:
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(text)


def content(folder: pathlib.Path) -> set[str]:
    return {(folder / name).read_text() for name in FILES}


@pytest.fixture
def killed() -> str:
    """The name of a staging folder whose process has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return f".staging-{socket.gethostname()}-{process.pid}"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems exchange no folders")
def test_a_reader_finds_a_model_at_every_moment(tmp_path: pathlib.Path) -> None:
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
        with staging_folder(str(tmp_path)) as staging:
            write_model(pathlib.Path(staging, final.name), str(number))
            publish(staging, str(final))
        assert content(final) == {str(number)}
    over.set()
    reader.join()
    assert missed == []
    assert [path.name for path in tmp_path.iterdir()] == [final.name]


def test_what_a_killed_run_had_moved_away_is_put_back(tmp_path: pathlib.Path, killed: str) -> None:
    write_model(tmp_path / killed / "replaced-Format-Serving", "before")
    write_model(tmp_path / killed / "Format-Serving", "new")
    with staging_folder(str(tmp_path)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["Format-Serving"]
    assert content(tmp_path / "Format-Serving") == {"before"}


def test_in_a_pipeline_what_killed_executions_left_is_removed(tmp_path: pathlib.Path, killed: str) -> None:
    write_model(tmp_path / "model" / "7" / killed / "Format-Serving", "new")
    write_model(tmp_path / "model" / "6" / "Format-Serving", "whole")
    (tmp_path / "model" / "8").mkdir()
    with staging_folder(str(tmp_path / "model" / "8")):
        assert not (tmp_path / "model" / "7" / killed).exists()
    assert content(tmp_path / "model" / "6" / "Format-Serving") == {"whole"}
