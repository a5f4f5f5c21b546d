"""Ends a worker that has written its result but does not exit.

Non-daemon threads, `atexit` handlers and `multiprocessing` children keep a Python process alive. They get a few
seconds, for example for a last log line or an upload. After that the process is ended: its result is complete.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from types import FrameType

from absl import logging

NAMED_AFTER_SECONDS = 3.0  # then a log line names what blocks the exit
ENDED_AFTER_SECONDS = 10.0  # as long as a worker has from SIGTERM to SIGKILL


def start(code: int) -> None:
    """Gives this process `ENDED_AFTER_SECONDS` to exit by itself, then ends it from a daemon thread.

    Args:
      code: The exit code if the process has to be ended.
    """
    with contextlib.suppress(RuntimeError):  # thread limit reached: the parent process watches as well
        threading.Thread(target=_end, args=(code,), daemon=True, name="exit watch").start()


def flush() -> None:
    """Flushes the output buffers of Python and of the C library."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a module may have replaced them with any object
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _end(code: int) -> None:
    time.sleep(NAMED_AFTER_SECONDS)
    left = ENDED_AFTER_SECONDS - NAMED_AFTER_SECONDS
    logging.info("The result is written; waiting up to %g s more for %s.", left, _describe_blockers())
    time.sleep(left)
    logging.warning("The result is written; ending the process without further waiting for %s.", _describe_blockers())
    flush()
    os._exit(code)


def _describe_blockers() -> str:
    frames, main = sys._current_frames(), threading.main_thread()
    threads = [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]
    if threads:
        named = ", ".join(f"{thread.name!r}{_location(frames.get(thread.ident or 0))}" for thread in threads)
        return f"the non-daemon {'threads' if len(threads) > 1 else 'thread'} {named}"
    frame = frames.get(main.ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    if frame is None:
        return "the interpreter's exit"
    if frame.f_globals.get("__name__") == "multiprocessing.util":
        import multiprocessing

        children = [f"{child.name!r} (process {child.pid})" for child in multiprocessing.active_children()]
        return f"the child {'processes' if len(children) > 1 else 'process'} {', '.join(children)}"
    return f"the atexit handler {frame.f_code.co_name!r}{_location(frame)}"


def _location(frame: FrameType | None) -> str:
    return f" (at {frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
