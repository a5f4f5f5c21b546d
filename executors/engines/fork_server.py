"""Processes in which TensorFlow is imported already: a server imports it once, and forks.

The first worker of a run starts as soon as TensorFlow is imported, while its inputs are still looked at; the check of
its model, and every later training, start at once. A server is used as long as a new process would inherit the same:
all environment variables that may be read while modules are imported, and user, groups, limits, processors, namespaces
and so on (`inherited.py`); otherwise another server is started. The working directory, the umask and the other
variables are set in each forked process. A server ends with the process that started it, or when it is idle for long.

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
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, TypeAlias

from ..distributed.tf_config import LOGS_IN_ERRORS
from ..monitoring import progress
from ..runtime.logs.setup import LOG_FILE
from ..runtime.process import process_tree
from . import inherited
from .readable import readable

_SWITCH = "GENERIC_TRAINER_FORK_SERVER"
_MAIN = f"{__package__}.fork_server_main"
_MODULES = (
    "tensorflow",
    "generic_trainer.executors.training.worker",
    "generic_trainer.executors.evaluation.probe",
)
# Read when a worker begins to use TensorFlow, or not by it at all; pytest's changes with every test, TMPDIR with every
# check. `import tfx` sets the one for protobuf, also in a process that has prepared a server before.
_READ_LATE = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "PYTEST_CURRENT_TEST", "TEMPORARILY_DISABLE_PROTOBUF_VERSION_CHECK", "TF_CONFIG",
        "TF_CPP_MIN_LOG_LEVEL", "TMPDIR",
        progress.VARIABLE, LOG_FILE, process_tree.VARIABLE, LOGS_IN_ERRORS,
    }
)  # fmt: skip
_AT_ONCE = 2  # one for each Keras

_Key: TypeAlias = "tuple[tuple[tuple[str, str], ...], tuple[str, ...]]"  # environment, what else is inherited


class ForkedProcess:
    """A worker's process, with as much of `subprocess.Popen` as is needed here.

    Attributes:
      pid: Its number, and that of its process group.
      args: What to call it in messages.
      stdout, stderr: What it prints.
    """

    def __init__(
        self, line: socket.socket, pid: int, name: str, outputs: tuple[IO[bytes], IO[bytes]], server: _Server
    ) -> None:
        self.pid = pid
        self.args = [name]
        self.stdout, self.stderr = outputs
        self._line = line
        self._server = server  # it kills its workers as soon as its socket is closed, also when it has been dismissed
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
            if not readable([self._line], timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            said = _next(self._line)
            self._status = -signal.SIGKILL if said is None else said["status"]  # the server's workers die with it
            self._line.close()
        return self._status


class _Server:
    """The server's process, seen from the one that wants workers."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Without the mark of its first worker, or it would be killed together with what that has started.
        own = {name: value for name, value in os.environ.items() if name == process_tree.VARIABLE}
        variables = {name: value for name, value in environment.items() if name != process_tree.VARIABLE} | own
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # each message has its sender's user
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MAIN, str(theirs.fileno())],
                env=variables,
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
                self._send(theirs, [write for _, write in pipes], str(order["folder"]))
                theirs.close()
                line.sendall(json.dumps({**order, "umask": inherited.umask()}).encode() + b"\n")
                if not readable([line], timeout):
                    with contextlib.suppress(PermissionError):
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
        return ForkedProcess(line, said["pid"], str(order["worker"]), outputs, self)

    def _send(self, line: socket.socket, outputs: Sequence[int], folder: str) -> None:
        # As a descriptor: its path may not lead to it any longer, or not for this user.
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            socket.send_fds(self._control, [b"fork"], [line.fileno(), *outputs, descriptor])
        finally:
            os.close(descriptor)

    def is_running(self) -> bool:
        """Returns whether the process is there; one that has ended is taken off the system's list."""
        return self._process.poll() is None

    def close(self) -> None:
        """Closes this process's end: the server ends if no other process has it open."""
        self._control.close()

    def dismiss(self) -> None:
        """Lets it end when its workers have."""
        with contextlib.suppress(OSError):
            self._control.send(b"end")


class _Servers:
    """The servers of this process; a fork of it has none of them, and does not keep them running either."""

    def __init__(self) -> None:
        self._usable: dict[_Key, _Server] = {}
        self._all: weakref.WeakSet[_Server] = weakref.WeakSet()  # also those that only have workers left
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        for server in self._all:
            server.close()
        self._usable, self._all = {}, weakref.WeakSet()
        self._lock = threading.Lock()  # a thread that the fork does not have may hold the other one

    def get(self, environment: Mapping[str, str]) -> _Server | None:
        """Returns a server with this environment and all else that a child would inherit; None if there can be none."""
        if sys.platform != "linux" or environment.get(_SWITCH) == "0" or not inherited.shares_process_ids():
            return None
        state = inherited.state()
        key = tuple(sorted((name, value) for name, value in environment.items() if name not in _READ_LATE)), state
        with self._lock:
            for outdated in [other for other in self._usable if other[1] != state]:
                self._usable.pop(outdated).dismiss()  # it may have rights that this process has given up
            server = self._usable.pop(key, None)
            if server is None or not server.is_running():
                try:
                    server = _Server(environment)
                except OSError:  # no right to start Python, or no room for a process: the caller finds out, too
                    return None
                self._all.add(server)
            self._usable[key] = server  # the last one used is the last of all
            while len(self._usable) > _AT_ONCE:
                self._usable.pop(next(iter(self._usable))).dismiss()
            return server


_servers = _Servers()


def prepare(environment: Mapping[str, str] | None = None) -> None:
    """Has TensorFlow imported while the caller does something else.

    Args:
      environment: Variables that the worker is going to have in addition to this process's.
    """
    _servers.get({**os.environ, **(environment or {})})


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
        "folder": ".",
    }
    for _ in range(2):  # one that has been idle for long may just be ending
        server = _servers.get(environment)
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
