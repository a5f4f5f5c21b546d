"""A signal ends a command in a bounded time, whatever blocks it, with everything that it has started."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import psutil
import pytest

COMMAND = """
import contextlib, os, signal, sqlite3, subprocess, time
from generic_trainer.executors.runtime.process import deadline, preemption, session

def end(number, frame):
    raise SystemExit(128 + number)

signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
deadline.SECONDS = 0.5
preemption.handle_like_sigterm()
signal.signal(signal.SIGUSR2, lambda *_: None)  # of a library
deadline.enforce()
os.kill(os.getpid(), signal.SIGUSR2)
with session.marked() as mark:
    if os.fork() == 0:  # a signal to a fork, such as a worker of multiprocessing, does not end the command
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        os.kill(os.getpid(), signal.SIGTERM)
    os.wait()
    child = subprocess.Popen(["sleep", "1000"], env={**os.environ, session.VARIABLE: mark}, start_new_session=True)
    os.kill(child.pid, signal.SIGSTOP)
    session.watch()
    os.kill(session._session._watcher.pid, signal.SIGSTOP)
    while True:
        with contextlib.suppress(BaseException):
            print(child.pid, session._session._watcher.pid, flush=True)
"""
BLOCKED = {
    "native code": "sqlite3.connect(':memory:').execute("
    "'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c')",
    "a swallowed exception": "time.sleep(1000)",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("blocked", BLOCKED)
def test_a_blocked_command_ends_with_its_children(blocked: str, number: signal.Signals) -> None:
    line = [sys.executable, "-c", f"{COMMAND}            {BLOCKED[blocked]}"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        children = [psutil.Process(int(number)) for number in command.stdout.readline().split()]
        command.send_signal(number)
        _, errors = command.communicate()
    assert command.returncode == 128 + number
    assert f"ended by {number.name}" in errors
    for child in children:
        child.wait(60)


HELD = """
import ctypes, signal, subprocess
from generic_trainer.executors.runtime.process import deadline, session, termination

termination.raise_on_signals([signal.SIGTERM], termination.Terminated)
deadline.enforce()
session.watch()
library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)  # calls keep the interpreter's lock
subprocess.Popen(["sh", "-c", "sleep 1; kill -TERM $PPID"])  # when the next calls have begun
library.pthread_mutex_lock(mutex)
library.pthread_mutex_lock(mutex)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the watcher is for Linux")
def test_native_code_that_lets_no_thread_run_is_reported() -> None:
    with subprocess.Popen([sys.executable, "-c", HELD], stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        report = command.stderr.readline()
        command.kill()
    assert report.startswith("generic-trainer: a signal arrived 10 s ago. Native code")
    assert report.endswith(f"kill -9 {command.pid}\n")


EARLY_ENDS = {
    "returns": "",
    "raises": "raise OSError('the disk is on fire')",
    "exits": "os._exit(5)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "is killed while its server is stopped": "os.kill(server, signal.SIGSTOP); os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is for Linux")
@pytest.mark.parametrize("end", EARLY_ENDS)
def test_a_fork_server_that_is_still_importing_ends_with_its_command(end: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tensorflow.py").write_text("import time\ntime.sleep(1000)")
    program = (
        "import os, signal\nfrom generic_trainer.executors.engines import fork_server\nfork_server.prepare()\n"
        "[server] = [server._process.pid for server in fork_server._servers._all]\nprint(server, flush=True)\n"
        f"{EARLY_ENDS[end]}"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, env=environment, check=False, timeout=60)
    server = int(done.stdout)
    try:
        psutil.Process(server).wait(20)
    except psutil.NoSuchProcess:
        pass
    finally:
        if psutil.pid_exists(server):
            os.kill(server, signal.SIGKILL)
