"""Runs a worker in a subprocess and returns its result, its output and its exception.

The subprocess receives its arguments on the command line, its environment variables before anything is imported, and
two file names: the request to read and the result to write. Success is decided by the result file, not by the exit
code: TensorFlow can crash during interpreter shutdown, and non-daemon threads can keep a finished process from exiting.
If the subprocess is ended early (timeout, interrupt, death of this process), its whole process tree is killed; after a
normal exit only its process group is.
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

from ..errors import ProcessDiedError, ProcessTimeoutError, TrainingProcessError
from ..runtime.files import storage_errors
from ..runtime.logs.exceptions import rebuild
from ..runtime.logs.redaction import mask_known
from ..runtime.logs.setup import LOG_FILE, log_file_size, log_text_since
from ..runtime.process import process_tree, session
from ..runtime.process.forwarding import LastText, Sink, forwarded, write
from ..runtime.process.identity import process_name
from ..runtime.process.preemption import Preempted
from ..runtime.process.readable import readable
from ..runtime.process.run_environment import inherited_environment
from ..runtime.process.surroundings import abort_cause
from . import fork_server, inherited

Process: TypeAlias = "subprocess.Popen[bytes] | fork_server.ForkedProcess"

_GRACE_SECONDS = 7.0  # from SIGTERM to SIGKILL, to write a checkpoint; the rest of `deadline.SECONDS` is for the record
_POLL_SECONDS = 1.0  # polling interval of `until` and of the result file
_EXIT_SECONDS = 15.0  # from result to exit; `child_main` ends the worker after 10 s
_NATIVE_HINT = " See its last log lines; TensorFlow ends this way when it cannot allocate memory."
_HINTS: dict[int, str] = {
    signal.SIGKILL: " The machine may have run out of memory.",
    signal.SIGABRT: _NATIVE_HINT,
    signal.SIGSEGV: _NATIVE_HINT,
}


def run(  # noqa: PLR0913 (keywords of a process, as of subprocess.run)
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
    """Starts a subprocess that calls `execute(request)` of the module `worker`, and waits for it.

    Args:
      worker: Dotted name of a module with `execute(request) -> result`.
      request: The argument of `execute`; JSON values. The subprocess's `sys.argv` is the request's `argv`, by default
        this process's.
      environment: Variables to add to `inherited_environment`.
      timeout: Seconds until the subprocess and its children are ended; None for no limit.
      quiet: Show the subprocess's output only if it ends without a result.
      prefix: Prepended to every line that the subprocess prints.
      until: Called about once a second; when it returns True or raises, the subprocess and its children are ended. They
        have some seconds for that, unless it raises `EndAtOnce`.
      what: Name of the subprocess in messages; derived from `worker` by default.
      forked: Whether to fork a process that has already imported TensorFlow; see `fork_server.py`.
      output: Sink for the subprocess's output; standard output and standard error by default.
      on_start: Called with the subprocess's process id.

    Returns:
      The worker's result; {} if it was ended by `until`.

    Raises:
      ProcessTimeoutError: When the subprocess timed out.
      TrainingProcessError: When the subprocess could not be started.
      ProcessDiedError: When the subprocess ended without a result.
      Exception: The worker's exception: the same type if it can be imported in this process, otherwise its nearest base
        class, with the worker's traceback as its cause.
    """
    name = what or process_name(worker)
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder, session.marked() as mark:
        files = [os.path.join(folder, name) for name in ("request.json", "result.json")]
        with open(files[0], "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            json.dump({"argv": sys.argv, **request, "sys_path": sys.path}, file)
        hidden = LastText()
        target = hidden if quiet else output
        targets = (target, target) if target is not None else (sys.stdout, sys.stderr)
        variables = {**inherited_environment(), **(environment or {}), process_tree.VARIABLE: mark}
        kept = log_file_size()
        try:
            with _start(worker, files, variables, timeout, forked) as process:
                if on_start is not None:
                    on_start(process.pid)
                with forwarded((process.stdout, process.stderr), targets, prefix, name):
                    status = _wait(process, timeout, until, files[1], mark, name)
        except (_Ended, EndAtOnce):
            return {}
        except (KeyboardInterrupt, SystemExit):
            _log_if_saved(files[1])
            raise
        except subprocess.TimeoutExpired:
            raise ProcessTimeoutError(
                f"The {name} process did not end within timeout={timeout:g} s and was stopped. It published no model."
            ) from None
        try:
            with open(files[1], encoding="utf-8") as file:
                answer = json.load(file)
        except FileNotFoundError:
            write(sys.stderr, mask_known(f"{hidden.getvalue()}{log_text_since(kept)}"))
            died = ProcessDiedError(_missing_result_message(name, status))
            died.was_killed = status == -signal.SIGKILL
            raise died from None
    if status != 0 and "result" in answer:
        logging.warning("The %s process finished, but exited with status %s.", name, status)
    if "error" in answer:
        raise rebuild(answer["error"])
    result: dict[str, object] = answer["result"]
    return result


class EndAtOnce(Exception):
    """Raised by `until` to kill the process: nothing that it could still save is of use."""


class _Ended(Exception):
    """Raised when `until` returned True and the process is to be ended."""


@contextlib.contextmanager
def _start(
    worker: str, files: list[str], environment: Mapping[str, str], timeout: float | None, forked: bool
) -> Iterator[Process]:
    """Starts the process; if this process dies during the block, the whole process tree is killed."""
    process: Process | None = fork_server.start(worker, files, environment, timeout) if forked else None
    if process is None:  # the fork server kills its workers when this process dies
        process = _start_python(worker, files, environment)
        if sys.platform == "linux" and inherited.shares_process_ids():  # the kernel kills a whole PID namespace
            session.watch()
    try:
        yield process
    finally:
        if process.poll() is None:  # an error came before the wait, such as one of `on_start`
            _end_group(process)


def _start_python(worker: str, files: list[str], environment: Mapping[str, str]) -> Process:
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
            "able to read and run Python and its packages, and must not have reached its limits on processes and "
            "memory."
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
        status = _poll_status(process, timeout, until, result_file, name)
        return status
    except EndAtOnce:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        try:
            _end_group(process)
        finally:
            if status != 0:
                process_tree.kill_all(mark)


def _poll_status(
    process: Process, timeout: float | None, until: Callable[[], bool] | None, result_file: str, name: str
) -> int:
    end = float("inf") if timeout is None else time.monotonic() + timeout
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return _wait_up_to(process, max(0.0, min(_POLL_SECONDS, end - time.monotonic())))
        if os.path.exists(result_file):
            return _status_after_result(process, name)
        if until is not None and until():
            raise _Ended
        if time.monotonic() >= end:
            raise subprocess.TimeoutExpired(process.args, timeout or 0)


def _wait_up_to(process: Process, seconds: float) -> int:
    if isinstance(process, subprocess.Popen) and sys.platform == "linux":
        with contextlib.suppress(OSError):  # no pidfd_open before Linux 5.3: `Popen.wait` polls, with up to 50 ms delay
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
        logging.warning("The %s process has finished, but does not exit; killing it.", name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def _end_group(process: Process) -> None:
    """Ends the process, then kills its process group: the process may need its children until it has ended."""
    try:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGCONT)  # a stopped process receives SIGTERM when it continues
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
    finally:  # also on a second Ctrl-C, which skips the grace period
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _log_if_saved(result_file: str) -> None:
    """Logs the checkpoint that a preempted worker saved before it ended together with this process."""
    with contextlib.suppress(OSError, ValueError, KeyError), open(result_file, encoding="utf-8") as file:
        error = rebuild(json.load(file)["error"])
        if isinstance(error, Preempted):
            logging.info("The training was %s", error)


def _missing_result_message(name: str, status: int) -> str:
    if status == os.EX_IOERR:
        folder = tempfile.gettempdir()
        return (
            f"The {name} process could not write its result below {folder}. {storage_errors.free_space(folder)} Free "
            "disk space there, or set TMPDIR to another folder, and run it again. It published no model."
        )
    if status == 0:
        return (
            f"The {name} process ended with status 0 before it had finished, and without an exception: the module, or "
            "a library that it calls, ended it with os._exit(0) or C's exit(0). Return from the module's function "
            "instead. It published no model."
        )
    if status >= 0:
        where = f" (complete log: {path})" if (path := inherited_environment().get(LOG_FILE)) else ""
        return f"The {name} process ended with status {status} before it had finished. See its last log lines{where}."
    number = -status
    try:
        cause = signal.Signals(number).name
    except ValueError:
        cause = f"signal {number}"
    hint = _HINTS.get(number, "")
    if hint == _NATIVE_HINT and (known := abort_cause()):
        hint = f" {known}"
    return f"The {name} process was ended by {cause} before it had finished.{hint} It published no model."
