"""The main module of a worker's subprocess, started by `child_process.py`.

python -m generic_trainer.executors.engines.child_main WORKER REQUEST.json RESULT.json PARENT_PID
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
from types import FrameType

from absl import logging

from ..runtime.logs.exceptions import describe
from ..runtime.logs.setup import inherit_log_display
from ..runtime.process import preemption
from ..runtime.process.generated_modules import remove_all, remove_byte_code
from ..runtime.process.identity import process_name

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # <linux/prctl.h>
_NAMED_AFTER_SECONDS = 3.0  # then a log line names what blocks the exit
_ENDED_AFTER_SECONDS = 10.0


def main(worker: str, request_file: str, result_file: str, parent: str) -> int:
    """Runs the worker in a new Python process; returns the exit code."""
    die_with_parent(int(parent))
    inherit_log_display()
    return work(worker, request_file, result_file)


def work(worker: str, request_file: str, result_file: str) -> int:
    """Runs the worker and writes its result or its exception as JSON; returns the exit code.

    A worker that runs no code of a training module may set ENDS_AT_ONCE: the process then ends without `atexit`
    handlers and the interpreter's shutdown, which takes 0.15 s with TensorFlow.
    """
    _set_process_name(process_name(worker))
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    os.remove(request_file)  # it may contain secrets, and would remain if the parent process is killed
    sys.path[:] = [*dict.fromkeys(request.pop("sys_path"))]
    sys.argv[:] = request.pop("argv")  # modules parse it as if this were the parent process
    preemption.ignore_sigterm_after_training()
    preemption.handle_like_sigterm()
    process = os.getpid()
    try:
        module = importlib.import_module(worker)
        answer = {"result": module.execute(request)}
    except BaseException as error:  # including SystemExit: a module that exits has not trained a model
        answer = {"error": describe(error)}
    if os.getpid() != process:  # a fork of the module's returned here; only the original process writes the result
        _flush()
        os._exit(int("error" in answer))
    part = f"{result_file}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(answer, file)
        os.replace(part, result_file)
    except OSError as error:
        print(f"{result_file}: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_IOERR
    _flush()
    if "result" in answer and getattr(module, "ENDS_AT_ONCE", False):
        remove_all()
        os._exit(0)
    remove_byte_code()
    _watch_exit(int("error" in answer))
    gc.freeze()  # otherwise the garbage collection at exit scans all of TensorFlow, which takes half a second
    return int("error" in answer)


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent process dies, so that no orphan keeps running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in (parent, 0):  # 0: the parent is in another PID namespace
        sys.exit(1)  # the parent died before prctl was called


def _set_process_name(name: str) -> None:
    """Sets the process name that `top` and `ps -o comm` show; Linux keeps 15 bytes of it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def _watch_exit(code: int) -> None:
    """Ends this process from a daemon thread, with an exit code, if it does not exit by itself.

    Non-daemon threads, `atexit` handlers and `multiprocessing` children keep a Python process alive. They get some
    seconds, for example for a last log line or an upload; the result is complete.
    """
    with contextlib.suppress(RuntimeError):  # thread limit reached: the parent process watches as well
        threading.Thread(target=_end, args=(code,), daemon=True, name="exit watch").start()


def _flush() -> None:
    """Flushes the output buffers of Python and of the C library."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a module may have replaced them with any object
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _end(code: int) -> None:
    time.sleep(_NAMED_AFTER_SECONDS)
    left = _ENDED_AFTER_SECONDS - _NAMED_AFTER_SECONDS
    logging.info("The result is written; waiting up to %g s more for %s.", left, _describe_blockers())
    time.sleep(left)
    logging.warning("The result is written; ending the process without further waiting for %s.", _describe_blockers())
    _flush()
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
