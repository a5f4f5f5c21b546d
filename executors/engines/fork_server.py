"""A fork server for workers: it imports TensorFlow once and forks a process per worker.

A run's first worker starts as soon as TensorFlow is imported, while the inputs are still being read; the model check
and every later training start immediately. A server is reused as long as a new process would inherit the same state:
all environment variables that may be read during import, and user, groups, resource limits, CPU affinity, namespaces
and so on (see `inherited.py`). Otherwise another server is started. The working directory, the umask and the other
environment variables are set in each forked process. A server ends with the process that started it, or after being
idle for `fork_server_main.IDLE_SECONDS`.

Usage:

    prepare({"TF_USE_LEGACY_KERAS": "1"})      # starts importing in the background
    process = start(worker, [request_file, result_file], {**os.environ, "TF_USE_LEGACY_KERAS": "1"})
    process.wait()

`GENERIC_TRAINER_FORK_SERVER=0` turns it off. With that setting, and on systems other than Linux, each worker is a new
Python process.
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
from collections.abc import Mapping, Sequence, Set
from typing import IO, TypeAlias

from .. import plugins
from ..runtime.logs.setup import DISPLAY
from ..runtime.process import process_tree, session
from ..runtime.process.readable import readable
from ..runtime.process.run_environment import inherited_environment
from . import inherited

_SWITCH = "GENERIC_TRAINER_FORK_SERVER"
_MAIN = f"{__package__}.fork_server_main"
# Groups of entry points whose modules the workers use.
_GROUPS = ("preloaded", "worker_callbacks", "dialects", "dialect_adapters", "model_checks")
_PRELOADED = tuple(f"generic_trainer.{name}" for name in _GROUPS)
# Modules that a server imports while its first worker runs, so that later workers find them.
_LATER = "generic_trainer.preloaded_later"
# Variables that don't affect imports, so a server can be reused when they change. PYTEST_CURRENT_TEST changes with
# every test, TMPDIR with every model check; `import tfx` sets the protobuf one, possibly after a server was prepared.
_NOT_READ_BY_IMPORTS = (
    "CUDA_VISIBLE_DEVICES", "PYTEST_CURRENT_TEST", "TEMPORARILY_DISABLE_PROTOBUF_VERSION_CHECK",
    "TF_CPP_MIN_LOG_LEVEL", "TMPDIR",
)  # fmt: skip
# Entry points whose names are other such variables, and whose objects are these names.
_VARIABLES = "generic_trainer.worker_variables"
_MAX_SERVERS = 2  # one per Keras version

_Key: TypeAlias = "tuple[tuple[tuple[str, str], ...], tuple[str, ...]]"  # environment variables, other inherited state


def preloaded_modules() -> list[str]:
    """Returns the names of the modules that a server imports."""
    return ["tensorflow", *(entry.module for group in _PRELOADED for entry in plugins.entries(group))]


class ForkedProcess:
    """A worker's process, with the part of the `subprocess.Popen` interface that is needed here.

    Attributes:
      pid: Process id, and id of its process group.
      args: The worker's name in a list, for messages.
      stdout, stderr: Binary pipes with its output.
    """

    def __init__(
        self, connection: socket.socket, pid: int, name: str, outputs: tuple[IO[bytes], IO[bytes]], server: _Server
    ) -> None:
        self.pid = pid
        self.args = [name]
        self.stdout, self.stderr = outputs
        self._connection = connection
        self._server = server  # keeps its socket open: on close it kills its workers, even if dismissed
        self._status: int | None = None

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal number; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._status

    def terminate(self) -> None:
        """Sends SIGTERM; a stopped server continues, because it has to report the exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self._server.resume()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the process to end and returns its exit status.

        Raises:
          subprocess.TimeoutExpired: When the process still runs after `timeout` seconds.
        """
        if self._status is None:
            if not readable([self._connection], timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            reply = _receive(self._connection)
            self._status = -signal.SIGKILL if reply is None else reply["status"]  # workers die with the server
            self._connection.close()
        return self._status


class _Server:
    """Client side of a fork server process."""

    def __init__(self, environment: Mapping[str, str], libraries: Sequence[str] = ()) -> None:
        # Not the first worker's mark: the server would be killed together with that worker's children.
        variables = {**environment, process_tree.VARIABLE: session.server_mark()}
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_end:
            server_end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # messages carry the sender's user id
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MAIN, str(server_end.fileno())],
                env=variables,
                pass_fds=[server_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        session.watch()
        imports = {
            "sys_path": sys.path,
            "modules": preloaded_modules(),
            "libraries": [*libraries],
            "later": [entry.module for entry in plugins.entries(_LATER)],
        }
        self._control.send(json.dumps(imports).encode())

    def start(self, request: Mapping[str, object], timeout: float | None) -> ForkedProcess | None:
        """Forks a worker once the imports are done; returns None if the server has ended."""
        connection, server_end = socket.socketpair()
        pipes = [os.pipe() for _ in range(2)]
        outputs = (os.fdopen(pipes[0][0], "rb"), os.fdopen(pipes[1][0], "rb"))
        reply = None
        try:
            with server_end, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._send(server_end, [write for _, write in pipes], str(request["folder"]))
                server_end.close()
                connection.sendall(json.dumps({**request, "umask": inherited.umask()}).encode() + b"\n")
                if not readable([connection], timeout):
                    with contextlib.suppress(PermissionError):
                        self._process.kill()  # the imports hang
                    raise subprocess.TimeoutExpired(_MAIN, timeout or 0)
                reply = _receive(connection)
        finally:
            for _, write in pipes:
                os.close(write)
            if reply is None:  # also on an interrupt: closing the socket makes the server kill the worker
                for closed in (connection, *outputs):
                    closed.close()
        if reply is None:
            return None
        return ForkedProcess(connection, reply["pid"], str(request["worker"]), outputs, self)

    def _send(self, connection: socket.socket, outputs: Sequence[int], folder: str) -> None:
        # Sent as a descriptor: the path may have been replaced, or may not be accessible to this user.
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            socket.send_fds(self._control, [b"fork"], [connection.fileno(), *outputs, descriptor])
        finally:
            os.close(descriptor)

    def await_imports(self) -> None:
        """Waits until workers can be forked, or the process has ended."""
        readable([self._control], None)  # the message stays unread, for the next call

    def is_running(self) -> bool:
        """Whether the process still runs; reaps it if it has ended."""
        return self._process.poll() is None

    def resume(self) -> None:
        """Lets the process continue if it is stopped."""
        with contextlib.suppress(OSError):  # it runs as another user
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Closes this process's end of the socket; the server ends if no other process holds it."""
        self._control.close()

    def dismiss(self) -> None:
        """Lets the server end as soon as its workers have ended."""
        with contextlib.suppress(OSError):
            self._control.send(b"end")


