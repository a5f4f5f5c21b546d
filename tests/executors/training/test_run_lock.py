"""The lock on a run's folder: one holder, released with the run whatever children it has forked."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from generic_trainer import InputError
from generic_trainer.executors.runtime.files.lock import FileLock
from generic_trainer.executors.training.run_lock import hold_run_lock


@contextlib.contextmanager
def forked_child() -> Iterator[None]:
    """Forks a child that lives through the block."""
    go, alive = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go[1])
        os.write(alive[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    try:
        os.read(alive[0], 1)
        yield
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        for end in (*go, *alive):
            os.close(end)


def require_held(folder: str) -> None:
    with pytest.raises(InputError, match="another run is active in this folder"), hold_run_lock(folder):
        pass


def test_two_runs_of_one_process_exclude_each_other(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    with hold_run_lock(folder):
        require_held(folder)
        thread = threading.Thread(target=require_held, args=(folder,))
        thread.start()
        thread.join()
        require_held(folder)  # a refused attempt releases nothing
    with hold_run_lock(folder):
        pass


def test_a_forked_child_that_lives_on_does_not_keep_the_lock(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    with contextlib.ExitStack() as children:
        with hold_run_lock(folder):
            children.enter_context(forked_child())
            require_held(folder)
        with hold_run_lock(folder):
            process = multiprocessing.get_context("fork").Process(target=threading.Event().wait, args=(60,))
            process.start()
            children.callback(process.kill)
            program = "import os, sys; sys.stdin.read()"
            other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, close_fds=False)
            children.callback(other.communicate)
        with hold_run_lock(folder):
            pass


def test_a_forked_child_that_leaves_the_block_does_not_release_the_lock(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    with contextlib.ExitStack() as block:
        block.enter_context(hold_run_lock(folder))
        child = os.fork()
        if child == 0:
            try:
                block.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        require_held(folder)


def test_a_killed_holder_leaves_no_lock_although_its_child_lives(tmp_path: pathlib.Path) -> None:
    program = (
        "import os, sys, time\n"
        "from generic_trainer.executors.training.run_lock import hold_run_lock\n"
        "with hold_run_lock(sys.argv[1]):\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        time.sleep(1000)\n"
        "    time.sleep(1000)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        require_held(str(tmp_path))
        holder.kill()
        holder.wait()
        os.kill(child, 0)
        with hold_run_lock(str(tmp_path)):
            pass
    finally:
        os.kill(child, 9)
        holder.stdout.close()


@pytest.mark.thorough
def test_forking_while_other_threads_take_locks_leaks_none(tmp_path: pathlib.Path) -> None:
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            FileLock(str(tmp_path)).release()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            child = os.fork()
            if child == 0:
                kept = [name for name in os.listdir("/proc/self/fd") if _leads_to(name, tmp_path)]
                os._exit(len(kept))
            assert os.waitpid(child, 0)[1] == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _leads_to(name: str, folder: pathlib.Path) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{name}") == str(folder)
    return False
