"""Runs a whole training cluster on this machine, for testing: one subprocess per task, each with its TF_CONFIG.

Usage:

    record = train_on_cluster({"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}, "taxi.py", fn_args, options)
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypedDict

from absl import logging

from ...distributed.tf_config import CHIEF, MASTER, VARIABLE, WORKER, ClusterTask
from ...errors import LostTaskError, ProcessDiedError
from ...fn_args import FnArgs
from ...monitoring import run_record
from ...monitoring.run_record import RunRecord
from ...options import TrainingOptions
from ...training.preconditions import find_inputs, require_outputs
from ...training.published_model import note_published_model
from ...training.run import train
from ...training.run_lock import hold_run_lock
from .. import child_process
from ..base import Engine, Place


class TaskRequest(TypedDict):
    """The arguments of `train` for one task's subprocess, as JSON values."""

    module: str
    fn_args: dict[str, object]
    options: Mapping[str, object]
    function: str | None


def train_on_cluster(
    counts: Mapping[str, int],
    module: str,
    fn_args: FnArgs,
    options: TrainingOptions | None = None,
    *,
    function: str | None = None,
    on_start: Callable[[], object] = lambda: None,
) -> RunRecord:
    """Trains a module on a cluster of local subprocesses, with the task's name as prefix of their output lines.

    Args:
      counts: Number of tasks by role.
      module: See `run.train`.
      fn_args: See `run.train`.
      options: See `run.train`.
      function: See `run.train`.
      on_start: Called when every precondition holds, before the first write.

    Returns:
      The chief's run record.

    Raises:
      LostTaskError: When a task was killed; all other tasks are ended.
      Exception: The exception of the first task that failed; all other tasks are ended.
    """
    options = options or TrainingOptions()
    training = sum(counts.get(role, 0) for role in (CHIEF, MASTER, WORKER))
    engine = Engine(options, Place(fit_workers=training))
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        ready = find_inputs(module, fn_args, engine, scratch, function=function, checkpoint_root=None)
    with hold_run_lock(fn_args.model_run_dir):
        require_outputs(fn_args)
        on_start()
    ready.digests.save()  # so that the tasks do not read all data again
    jobs = _addresses(counts)
    tasks = [ClusterTask(role, index, jobs) for role in jobs for index in range(counts[role])]
    logging.info("Starting %s.", ", ".join(map(str, tasks)))
    request: TaskRequest = {
        "module": module,
        "fn_args": fn_args.to_json(),
        "options": options.to_exec_properties(),
        "function": function,
    }
    stop = threading.Event()
    before = run_record.read(fn_args.model_run_dir).id

    def is_published() -> bool:
        chief = run_record.read(fn_args.model_run_dir)
        return chief.id != before and chief.status == run_record.SUCCEEDED

    def run(task: ClusterTask) -> RunRecord:
        environment = {VARIABLE: task.to_tf_config()}
        try:
            state = child_process.run(
                __name__,
                request,
                environment=environment,
                prefix=f"[{task}] ",
                until=stop.is_set,
                what=str(task),
            )
        except ProcessDiedError as error:
            if not error.was_killed:
                raise
            raise LostTaskError(f"{task} at {task.address} was lost: {error}") from error
        return RunRecord.from_json(state, f"The record of the {task}")

    with (
        note_published_model(lambda: fn_args.serving_model_dir if is_published() else ""),
        concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool,
        _set_at_exit(stop),
    ):
        runs = [pool.submit(run, task) for task in tasks]
        for finished in concurrent.futures.as_completed(runs):
            finished.result()  # raises if the task failed, which sets `stop`
        [record] = [done.result() for task, done in zip(tasks, runs, strict=True) if task.is_chief]
        return record


def execute(request: TaskRequest) -> dict[str, object]:
    """Runs one task in its own subprocess; returns its run record as JSON values."""
    options = TrainingOptions.from_exec_properties(request["options"])
    fn_args = FnArgs.from_json(request["fn_args"])
    return train(request["module"], fn_args, options, function=request["function"]).to_json()


@contextlib.contextmanager
def _set_at_exit(stop: threading.Event) -> Iterator[None]:
    try:
        yield
    finally:
        stop.set()


def _addresses(counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Returns a local address for each task; the ports stay bound until all addresses are chosen."""
    with contextlib.ExitStack() as sockets:
        return {role: tuple(_free_address(sockets) for _ in range(count)) for role, count in counts.items()}


def _free_address(sockets: contextlib.ExitStack) -> str:
    listener = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    listener.bind(("localhost", 0))
    return f"localhost:{listener.getsockname()[1]}"
