"""Progress display and log files of commands.

    with logs_of_pipeline(root), live_display():
        run_pipeline(…)

If standard error is a terminal, a progress line is shown at its bottom, below all other output. Otherwise, and with all
logs shown (-v), progress is logged periodically as plain lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import click

from ..executors.errors import InputError, TrainerError
from ..executors.runtime.files import file_io
from ..executors.runtime.logs import setup


def logs_kept_on_start(folder: str, paths: Iterable[str] = ()) -> Callable[[], None]:
    """Returns the function that writes all log lines from then on to a file in a folder; no-op if all logs are shown.

    Lines before that are not kept, because a refused run writes nothing to the folder.

    Args:
      folder: The run's folder; for a remote folder the file is written to a temporary folder.
      paths: Other paths that this process reads. If one is remote, TensorFlow is imported and its C++ logs are kept,
        too.
    """
    if not setup.is_filtered():
        return lambda: None
    native = any("://" in path for path in (folder, *paths))
    if native:
        setup.keep_logs(os.devnull, native=True)

    def keep() -> None:
        path = os.path.join(_make_log_folder() if "://" in folder else folder, setup.LOG_NAME)
        setup.keep_logs(path, native=native)
        if "://" in folder and not setup.is_quiet():
            click.echo(f"Logs:         {path}", err=True)

    return keep


@contextlib.contextmanager
def logs_of_pipeline(root: str) -> Iterator[threading.Event]:
    """Writes all logs in the block, including those of C++ code, to a file in `logs` in the pipeline's root.

    If the pipeline has not started, the file stays in a temporary folder; after an InputError it is deleted.

    Yields:
      The event to set when the pipeline starts.
    """
    started = threading.Event()
    if not setup.is_filtered():
        yield started
        return
    path = os.path.join(_make_log_folder(), setup.LOG_NAME)
    setup.keep_logs(path, native=True)
    is_refused, has_failed = False, True
    try:
        yield started
        has_failed = False
    except TrainerError as error:
        is_refused = error.exit_code == InputError.exit_code and not started.is_set()
        raise
    finally:
        if started.is_set() and os.path.isdir(root):
            path = _move_log(path, os.path.join(root, "logs", f"{time.strftime('%Y%m%d-%H%M%S')}.log"))
        if is_refused:  # invalid input before the start: nothing to debug
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        elif has_failed or not setup.is_quiet():
            click.echo(f"Logs:         {path}", err=True)


def _move_log(path: str, target: str) -> str:
    """Moves a log file; returns its new path, or the old path if it cannot be moved, as with a full disk."""
    try:
        with file_io.atomic_write(target) as part:
            shutil.copyfile(path, part)
        shutil.rmtree(os.path.dirname(path))
    except OSError as error:
        click.echo(f"generic-trainer: {error}", err=True)
        return path
    return target


def _make_log_folder() -> str:
    return tempfile.mkdtemp(prefix="generic-trainer-logs-")


def _set_quiet(context: click.Context, parameter: click.Parameter, quiet: bool) -> None:
    del context, parameter
    if not quiet:
        return
    if not setup.is_filtered():
        raise click.UsageError("-v shows all logs, --quiet only warnings and errors; give one of them.")
    setup.show_only_warnings()


quiet_flag = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_set_quiet,
    help="Show only warnings, errors and the summary; the module's standard output goes to the log file.",
)


@contextlib.contextmanager
def module_output(as_json: bool) -> Iterator[None]:
    """Redirects the standard output of a block, the module's included: to the log file if `--quiet` is set.

    Args:
      as_json: Whether standard output is for JSON only, so that other output goes to standard error.
    """
    if setup.is_quiet():
        with contextlib.redirect_stdout(_LogText()):
            yield
    else:
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            yield


class _LogText(io.TextIOBase):
    """A text file whose text goes to the log file of the moment."""

    def write(self, text: str, /) -> int:
        path = os.environ.get(setup.LOG_FILE) or os.devnull
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return len(text)


def live_display() -> contextlib.AbstractContextManager[None]:
    """Shows the progress of runs in the block if standard error is a terminal that supports it; else a no-op."""
    if setup.is_quiet():
        return contextlib.nullcontext()
    if not (sys.stderr.isatty() and setup.is_filtered() and os.environ.get("TERM", "dumb") != "dumb"):
        return contextlib.nullcontext()
    from .live_display import show_progress  # imports rich

    return show_progress()
