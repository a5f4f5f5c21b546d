"""Runs a worker in a process of its own, and brings back its result, its log lines and its exception.

The process gets an argument list, its environment before anything is imported, and two files: the
request to read and the result to write. The result file decides, not the exit code: TensorFlow can crash
while a finished process exits, or something in it can keep it from exiting. When the process is ended early (time
out, an interrupt, this process's own death), all that it has started is killed with it; when it ends well, its
process group is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from absl import logging

from ..errors import ProcessDiedError, TrainingProcessError
from ..runtime.files import storage_errors
from ..runtime.logs.exceptions import rebuild
from ..runtime.logs.redaction import without_known
from ..runtime.logs.setup import LOG_FILE, kept_since, size_kept
from ..runtime.process import process_tree
from ..runtime.process.identity import process_name
from ..runtime.process.preemption import Preempted
from . import exit_watch, fork_server, inherited
from .forwarding import LastText, Sink, forwarded, write
from .readable import readable

Process: TypeAlias = "subprocess.Popen[bytes] | fork_server.ForkedProcess"

_GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL: enough to write a checkpoint, short for who waits
_LOOK_SECONDS = 1.0  # how often `until` is called, and the result is looked for
_EXIT_SECONDS = exit_watch.ENDED_AFTER_SECONDS + 5.0  # from the result to the exit, which the process itself ends first
_NATIVE_HINT = " Its last log lines may say why; TensorFlow ends so where it gets no more memory."
_HINTS: dict[int, str] = {
    signal.SIGKILL: " The machine may have run out of memory.",
    signal.SIGABRT: _NATIVE_HINT,
    signal.SIGSEGV: _NATIVE_HINT,
}


def run(
    worker: str,
    request: Mapping[str, object],
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    quiet: bool = False,
    prefix: str = "",
    until: Callable[[], bool] | None = None,
    what: str = "",
    forked: bool = False,
    output: Sink | None = None,
    on_start: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Starts a fresh process, has it call `execute(request)` of the module `worker`, and waits.

    Args:
      worker: Dotted name of a module with `execute(request) -> result`.
      request: What to hand over; JSON values. The process has its `argv` as `sys.argv`, by default this process's.
      environment: Variables to add to this process's environment.
      timeout: Seconds to wait before the process and its children are ended; None for no limit.
      quiet: Show what the process prints only if it ends without a result.
      prefix: Put before every line that the process prints.
      until: Asked about once a second; when it says True, the process and its children are ended.
      what: What to call the process in messages; the worker's name by default.
      output: Where what it prints goes; to standard output and error by default.
      forked: Whether to take a process in which TensorFlow is imported already; see `fork_server.py`.
      on_start: Is told the process's number.

    Returns:
      The worker's result; {} when it was ended by `until`.

    Raises:
      TrainingProcessError: When the process ran out of time.
      ProcessDiedError: When it ended without a result.
      Exception: What the worker raised: its type where that can be named in this process, the
        nearest base class otherwise, with the worker's traceback as its cause.
    """
    name = what or process_name(worker)
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
        files = [os.path.join(folder, name) for name in ("request.json", "result.json")]
        with open(files[0], "w", encoding="utf-8", opener=_private) as file:
            json.dump({"argv": sys.argv, **request, "sys_path": sys.path}, file)
        hidden = LastText()
        shown = hidden if quiet else output
        targets = (shown, shown) if shown is not None else (sys.stdout, sys.stderr)
        mark = process_tree.new_mark()
        variables = {**os.environ, **(environment or {}), process_tree.VARIABLE: mark}
        kept = size_kept()
        try:
            with _started(worker, files, variables, timeout, forked) as process:
                if on_start is not None:
                    on_start(process.pid)
                with forwarded((process.stdout, process.stderr), targets, prefix, name):
                    status = _wait(process, timeout, until, files[1], mark, name)
        except _Ended:
            return {}
        except (KeyboardInterrupt, SystemExit):
            _tell_if_saved(files[1])
            raise
        except subprocess.TimeoutExpired:
            raise TrainingProcessError(
                f"The {name} process did not end within timeout={timeout:g} s and was stopped. No model was published."
            ) from None
        try:
            with open(files[1], encoding="utf-8") as file:
                answer = json.load(file)
        except FileNotFoundError:
            write(sys.stderr, without_known(f"{hidden.getvalue()}{kept_since(kept)}"))
            raise ProcessDiedError(_ended_without_answer(name, status)) from None
    if status != 0 and "result" in answer:
        logging.warning("The %s process finished, then ended with status %s.", name, status)
    if "error" in answer:
        raise rebuild(answer["error"])
    result: dict[str, object] = answer["result"]
    return result


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Ended(Exception):
    """The process was ended because it was no longer wanted."""


