"""Everything that this process starts, which ends with it.

with marked() as mark:               # of one worker; inherited by everything that the worker starts
    environment[VARIABLE] = mark
    watch()                          # ends it all if this process dies, including by `kill -9`
    …
end()                                # when the command has ended: no fork server remains
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

from . import process_tree
from .process_tree import VARIABLE, kill_all


class _Session:
    """The marks of what this process starts, and its watcher process; a fork of this process begins a new session."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        atexit.register(self.end)

    def _begin(self) -> None:
        self._token = os.urandom(16).hex()
        self._watcher: subprocess.Popen[bytes] | None = None
        self._signals = -1
        self._lock = threading.Lock()
        self._workers: set[str] = set()

    def mark(self, name: str = "") -> str:
        """Returns a mark that begins with those of this process's enclosing workers."""
        return ":".join(filter(None, [os.environ.get(VARIABLE), self._token, name]))

    def server_mark(self) -> str:
        """Returns the value of `VARIABLE` for fork servers, which outlive their workers."""
        return self.mark("server")

    @contextlib.contextmanager
    def marked(self) -> Iterator[str]:
        """Yields a new value of `VARIABLE` for a worker that runs during the block."""
        mark = self.mark(os.urandom(16).hex())
        self._workers.add(mark)
        try:
            yield mark
        finally:
            self._workers.discard(mark)

    def watch(self) -> None:
        """Starts a watcher process, unless it runs already: when this process dies, it kills everything with a mark."""
        with self._lock:
            if self._watcher is None or self._watcher.poll() is not None:
                with contextlib.suppress(OSError):  # process limit reached
                    self._watcher = _start_watcher(self.mark(), self.mark("watcher"), self._signals)

    def watch_signals(self, reader: int) -> None:
        """Lets the watcher report signals whose numbers stay in a pipe, see `process_tree.py`."""
        self._signals = reader

    def kill(self) -> None:
        """Kills everything that this process has started and that still runs."""
        kill_all(self.mark())

    def end(self) -> None:
        """Kills fork servers, and everything that workers which still run have started; called again at exit."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is None:
            return  # nothing was started
        # Children that a finished training left running on purpose may remain.
        kill_all(self.mark() if self._workers else self.server_mark())
        watcher.kill()
        watcher.wait()


def _start_watcher(mark: str, own_mark: str, signals: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", process_tree.__file__, mark, str(os.getpid()), str(signals)],
        env={**os.environ, VARIABLE: own_mark},  # a stopped watcher must not outlive its session
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=_error_output() if signals >= 0 else subprocess.DEVNULL,
        pass_fds=[signals] if signals >= 0 else [],
        start_new_session=True,
    )


def _error_output() -> int:
    try:
        return sys.stderr.fileno()  # not 2, which is a log file while TensorFlow's C++ code writes there
    except (AttributeError, OSError, ValueError):  # closed, or replaced
        return subprocess.DEVNULL


_session = _Session()
marked = _session.marked
server_mark = _session.server_mark
watch = _session.watch
watch_signals = _session.watch_signals
kill = _session.kill
end = _session.end
