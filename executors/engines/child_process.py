"""Runs a worker in a process of its own, and brings back its result, its log lines and its exception.

The process gets an argument list, its environment before anything is imported, and two files: the
request to read and the result to write. The result file decides, not the exit code: TensorFlow can crash
while a finished process exits. When the process must go (time out, an interrupt, this process's own
death), all that it has started goes with it, and its process group also when it has ended well.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, TypeAlias

from absl import logging

from .. import storage_errors
from ..errors import ProcessDiedError, TrainingProcessError
from ..logs import LOG_FILE, kept_since, size_kept
from ..masking import without_known
from ..preemption import Preempted
from ..raised_errors import rebuild
from . import fork_server, offspring

Sink: TypeAlias = "IO[str] | io.TextIOBase"
Process: TypeAlias = "subprocess.Popen[bytes] | fork_server.ForkedProcess"

_GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL: enough to write a checkpoint, short for who waits
_LOOK_SECONDS = 1.0  # how often `until` is asked
_NATIVE_HINT = " Its last log lines may say why; TensorFlow ends so where it gets no more memory."
_HINTS: dict[int, str] = {
    signal.SIGKILL: " The machine may have run out of memory.",
    signal.SIGABRT: _NATIVE_HINT,
    signal.SIGSEGV: _NATIVE_HINT,
}


def run(
    worker: str,
    request: dict[str, Any],
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
      request: What to hand over; JSON values.
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
    name = what or worker.rpartition(".")[2]
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
        files = [os.path.join(folder, name) for name in ("request.json", "result.json")]
        with open(files[0], "w", encoding="utf-8") as file:
            json.dump({**request, "sys_path": sys.path}, file)
        hidden = io.StringIO()
        shown = hidden if quiet else output
        targets = (shown, shown) if shown is not None else (sys.stdout, sys.stderr)
        mark = offspring.new_mark()
        variables = {**os.environ, **(environment or {}), offspring.VARIABLE: mark}
        kept = size_kept()
        try:
            warm = fork_server.start(worker, files, variables, timeout) if forked else None
            process: Process = warm or _new_python(worker, files, variables)
            if on_start is not None:
                on_start(process.pid)
            status = _wait(process, timeout, targets, prefix.encode(), until, mark)
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
            _write(sys.stderr, f"{hidden.getvalue()}{kept_since(kept)}".encode())
            raise ProcessDiedError(_ended_without_answer(name, status)) from None
    if status != 0 and "result" in answer:
        logging.warning("The %s process finished, then ended with status %s.", name, status)
    if "error" in answer:
        raise rebuild(answer["error"])
    result: dict[str, Any] = answer["result"]
    return result


class _Ended(Exception):
    """The process was ended because it was no longer wanted."""


def _new_python(worker: str, files: list[str], environment: Mapping[str, str]) -> Process:
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.child_main", worker, *files, str(os.getpid())],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _wait(
    process: Process,
    timeout: float | None,
    targets: tuple[Sink, Sink],
    prefix: bytes,
    until: Callable[[], bool] | None,
    mark: str,
) -> int:
    status = None
    with _forwarded(process, targets, prefix):
        try:
            status = process.wait(timeout) if until is None else _wait_until(process, timeout, until)
            return status
        finally:
            try:
                _end_group(process)
            finally:
                if status != 0:
                    offspring.end_all(mark)


def _wait_until(process: Process, timeout: float | None, until: Callable[[], bool]) -> int:
    end = None if timeout is None else time.monotonic() + timeout
    while end is None or time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_SECONDS)
        if until():
            raise _Ended
    raise subprocess.TimeoutExpired(process.args, timeout or 0)


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


@contextlib.contextmanager
def _forwarded(process: Process, targets: tuple[Sink, Sink], prefix: bytes) -> Iterator[None]:
    """Passes the process's standard output and error on to two text files as it comes."""
    threads = [
        threading.Thread(target=_forward, args=(pipe, target, prefix), daemon=True)
        for pipe, target in zip((process.stdout, process.stderr), targets, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(_GRACE_SECONDS)


def _forward(pipe: IO[bytes] | None, target: Sink, prefix: bytes) -> None:
    assert pipe is not None
    with pipe:
        rest = b""
        while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
            # Whole lines only, so that two writers never share one; \r ends a progress bar's line.
            text, end = rest + chunk, max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            cut = len(rest) + end if end else 0
            rest = text[cut:]
            _write(target, _prefixed(text[:cut], prefix))
        _write(target, _prefixed(rest, prefix))


def _prefixed(text: bytes, prefix: bytes) -> bytes:
    return b"".join(prefix + line for line in text.splitlines(keepends=True)) if prefix else text


def _write(target: Sink, data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed terminal must not stop the training
        target.write(without_known(data.decode("utf-8", "replace")))
        target.flush()


def _ended_without_answer(name: str, status: int) -> str:
    if status == os.EX_IOERR:
        folder = tempfile.gettempdir()
        return (
            f"The {name} process could not write its answer below {folder}. {storage_errors.free_space(folder)} Make "
            "room there, or set TMPDIR to another folder, and run it again. No model was published."
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
