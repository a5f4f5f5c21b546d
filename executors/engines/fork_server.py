"""Processes in which TensorFlow is imported already: a server imports it once, and forks.

The first worker of a run starts as soon as TensorFlow is imported, while its inputs are still looked at; the check of
its model, and every later training, start at once. A server is for workers whose environment is the same in all that
is read while modules are imported; it ends with the process that it works for, or when it has long had nothing to do.

Usage:

    prepare({"TF_USE_LEGACY_KERAS": "1"})      # begins to import
    process = start(worker, [request_file, result_file], {**os.environ, "TF_USE_LEGACY_KERAS": "1"})
    process.wait()

`GENERIC_TRAINER_FORK_SERVER=0` turns it off; then, and on other systems than Linux, each worker is a new Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from .. import progress
from ..cluster import LOGS_IN_ERRORS
from ..logs import LOG_FILE
from . import offspring

_SWITCH = "GENERIC_TRAINER_FORK_SERVER"
_MAIN = f"{__package__}.fork_server_main"
_MODULES = (
    "tensorflow",
    "generic_trainer.executors.training_worker",
    "generic_trainer.executors.saved_model_probe",
)
# Read when a worker begins to use TensorFlow, or not by it at all; pytest's changes with every test.
_READ_LATE = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "PYTEST_CURRENT_TEST", "TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL",
        progress.VARIABLE, LOG_FILE, offspring.VARIABLE, LOGS_IN_ERRORS,
    }
)  # fmt: skip
_AT_ONCE = 2  # one for each Keras


class ForkedProcess:
    """A worker's process, with as much of `subprocess.Popen` as is needed here.

    Attributes:
      pid: Its number, and that of its process group.
      args: What to call it in messages.
      stdout, stderr: What it prints.
    """

    def __init__(self, line: socket.socket, pid: int, name: str, outputs: tuple[IO[bytes], IO[bytes]]) -> None:
        self.pid = pid
        self.args = [name]
        self.stdout, self.stderr = outputs
        self._line = line
        self._status: int | None = None

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal's number; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end; returns the exit status.

        Raises:
          subprocess.TimeoutExpired: When it still runs after `timeout` seconds.
        """
        if self._status is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            said = _next(self._line)
            self._status = -signal.SIGKILL if said is None else said["status"]  # the server's workers die with it
            self._line.close()
        return self._status


class _Server:
    """The server's process, seen from the one that wants workers."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MAIN, str(theirs.fileno())],
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control.send(json.dumps({"sys_path": sys.path, "modules": _MODULES}).encode())

    def start(self, order: Mapping[str, object], timeout: float | None) -> ForkedProcess | None:
        """Has a worker forked, as soon as all is imported; returns None if the server is no longer there."""
        line, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(2)]
        outputs = (os.fdopen(pipes[0][0], "rb"), os.fdopen(pipes[1][0], "rb"))
        said = None
        try:
            with theirs, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._control, [b"fork"], [theirs.fileno(), *(write for _, write in pipes)])
                theirs.close()
                line.sendall(json.dumps(order).encode() + b"\n")
                if not select.select([line], [], [], timeout)[0]:
                    self._process.kill()  # its imports hang
                    raise subprocess.TimeoutExpired(_MAIN, timeout or 0)
                said = _next(line)
        finally:
            for _, write in pipes:
                os.close(write)
            if said is None:  # on an interrupt, too: the server ends a worker that nobody waits for
                for closed in (line, *outputs):
                    closed.close()
        if said is None:
            return None
        return ForkedProcess(line, said["pid"], str(order["worker"]), outputs)

    def is_running(self) -> bool:
        """Returns whether the process is there; one that has ended is taken off the system's list."""
        return self._process.poll() is None

    def dismiss(self) -> None:
        """Lets it end when its workers have."""
        with contextlib.suppress(OSError):
            self._control.send(b"end")


_servers: dict[tuple[tuple[str, str], ...], _Server] = {}
_lock = threading.Lock()


def _forget() -> None:
    """A fork of this process has neither its servers nor its threads, of which one may hold the lock."""
    global _lock
    _servers.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def prepare(environment: Mapping[str, str] | None = None) -> None:
    """Has TensorFlow imported while the caller does something else.

    Args:
      environment: Variables that the worker is going to have in addition to this process's.
    """
    _server_for({**os.environ, **(environment or {})})


def start(
    worker: str, files: Sequence[str], environment: Mapping[str, str], timeout: float | None = None
) -> ForkedProcess | None:
    """Starts a worker in a process where TensorFlow is imported already.

    Args:
      worker: Dotted name of the worker's module.
      files: The JSON file with what it is asked, and the one to write its answer to.
      environment: The process's whole environment.
      timeout: Seconds that the imports may take.

    Returns:
      The process; None where there can be no server, or its imports fail: a new Python then says why.

    Raises:
      subprocess.TimeoutExpired: When the imports take longer.
    """
    order = {
        "worker": worker,
        "files": list(files),
        "environment": dict(environment),
        "folder": os.getcwd(),
    }
    for _ in range(2):  # one that has been idle for long may just be ending
        server = _server_for(environment)
        process = server.start(order, timeout) if server else None
        if process is not None:
            return process
    return None


def _next(line: socket.socket) -> dict[str, int] | None:
    """Returns what the server says next of a worker; None if it has died."""
    said = b""
    while not said.endswith(b"\n"):
        byte = line.recv(1)  # not beyond the line
        if not byte:
            return None
        said += byte
    answer: dict[str, int] = json.loads(said)
    return answer


def _server_for(environment: Mapping[str, str]) -> _Server | None:
    if sys.platform != "linux" or environment.get(_SWITCH) == "0":
        return None
    key = tuple(sorted((name, value) for name, value in environment.items() if name not in _READ_LATE))
    with _lock:
        server = _servers.pop(key, None)
        if server is None or not server.is_running():
            server = _Server(environment)
        _servers[key] = server  # the last one used is the last of all
        while len(_servers) > _AT_ONCE:
            _servers.pop(next(iter(_servers))).dismiss()
        return server
