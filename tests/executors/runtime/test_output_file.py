"""A file that the user has named is written as the shell's `>` does: nothing but a regular file is ever replaced."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from generic_trainer.executors.errors import InputError, StorageError
from generic_trainer.executors.runtime.files.output_file import output_file, write_output


@pytest.fixture
def device(tmp_path: pathlib.Path) -> Callable[[str], str]:
    """Returns the path of a device; root gets a copy, because a failing test would replace the machine's."""

    def path_of(name: str) -> str:
        if os.geteuid():
            return f"/dev/{name}"
        copy = tmp_path / name
        os.mknod(copy, stat.S_IFCHR | 0o666, os.stat(f"/dev/{name}").st_rdev)
        return str(copy)

    return path_of


def test_a_device_is_written_to(device: Callable[[str], str]) -> None:
    path = device("null")
    write_output(path, "text")
    assert stat.S_ISCHR(os.lstat(path).st_mode)


def test_a_full_device_is_an_error_and_stays_a_device(device: Callable[[str], str]) -> None:
    path = device("full")
    with pytest.raises(StorageError, match="No space left on device"):
        write_output(path, "text")
    assert stat.S_ISCHR(os.lstat(path).st_mode)


@pytest.mark.parametrize("is_link", [False, True])
def test_a_fifo_is_written_to(is_link: bool, tmp_path: pathlib.Path) -> None:
    fifo = path = tmp_path / "fifo"
    os.mkfifo(fifo)
    if is_link:
        path = tmp_path / "link"
        path.symlink_to(fifo)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_text()), daemon=True)
    reader.start()
    write_output(str(path), "text")
    reader.join(10)
    assert received == ["text"]
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert path.is_symlink() == is_link


@pytest.mark.parametrize("kind", ["a socket", "a block device", "a link to nowhere", "a folder"])
def test_what_cannot_be_written_to_is_refused_and_not_replaced(kind: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "output"
    if kind == "a socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    elif kind == "a block device":
        if os.geteuid():
            pytest.skip("only root can make a device")
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 250))
    elif kind == "a link to nowhere":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
    before = path.lstat()
    with pytest.raises(InputError, match=f"output: this is {kind}"):
        write_output(str(path), "text")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert os.listdir(tmp_path) == ["output"]


def test_a_link_is_followed_and_its_target_replaced_atomically(tmp_path: pathlib.Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(os.path.join("there", "target"))
    with pytest.raises(FileNotFoundError), output_file(str(link)) as part:  # noqa: PT012
        pathlib.Path(part).write_text("half")
        (tmp_path / "nothing").read_text()
    assert target.read_text() == "before"
    write_output(str(link), "after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert os.listdir(target.parent) == ["target"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_replaced_file_keeps_its_mode(mode: int, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "output"
    path.write_text("before")
    path.chmod(mode)
    with output_file(str(path)) as part:
        assert stat.S_IMODE(os.stat(part).st_mode) == 0o600
        pathlib.Path(part).write_text("after")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "after"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_replaced_by_root_keeps_its_owner(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "output"
    path.write_text("before")
    os.chown(path, 12345, 54321)
    path.chmod(0o4750)
    write_output(str(path), "after")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o4750)


@pytest.mark.parametrize("path", ["-", "/dev/stdout", "/proc/self/fd/1", "link to /dev/stdout", "/dev/fd/2"])
def test_an_open_file_is_appended_to(path: str, tmp_path: pathlib.Path) -> None:
    """Of a regular file, the content before the process's own stays: `>> log`."""
    if path.startswith("link"):
        (tmp_path / "link").symlink_to("/dev/stdout")
        path = str(tmp_path / "link")
    log = tmp_path / "log"
    log.write_text("before\n")
    program = (
        "import sys; from generic_trainer.executors.runtime.files.output_file import write_output\n"
        "print('printed'); sys.stdout.flush(); write_output(sys.argv[1], 'text'); print(' and more')"
    )
    with log.open("a") as file:
        subprocess.run([sys.executable, "-c", program, path], stdout=file, stderr=file, check=True)
    assert log.read_text() == "before\nprinted\ntext and more\n"
    assert sorted(os.listdir(tmp_path)) in (["log"], ["link", "log"])


def test_an_open_file_that_there_is_not_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        write_output("/dev/fd/987", "text")
