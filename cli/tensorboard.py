"""`generic-trainer tensorboard [RUN…]`: TensorBoard on the runs' logs, each under a name that a person knows."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ..executors.errors import InputError
from ..executors.runtime.files import file_io
from ..pipelines.history.runs import Run, find_run, find_runs
from .history_flags import place_flags, where

_MOST = 20  # runs, when none is named
_ADDRESS = re.compile(r"TensorBoard \S+ at (\S+)")
_SECONDS_TO_END = 5


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@place_flags
@click.option("--port", type=click.IntRange(0, 65535), help="Default: 6006, or the next free one.")
@click.option("--host", help="The address to listen on (default: this machine alone).")
def tensorboard(runs: tuple[str, ...], port: int | None, host: str | None, **flags: Any) -> None:
    """Starts TensorBoard on the logs of RUNs, or of the twenty newest; Ctrl-C ends it.

    Each RUN is named as in `show`.

    \b
    Example:
      generic-trainer tensorboard last 4f0c1a2b --port 6007
    """  # noqa: D301 (click's mark of lines to keep)
    places = where(flags)
    named = [find_run(run, **places) for run in runs]
    folders = folders_by_name(named or find_runs(**places, limit=_MOST))
    if not folders:
        raise InputError("No run with logs was found: give a RUN, or where to look (--in PLACE).")
    for name in folders:
        click.echo(f"  {name}", err=True)
    with _logs(folders) as arguments:
        options = [*(["--port", str(port)] if port is not None else []), *(["--host", host] if host else [])]
        _serve([sys.executable, "-m", "tensorboard.main", *arguments, *options])


def folders_by_name(runs: Sequence[Run]) -> dict[str, str]:
    """Returns {name: folder of logs}; the names begin with the time, so that TensorBoard sorts by it."""
    folders: dict[str, str] = {}
    for run in runs:
        if run.model_run and file_io.isdir(run.model_run) and run.model_run not in folders.values():
            module = re.sub(r"\W+", "_", os.path.basename(run.module).removesuffix(".py")) or "run"
            started = re.sub(
                r"[^\w.-]+", "_", run.started[:19].replace(":", ".")
            )  # a link's name, from others' records
            folders[f"{started} {module} {re.sub(r'[^0-9a-zA-Z-]', '_', run.id[:8])}"] = run.model_run
    return dict(sorted(folders.items()))


@contextlib.contextmanager
def _logs(folders: dict[str, str]) -> Iterator[list[str]]:
    """Gives TensorBoard's arguments: a folder of links with the names, or the names themselves for remote folders."""
    if any(file_io.is_remote(folder) for folder in folders.values()):
        yield ["--logdir_spec", ",".join(f"{name}:{folder}" for name, folder in folders.items())]
        return
    with tempfile.TemporaryDirectory(prefix="generic-trainer-tensorboard-") as links:
        for name, folder in folders.items():
            os.symlink(os.path.abspath(folder), os.path.join(links, name))
        yield ["--logdir", links]


def _serve(command: list[str]) -> None:
    """Runs TensorBoard until it ends or Ctrl-C, and says where it is; its processes end with this one.

    Raises:
      InputError: When it could not start.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    said: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    ) as running:
        try:
            assert running.stdout is not None
            for line in running.stdout:
                said.append(line)
                if found := _ADDRESS.search(line):
                    click.echo(f"TensorBoard: {found[1]} (Ctrl-C ends it)")
                    sys.stdout.flush()
            code = running.wait()
        except KeyboardInterrupt:
            return
        finally:
            _end(running)
    raise InputError(f"TensorBoard ended with code {code}:\n{''.join(said[-10:]).rstrip()}")


def _end(running: subprocess.Popen[str]) -> None:
    """Ends TensorBoard and the process that reads files for it, which are a group of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(_SECONDS_TO_END)