class _Servers:
    """The fork servers of this process; forks of this process start with none and keep none running."""

    def __init__(self) -> None:
        self._usable: dict[_Key, _Server] = {}
        self._all: weakref.WeakSet[_Server] = weakref.WeakSet()  # including dismissed ones whose workers still run
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        for server in self._all:
            server.close()
        self._usable, self._all = {}, weakref.WeakSet()
        self._lock = threading.Lock()  # the old lock may be held by a thread that does not exist in the fork

    def get(self, environment: Mapping[str, str], libraries: Sequence[str] = ()) -> _Server | None:
        """Returns a server with this environment and inherited state; None where none can be used.

        A new one also imports the libraries; a running one may not have them.
        """
        if sys.platform != "linux" or environment.get(_SWITCH) == "0" or not inherited.shares_process_ids():
            return None
        state = inherited.state()
        others = {*_NOT_READ_BY_IMPORTS, *(entry.name for entry in plugins.entries(_VARIABLES))}
        read = (item for item in environment.items() if _is_read_by_imports(item[0], others))
        key = (tuple(sorted(read)), state)
        with self._lock:
            for outdated in [other for other in self._usable if other[1] != state]:
                self._usable.pop(outdated).dismiss()  # it may hold privileges that this process has dropped
            server = self._usable.pop(key, None)
            if server is None or not server.is_running():
                try:
                    server = _Server(environment, libraries)
                except OSError:  # no permission, or process limit: the caller's own start fails too
                    return None
                self._all.add(server)
            self._usable[key] = server  # ordered by last use
            while len(self._usable) > _MAX_SERVERS:
                self._usable.pop(next(iter(self._usable))).dismiss()
            return server


_servers = _Servers()


def prepare(environment: Mapping[str, str] | None = None, libraries: Sequence[str] = (), wait: bool = False) -> None:
    """Starts importing TensorFlow in the background, in a process that workers are forked from later.

    Args:
      environment: Variables that the worker will have in addition to this process's.
      libraries: Modules to import as well, as the workers will; importing them must start no thread.
      wait: Whether to return only after the import.
    """
    server = _servers.get({**inherited_environment(), **(environment or {})}, libraries)
    if wait and server is not None:
        server.await_imports()


def start(
    worker: str, files: Sequence[str], environment: Mapping[str, str], timeout: float | None = None
) -> ForkedProcess | None:
    """Starts a worker in a forked process that has already imported TensorFlow.

    Args:
      worker: Dotted name of the worker's module.
      files: Paths of the JSON request file to read and the JSON result file to write.
      environment: The complete environment of the process.
      timeout: Seconds that the imports may take; None for no limit.

    Returns:
      The process; None where no server can be used or its imports fail. The caller's new Python process then reports
      the reason.

    Raises:
      subprocess.TimeoutExpired: When the imports take longer than `timeout`.
    """
    if not os.access(".", os.X_OK):  # a folder that this user may not enter can only be inherited
        return None
    request = {
        "worker": worker,
        "files": list(files),
        "environment": dict(environment),
        "folder": ".",
    }
    for _ in range(2):  # a server may be shutting down after its idle timeout
        server = _servers.get(environment)
        process = server.start(request, timeout) if server else None
        if process is not None:
            return process
    return None


def _is_read_by_imports(name: str, others: Set[str]) -> bool:
    is_own = name.startswith("GENERIC_TRAINER_")  # of those, the server reads how to display logs; the workers the rest
    return name == DISPLAY if is_own else name not in others


def _receive(connection: socket.socket) -> dict[str, int] | None:
    """Returns the server's next message about a worker; None if the server has died."""
    reply = b""
    while not reply.endswith(b"\n"):
        byte = connection.recv(1)  # never read beyond the newline
        if not byte:
            return None
        reply += byte
    answer: dict[str, int] = json.loads(reply)
    return answer
