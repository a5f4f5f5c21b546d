"""What a command shows of a run while it runs, and where it keeps what is not shown.

    keep_logs_in(model_run)
    with live_display():
        train(…)

Where standard error is a terminal, a line at its bottom says what is done and how far it is, and all other lines go by
above it. Elsewhere, and where everything is logged (-v), a plain line is logged now and then.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

import click

from ..executors.errors import InputError, TrainerError
from ..executors.runtime.files import file_io
from ..executors.runtime.logs import setup


def keep_logs_in(folder: str, paths: Iterable[str] = ()) -> None:
    """Keeps all log lines in a file of a folder, which is made for the first of them.

    Args:
      folder: Of the run; where it is not on this machine, a temporary folder takes its place.
      paths: What else this process reads: it imports TensorFlow for paths that are not on this machine.
    """
    if not setup.is_for_people():
        return
    path = os.path.join(_place() if "://" in folder else folder, setup.LOG_NAME)
    setup.keep_logs(path, native=any("://" in one for one in (folder, *paths)))
    if "://" in folder:
        click.echo(f"Logs:         {path}", err=True)


@contextlib.contextmanager
def logs_of_pipeline(root: str) -> Iterator[None]:
    """Keeps what is logged in a block, by C++ as well; a pipeline that has begun finds it in its root, in `logs`."""
    if not setup.is_for_people():
        yield
        return
    path = os.path.join(_place(), setup.LOG_NAME)
    setup.keep_logs(path, native=True)
    is_refused = False
    try:
        yield
    except TrainerError as error:
        is_refused = error.exit_code == InputError.exit_code
        raise
    finally:
        from ..pipelines.definition.pipeline_root import ROOT_MARKER

        folder = os.path.join(root, "logs")
        if os.path.exists(os.path.join(root, ROOT_MARKER)):
            path = _moved(path, os.path.join(folder, f"{time.strftime('%Y%m%d-%H%M%S')}.log"))
        if is_refused and not path.startswith(folder):  # nothing has begun that a log could explain
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        else:
            click.echo(f"Logs:         {path}", err=True)


def _moved(path: str, target: str) -> str:
    """Moves a log out of its folder; returns where it is, which on a disk that is full is where it was."""
    try:
        with file_io.whole_file(target) as part:
            shutil.copyfile(path, part)
        shutil.rmtree(os.path.dirname(path))
    except OSError as error:
        click.echo(f"generic-trainer: {error}", err=True)
        return path
    return target


def _place() -> str:
    return tempfile.mkdtemp(prefix="generic-trainer-logs-")


def live_display() -> contextlib.AbstractContextManager[None]:
    """Shows the runs of a block, where there is a terminal for it."""
    if not (sys.stderr.isatty() and setup.is_for_people() and os.environ.get("TERM", "dumb") != "dumb"):
        return contextlib.nullcontext()
    from .live_display import shown_live  # imports rich

    return shown_live()
