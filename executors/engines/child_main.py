"""The main module of a worker's subprocess, started by `child_process.py`.

python -m generic_trainer.executors.engines.child_main WORKER REQUEST.json RESULT.json PARENT_PID
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys

from ..runtime.logs.exceptions import describe
from ..runtime.logs.setup import inherit_log_display
from ..runtime.process import preemption
from ..runtime.process.generated_modules import remove_byte_code
from ..runtime.process.identity import process_name
from . import exit_watch

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # <linux/prctl.h>


def main(worker: str, request_file: str, result_file: str, parent: str) -> int:
    """Runs the worker in a new Python process; returns the exit code."""
    die_with_parent(int(parent))
    inherit_log_display()
    return work(worker, request_file, result_file)


def work(worker: str, request_file: str, result_file: str) -> int:
    """Runs the worker and writes its result or its exception as JSON; returns the exit code."""
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
        answer = {"result": importlib.import_module(worker).execute(request)}
    except BaseException as error:  # including SystemExit: a module that exits has not trained a model
        answer = {"error": describe(error)}
    if os.getpid() != process:  # a fork of the module's returned here; only the original process writes the result
        exit_watch.flush()
        os._exit(int("error" in answer))
    part = f"{result_file}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(answer, file)
        os.replace(part, result_file)
    except OSError as error:
        print(f"{result_file}: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_IOERR
    exit_watch.flush()
    remove_byte_code()
    exit_watch.start(int("error" in answer))
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
