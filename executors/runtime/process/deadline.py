"""Ends the command in a bounded time after a signal, whatever blocks it.

A signal's handler raises an exception, and the stack unwinds: the training saves a checkpoint, staging directories are
removed, the record is written. A daemon thread raises an exception again that was swallowed (`termination.py`). It ends
the process if native code does not return to Python, or a file, a lock or a server does not respond. If native code
lets no thread run, the watcher process of `session.py` reports it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from . import session, termination
from .preemption import ends_process
from .readable import is_writable, readable

# Orchestrators and users wait ten seconds, for example `docker stop`. A training has the first seven, see
# `child_process.py`.
SECONDS = 8.5
_POLL_SECONDS = 0.1


def enforce() -> None:
    """Ends this process and everything that it has started `SECONDS` after the first signal that ends it.

    The exit code is then 128 plus the signal's number. Called once, in the main thread, after the handlers of the
    signals are set.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    session.watch_signals(reader)
    # Python writes a signal's number there at once; the handler itself waits until native code has returned.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # A fork's signals are not signals to this process.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_end_after, args=(reader,), daemon=True, name="deadline").start()


def _end_after(reader: int) -> None:
    while not ends_process(number := _read_number(reader)):
        pass
    termination.note(number)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        termination.raise_again_if_lost()
    session.kill()
    _print(
        f"generic-trainer: ended by {signal.Signals(number).name}; its cleanup took more than {SECONDS:g} s and was "
        f"stopped{_place()}.\n"
    )
    os._exit(128 + number)


def _read_number(reader: int) -> int:
    readable([reader], None)  # the number stays in the pipe until this thread can run
    return os.read(reader, 1)[0]


def _place() -> str:
    """Returns the place in the main thread whose end was waited for."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return ""
    code = frame.f_code
    return f" in {code.co_name} ({code.co_filename}, line {frame.f_lineno})"


def _print(text: str) -> None:
    """Prints to standard error, unless that blocks, or Python's stream is locked by the main thread."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = sys.stderr.fileno()  # not 2, which is a log file while TensorFlow's C++ code writes there
        if is_writable(number):
            os.write(number, text.encode())
