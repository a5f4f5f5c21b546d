"""The Beam pipeline for data preparation, which `command.py` runs in a subprocess."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
from absl import logging
from apache_beam.options.pipeline_options import PipelineOptions

from ....compat.beam import IN_PROCESS
from ....modules.source import find_source
from ....runtime.logs.setup import inherit_log_display
from ...loading import loaded
from .command import FUNCTION, PreparationJob
from .manifest import Group, Manifest
from .shards import Prepare, find_prepare_function, write_group

_PROGRESS_SECONDS = 5.0
_loading_lock = threading.Lock()


class PrepareGroup(beam.DoFn):  # type: ignore[misc]
    """Writes the shards of a group of files, and the group's result to the manifest."""

    def __init__(self, job: PreparationJob, allowed_bad: int, search_path: Sequence[str]) -> None:
        self._job = job
        self._allowed_bad = allowed_bad
        self._search_path = tuple(search_path)

    def setup(self) -> None:
        """Loads the model file, once per process."""
        with _loading_lock:
            self._prepare = _load_prepare_function(self._job.module, self._search_path)
        self._bad = 0

    def process(self, group: Group) -> None:
        """Prepares the group, unless this worker alone has had more failed files than the job allows."""
        if self._bad > self._allowed_bad:
            return
        result = write_group(self._prepare, group, self._job, self._allowed_bad - self._bad)
        self._bad += len(result.bad)
        Manifest(self._job.output).write(group, result)


def execute(request: dict[str, Any]) -> dict[str, object]:
    """Runs a request of `command.prepare` in the subprocess."""
    job = PreparationJob(**{**request["job"], "beam_args": tuple(request["job"]["beam_args"])})
    groups = [Group(group["number"], tuple(group["files"])) for group in request["groups"]]
    _load_prepare_function(job.module, tuple(sys.path))  # raises its errors here, without Beam's tracebacks
    workers = min(job.workers or os.cpu_count() or 1, len(groups))
    mode = "multi_processing" if workers > 1 else "in_memory"
    local = [IN_PROCESS, f"--direct_num_workers={workers}", f"--direct_running_mode={mode}"]
    threading.excepthook = _end_with_worker
    with _progress(job, groups):
        with beam.Pipeline(options=PipelineOptions([*local, *job.beam_args])) as pipeline:
            _ = (
                pipeline
                | "Groups" >> beam.Create(groups)
                | "Spread" >> beam.Reshuffle()
                | "Prepare" >> beam.ParDo(PrepareGroup(job, request["allowed_bad"], sys.path))
            )
    return {}


@functools.cache
def _load_prepare_function(module: str, search_path: tuple[str, ...]) -> Prepare:
    """Returns the model file's preparation function. The file stays loaded until the process exits."""
    inherit_log_display()
    sys.path[:] = dict.fromkeys([*search_path, *sys.path])
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="generic-trainer-"))
    return find_prepare_function(stack.enter_context(loaded(find_source(module, scratch))))


def _end_with_worker(failure: threading.ExceptHookArgs) -> None:
    """Exits the process when the thread that waits for a worker process fails; Beam itself would hang."""
    if failure.thread is None or failure.thread.name != "run_worker":
        threading.__excepthook__(failure)
        return
    logging.error(
        "A worker process was killed, by the system or by code that %s calls: %s. Use --workers=1 to find the file "
        "that it was processing.",
        FUNCTION,
        failure.exc_value,
    )
    os._exit(1)


@contextlib.contextmanager
def _progress(job: PreparationJob, groups: Sequence[Group]) -> Iterator[None]:
    """Logs the progress of all workers every 5 seconds, based on the manifest, for the duration of the block."""
    manifest = Manifest(job.output)
    total = sum(len(group.files) for group in groups)
    stopped = threading.Event()

    def log() -> None:
        done = manifest.done()
        files = sum(len(group.files) for group in groups if group.number in done)
        logging.info("Prepared %d of %d files (%d %%).", files, total, 100 * files // total)

    def watch() -> None:
        while not stopped.wait(_PROGRESS_SECONDS):
            log()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopped.set()
        watcher.join()
        log()
