"""The fork server process: imports TensorFlow once, then forks for each worker. Started by `fork_server.py`.

python -m generic_trainer.executors.engines.fork_server_main SOCKET

The socket receives the lists of modules to import, then one message per worker with four file descriptors: a socket for
the request and the exit status, standard output, standard error, and the working directory. Messages from other users
than the server's are refused. It sends "ready" after the imports. The server stays single-threaded and never
initializes TensorFlow's runtime or a device, so that forking is safe.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from typing import TypedDict

from .. import plugins
from ..runtime.logs.setup import LOG_FILE, inherit_log_display, inherit_log_file
from ..runtime.process import process_tree
from ..runtime.process.preemption import ENDING
from ..runtime.process.readable import readable
from .child_main import die_with_parent, work
from .deferred_imports import deferred

IDLE_SECONDS = 300.0  # idle time without a worker before it ends, to free its memory
# Seconds without a message, while a worker runs, until the first and each next of the later modules is imported.
_LATER_AFTER_SECONDS, _NEXT_AFTER_SECONDS = 0.5, 0.05
_MESSAGE_BYTES = 1 << 16
_FILES = 4
_SENDER = struct.Struct("iII")  # process, user, group: <linux/socket.h>, struct ucred


class ForkRequest(TypedDict):
    """A request to fork a worker, as `fork_server.start` sends it.

    Attributes:
      worker: Dotted name of the module with `execute`.
      files: Arguments of `child_main.work`: the request to read and the result to write.
      environment: All environment variables.
      umask: The caller's umask.
    """

    worker: str
    files: list[str]
    environment: dict[str, str]
    umask: int


def main(control: socket.socket) -> int:
    """Imports the modules and serves; returns the exit code, both in the server and in each worker."""
    signals = _Signals()
    os.environ.pop(LOG_FILE, None)  # set per worker
    inherit_log_display()
    imports = json.loads(control.recv(_MESSAGE_BYTES))
    sys.path[:] = imports["sys_path"]
    before = set(os.environ)
    _import_all(imports["modules"], imports["libraries"])
    with contextlib.suppress(OSError):  # the client process has died
        control.send(b"ready")
    set_by_imports = {name: os.environ[name] for name in os.environ.keys() - before}
    request = _Server(control, signals, set_by_imports, imports["later"]).serve()
    return work(request["worker"], *request["files"]) if request else 0


def _import_all(modules: list[str], libraries: list[str]) -> None:
    gc.disable()
    with deferred():
        for name in modules:
            with contextlib.suppress(Exception):  # a worker that needs it reports the error
                importlib.import_module(name)
    for name in libraries:
        importlib.import_module(name)
    plugins.entries("")  # workers then need no search, unless the module search path has changed
    _freeze()


def _import_later(name: str) -> None:
    gc.disable()
    with contextlib.suppress(Exception):  # a worker that needs it reports the error
        importlib.import_module(name)
    _freeze()


def _freeze() -> None:
    """Keeps garbage collection in a worker from copying the shared memory pages."""
    gc.enable()
    gc.collect()
    gc.freeze()


class _Signals:
    """The signal handlers and mask that this process was started with, which its workers get back."""

    def __init__(self) -> None:
        self._blocked = signal.pthread_sigmask(signal.SIG_SETMASK, [])
        # systemd and Slurm signal all processes of a job at once. The server ignores these signals, because its workers
        # would die with it before they have saved a checkpoint. It ends with the process that started it.
        self._handlers = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)

    def restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


class _Server:
    """Forks workers and reports their process ids and exit statuses."""

    def __init__(
        self, control: socket.socket, signals: _Signals, set_by_imports: dict[str, str], later: list[str]
    ) -> None:
        self._control, self._signals, self._set_by_imports = control, signals, set_by_imports
        self._connections: dict[int, socket.socket] = {}
        self._requests: dict[int, ForkRequest] = {}
        self._later, self._later_after = later, _LATER_AFTER_SECONDS
        self._wake, wake_end = socket.socketpair()
        for end in (self._wake, wake_end):
            end.setblocking(False)
        self._wake_end = wake_end
        signal.set_wakeup_fd(wake_end.fileno())

    def serve(self) -> ForkRequest | None:
        """Serves until dismissed; returns the request in a forked worker, and None in the server."""
        wanted = True
        last = time.monotonic()
        while wanted or self._connections:
            left = None if self._connections else max(0.0, last + IDLE_SECONDS - time.monotonic())
            if self._connections and self._later:
                left = self._later_after
            ready = readable([self._wake, self._control], left)
            if not ready and not self._connections:
                return None
            if not ready:
                _import_later(self._later.pop(0))
                self._later_after = _NEXT_AFTER_SECONDS
            if self._wake.fileno() in ready:
                self._report_exits()
                last = time.monotonic()
            if self._control.fileno() in ready:
                message, files, is_own_user = _receive(self._control)
                if not message:  # the client process has died
                    self._kill_all()
                    return None
                wanted = wanted and bool(files)
                if request := self._answer(files, is_allowed=wanted and is_own_user):
                    return request
        return None

    def _answer(self, files: list[int], is_allowed: bool) -> ForkRequest | None:
        """Forks a worker for a client, if it may have one; see `serve`."""
        if is_allowed:
            return self._fork(files)
        for file in files:  # the waiting client sees the end of the stream
            os.close(file)
        return None

    def _fork(self, files: list[int]) -> ForkRequest | None:
        connection = socket.socket(fileno=files[0])
        with connection.makefile("rb") as stream:
            request: ForkRequest = json.loads(stream.readline())
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            os.setpgid(0, 0)
            os.fchdir(files[3])
            for number, file in enumerate(files[1:3], 1):
                os.dup2(file, number)
            for file in files[1:]:
                os.close(file)
            for held in (connection, self._control, self._wake, self._wake_end, *self._connections.values()):
                held.close()
            _apply_request(request, server, self._set_by_imports)
            self._signals.restore()
            return request
        with contextlib.suppress(OSError):  # the worker may have set it already, or have ended
            os.setpgid(pid, pid)
        for file in files[1:]:
            os.close(file)
        self._connections[pid], self._requests[pid] = connection, request
        if not _send(connection, {"pid": pid}):
            self._kill(pid)
        return None

    def _report_exits(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        for pid in list(self._connections):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with self._connections.pop(pid) as connection:
                    _send(connection, {"status": os.waitstatus_to_exitcode(status)})
                worker = self._requests.pop(pid)["worker"]
                if worker in self._later:  # the next worker of this kind comes before there is time for it
                    self._later.remove(worker)
                    _import_later(worker)

    def _kill_all(self) -> None:
        for pid in self._connections:
            self._kill(pid)

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if mark := self._requests[pid]["environment"].get(process_tree.VARIABLE):
            process_tree.kill_all(mark)


def _receive(control: socket.socket) -> tuple[bytes, list[int], bool]:
    """Returns a message, its file descriptors, and whether the sender has this process's user and group."""
    size = array.array("i").itemsize
    try:
        message, ancillary, _, _ = control.recvmsg(
            _MESSAGE_BYTES, socket.CMSG_SPACE(_FILES * size) + socket.CMSG_SPACE(_SENDER.size)
        )
    except ConnectionResetError:  # the client process has died without having read "ready"
        return b"", [], False
    files, is_own_user = array.array("i"), False
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) // size * size])
        elif kind == socket.SCM_CREDENTIALS:
            is_own_user = _SENDER.unpack(data)[1:] == (os.getuid(), os.getgid())
    return message, list(files), is_own_user


def _send(connection: socket.socket, what: dict[str, int]) -> bool:
    """Sends a message to the worker's client; returns whether the client still listens."""
    try:
        connection.sendall(json.dumps(what).encode() + b"\n")
    except OSError:
        return False
    return True


def _apply_request(request: ForkRequest, server: int, set_by_imports: dict[str, str]) -> None:
    """Applies the client's umask and environment in a forked worker, and reseeds NumPy's random numbers."""
    die_with_parent(server)
    os.umask(request["umask"])
    environment = set_by_imports | request["environment"]
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR may have changed
    inherit_log_file()
    if "numpy" in sys.modules:  # Python reseeds `random` after a fork by itself
        sys.modules["numpy"].random.seed()


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