@contextlib.contextmanager
def _started(
    worker: str, files: list[str], environment: Mapping[str, str], timeout: float | None, forked: bool
) -> Iterator[Process]:
    """Starts the process; should this process die during the block, all that it has started is killed."""
    warm = fork_server.start(worker, files, environment, timeout) if forked else None
    if warm is not None:  # the server looks after that
        yield warm
        return
    process = _new_python(worker, files, environment)
    if sys.platform != "linux" or not inherited.shares_process_ids():  # the kernel ends all of a namespace
        yield process
        return
    with process_tree.ended_with_this_process(environment[process_tree.VARIABLE]):
        yield process


def _new_python(worker: str, files: list[str], environment: Mapping[str, str]) -> Process:
    try:
        return subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.child_main", worker, *files, str(os.getpid())],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise TrainingProcessError(
            f"{sys.executable}: no process can be started as user {os.geteuid()}: {error.strerror}. This user must be "
            "able to read and run Python and its packages, and the limits on processes and memory must leave room."
        ) from error


def _wait(
    process: Process,
    timeout: float | None,
    until: Callable[[], bool] | None,
    result_file: str,
    mark: str,
    name: str,
) -> int:
    status = None
    try:
        status = _status_of(process, timeout, until, result_file, name)
        return status
    finally:
        try:
            _end_group(process)
        finally:
            if status != 0:
                process_tree.end_all(mark)


def _status_of(
    process: Process, timeout: float | None, until: Callable[[], bool] | None, result_file: str, name: str
) -> int:
    end = float("inf") if timeout is None else time.monotonic() + timeout
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return _wait_up_to(process, max(0.0, min(_LOOK_SECONDS, end - time.monotonic())))
        if os.path.exists(result_file):
            return _status_after_result(process, name)
        if until is not None and until():
            raise _Ended
        if time.monotonic() >= end:
            raise subprocess.TimeoutExpired(process.args, timeout or 0)


def _wait_up_to(process: Process, seconds: float) -> int:
    if isinstance(process, subprocess.Popen) and sys.platform == "linux":
        with contextlib.suppress(OSError):  # an old kernel: `Popen.wait` looks for the end up to 50 ms later
            process_file = os.pidfd_open(process.pid)
            try:
                readable([process_file], seconds)
            finally:
                os.close(process_file)
            seconds = 0.0
    return process.wait(seconds)


def _status_after_result(process: Process, name: str) -> int:
    try:
        return process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        logging.warning("The %s process has finished, but does not exit; it is killed.", name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def _end_group(process: Process) -> None:
    """Ends what is left of the process and of everything that it started, which it may need until it has ended."""
    try:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
    finally:  # a second Ctrl-C does not wait that long
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tell_if_saved(result_file: str) -> None:
    """Says what a worker has saved that was ended together with this process."""
    with contextlib.suppress(OSError, ValueError, KeyError), open(result_file, encoding="utf-8") as file:
        error = rebuild(json.load(file)["error"])
        if isinstance(error, Preempted):
            logging.info("The training was %s", error)


def _ended_without_answer(name: str, status: int) -> str:
    if status == os.EX_IOERR:
        folder = tempfile.gettempdir()
        return (
            f"The {name} process could not write its answer below {folder}. {storage_errors.free_space(folder)} Make "
            "room there, or set TMPDIR to another folder, and run it again. No model was published."
        )
    if status == 0:
        return (
            f"The {name} process ended with status 0 before it had finished, and without an exception: the module, or "
            "a library that it calls, ended it with os._exit(0) or C's exit(0). Return from the module's function "
            "instead. No model was published."
        )
    if status >= 0:
        where = f" (all of them are in {path})" if (path := os.environ.get(LOG_FILE)) else ""
        return (
            f"The {name} process ended with status {status} before it had finished. Its last log lines say why{where}."
        )
    number = -status
    try:
        cause = signal.Signals(number).name
    except ValueError:
        cause = f"signal {number}"
    hint = _HINTS.get(number, "")
    return f"The {name} process was ended by {cause} before it had finished.{hint} No model was published."
