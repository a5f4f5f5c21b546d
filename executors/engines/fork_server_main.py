"""The process that imports TensorFlow once, and forks for each worker; `fork_server.py` starts and asks it.

python -m generic_trainer.executors.engines.fork_server_main SOCKET

The socket brings the modules to import, then one message for each worker with four file descriptors: a socket for its
request and its exit status, its standard output and error, and its working directory. Messages of other users than the
server's own are refused. The process has a single thread, whatever its workers do, and touches neither TensorFlow's
runtime nor a device: what is forked is as good as fresh.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from typing import TypedDict

from ..runtime.logs.setup import LOG_FILE, keep_logs_as_parent_does, show_logs_as_parent_does
from ..runtime.process import process_tree
from .child_main import die_with_parent, work
from .deferred_imports import deferred

IDLE_SECONDS = 300.0  # without a worker, until it ends: its memory may be wanted elsewhere
_MESSAGE_BYTES = 1 << 16
_FILES = 4
_SENDER = struct.Struct("iII")  # process, user, group: <linux/socket.h>, struct ucred
# Who ends all processes of a job at once, such as systemd or Slurm, must not take the server from under a worker that
# saves: it ends with the process that it works for.
_UNHEEDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Order(TypedDict):
    """What a worker is asked to do, as `fork_server.start` sends it.

    Attributes:
      worker: Dotted name of the module with `execute`.
      files: Arguments of `child_main.work`: the request to read and the result to write.
      environment: All variables.
      umask: The caller's.
    """

    worker: str
    files: list[str]
    environment: dict[str, str]
    umask: int


def main(control: socket.socket) -> int:
    """Imports, then serves; returns the exit code, in the server and in each worker."""
    signals = _Signals()
    os.environ.pop(LOG_FILE, None)  # each worker's own
    show_logs_as_parent_does()
    asked = json.loads(control.recv(_MESSAGE_BYTES))
    sys.path[:] = asked["sys_path"]
    before = set(os.environ)
    _import_all(asked["modules"])
    order = _Server(control, signals, {name: os.environ[name] for name in os.environ.keys() - before}).serve()
    return work(order["worker"], *order["files"]) if order else 0


def _import_all(modules: list[str]) -> None:
    gc.disable()
    with deferred():
        for name in modules:
            importlib.import_module(name)
    gc.enable()
    gc.collect()
    gc.freeze()  # so that a worker's collections do not copy what all share


class _Signals:
    """How this process was started to treat signals: its workers get that back, the server has its own ways."""

    def __init__(self) -> None:
        self._blocked = signal.pthread_sigmask(signal.SIG_SETMASK, [])
        self._handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _UNHEEDED}
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)

    def restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


class _Server:
    """Forks, and tells who ordered a worker how it ended."""

    def __init__(self, control: socket.socket, signals: _Signals, set_by_imports: dict[str, str]) -> None:
        self._control, self._signals, self._set_by_imports = control, signals, set_by_imports
        self._lines: dict[int, socket.socket] = {}
        self._marks: dict[int, str] = {}
        self._wake, wake_end = socket.socketpair()
        for end in (self._wake, wake_end):
            end.setblocking(False)
        self._wake_end = wake_end
        signal.set_wakeup_fd(wake_end.fileno())

    def serve(self) -> Order | None:
        """Returns in a worker, with its order; and in the server with None, when it is no longer wanted."""
        wanted = True
        last = time.monotonic()
        while wanted or self._lines:
            left = None if self._lines else max(0.0, last + IDLE_SECONDS - time.monotonic())
            ready = select.select([self._wake, self._control], [], [], left)[0]
            if not ready and not self._lines:
                return None
            if self._wake in ready:
                self._tell_who_ended()
                last = time.monotonic()
            if self._control in ready:
                message, files, is_own_user = _received(self._control)
                if not message:  # the process that wanted it has died
                    self._kill_all()
                    return None
                if not files:
                    wanted = False
                elif not (wanted and is_own_user):
                    for file in files:  # the answer to whoever waits
                        os.close(file)
                elif order := self._fork(files):
                    return order
        return None

    def _fork(self, files: list[int]) -> Order | None:
        line = socket.socket(fileno=files[0])
        with line.makefile("rb") as stream:
            order: Order = json.loads(stream.readline())
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
            for held in (line, self._control, self._wake, self._wake_end, *self._lines.values()):
                held.close()
            _become(order, server, self._set_by_imports)
            self._signals.restore()
            return order
        with contextlib.suppress(OSError):  # the worker may have done it already, or have ended
            os.setpgid(pid, pid)
        for file in files[1:]:
            os.close(file)
        self._lines[pid], self._marks[pid] = line, order["environment"].get(process_tree.VARIABLE, "")
        if not _say(line, {"pid": pid}):
            self._kill(pid)
        return None

    def _tell_who_ended(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        for pid in list(self._lines):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._marks[pid]
                with self._lines.pop(pid) as line:
                    _say(line, {"status": os.waitstatus_to_exitcode(status)})

    def _kill_all(self) -> None:
        for pid in self._lines:
            self._kill(pid)

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if mark := self._marks.get(pid):
            process_tree.end_all(mark)


def _received(control: socket.socket) -> tuple[bytes, list[int], bool]:
    """Returns a message, its file descriptors, and whether its sender has this process's user and group."""
    size = array.array("i").itemsize
    message, ancillary, _, _ = control.recvmsg(
        _MESSAGE_BYTES, socket.CMSG_SPACE(_FILES * size) + socket.CMSG_SPACE(_SENDER.size)
    )
    files, is_own_user = array.array("i"), False
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) // size * size])
        elif kind == socket.SCM_CREDENTIALS:
            is_own_user = _SENDER.unpack(data)[1:] == (os.getuid(), os.getgid())
    return message, list(files), is_own_user


def _say(line: socket.socket, what: dict[str, int]) -> bool:
    """Tells who ordered a worker of it; returns whether somebody still waits for it."""
    try:
        line.sendall(json.dumps(what).encode() + b"\n")
    except OSError:
        return False
    return True


def _become(order: Order, server: int, set_by_imports: dict[str, str]) -> None:
    """Sets what the caller may have changed since the server started, and seeds random numbers anew."""
    die_with_parent(server)
    os.umask(order["umask"])
    environment = set_by_imports | order["environment"]
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR may be another one
    keep_logs_as_parent_does()
    if "numpy" in sys.modules:  # Python seeds its own generator anew
        sys.modules["numpy"].random.seed()


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
