"""Coordinates the tasks of a cluster through their run records in the shared model run folder.

The chief's record is `run.json`, that of every other task `tasks/TYPE-INDEX.json`. Only the chief checks and publishes
the model. An evaluator evaluates until the chief has trained, and the chief waits for it. In TensorFlow, parameter
servers never exit by themselves; here they end when all tasks that they serve have ended.

Usage, in each task:

    name = record_name(task)
    over = StopCondition(task, model_run_dir)    # for a parameter server: over() is True when it may exit
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from absl import logging

from ...distributed.tf_config import EVALUATOR, PS, WORKER, ClusterTask
from ...errors import LostTaskError, ProcessDiedError, TrainingProcessError
from ...monitoring import run_record
from ...monitoring.metrics import Metrics
from ...monitoring.run_record import RunRecord
from ...runtime.files import file_io

_ENDED = (run_record.SUCCEEDED, *run_record.UNSUCCESSFUL)
_POLL_SECONDS = 1.0
_WORKERS_TIMEOUT = 45.0  # seconds that workers with parameter servers have after the chief has ended
_SERVERS_TIMEOUT = 55.0  # longer: workers without parameter servers fail
EVALUATOR_TIMEOUT = 600.0  # seconds without new events until the chief stops waiting for the evaluator


def record_name(task: ClusterTask | None) -> str:
    """Returns the file name of a task's record, relative to the model run folder."""
    if task is None or task.is_chief:
        return run_record.FILE_NAME
    return _task_record(task.type, task.index)


def delete_finished_tasks(model_run_dir: str) -> None:
    """Removes the task records of an earlier run; called by the chief when it begins."""
    folder = os.path.join(model_run_dir, run_record.TASKS_DIR)
    for name in file_io.listdir(folder) if file_io.isdir(folder) else ():
        # Another task may be writing its record, to a temporary file beside it.
        if name.endswith(".json") and run_record.status_of(folder, name) in _ENDED:
            file_io.file_system(folder).remove(os.path.join(folder, name))


def has_evaluator(task: ClusterTask, model_run_dir: str) -> bool:
    """Whether the cluster has an evaluator: TF_CONFIG lists one, or one has written a record."""
    return EVALUATOR in task.jobs or bool(run_record.read(model_run_dir, _task_record(EVALUATOR, 0)).status)


class StopCondition:
    """Whether a task other than the chief may end: `over()`.

    An evaluator ends when the chief's run has ended, and every task when that run was unsuccessful. A parameter server
    also waits for the workers, which have `_WORKERS_TIMEOUT` seconds. Without parameter servers, a worker trains to its
    own end. A run that had already ended before is an earlier run and is ignored.

    Args:
      task: The task.
      model_run_dir: The model run folder, with the chief's record.
    """

    def __init__(self, task: ClusterTask, model_run_dir: str) -> None:
        self._task, self._folder = task, model_run_dir
        self._earlier = _finished_chief_record(model_run_dir)
        self._chief = RunRecord.missing()
        self._since: float | None = None

    def __call__(self) -> bool:
        """Returns whether the task may end now."""
        chief = _finished_chief_record(self._folder)
        if not chief.status or chief == self._earlier:
            return False
        self._chief = chief
        if chief.status in run_record.UNSUCCESSFUL or self._task.type == EVALUATOR:
            return True
        if chief.resumed_model:  # the chief did not train, so the others cannot
            return True
        self._since = self._since or time.monotonic()
        waited = time.monotonic() - self._since
        if self._task.type == PS:
            return waited > _SERVERS_TIMEOUT or _all_workers_finished(self._task, self._folder)
        return PS in self._task.jobs and waited > _WORKERS_TIMEOUT

    @property
    def has_failed(self) -> bool:
        """Whether the task may end because the chief's run was unsuccessful."""
        return self._chief.status in run_record.UNSUCCESSFUL

    def require_success(self) -> None:
        """Checks that the chief has not failed; called by a task that ended because the run was over.

        The record that ended the task counts: a chief that was started again meanwhile has replaced it by its own.

        Raises:
          TrainingProcessError: When the chief failed or was interrupted; contains the chief's error.
        """
        if self.has_failed:
            raise task_error(f"chief at {self._task.chief_address}", self._chief)


def task_error(task: str, record: RunRecord) -> TrainingProcessError:
    """Returns the error for the other tasks of a cluster, from the record of one that was unsuccessful.

    Args:
      task: The task's name and address.
      record: Its record.

    Returns:
      A LostTaskError if the task was killed or interrupted; its own error if it names a lost task.
    """
    error = record.error or {}
    kind, message = error.get("type"), error.get("message")
    if kind == LostTaskError.__name__:
        return LostTaskError(message)
    is_interrupted = record.status == run_record.INTERRUPTED
    text = f"The {task} {'was interrupted' if is_interrupted else 'failed'}: {kind}: {message}"
    return (LostTaskError if is_interrupted or kind == ProcessDiedError.__name__ else TrainingProcessError)(text)


def await_evaluator(model_run_dir: str, require_evaluator: Callable[[], object] = lambda: None) -> Metrics:
    """Waits until the evaluator has finished, and returns its metrics.

    Args:
      model_run_dir: The model run folder.
      require_evaluator: Called about once a second; raises when the evaluator was lost.

    Raises:
      TrainingProcessError: When the evaluator failed, or when no event file grew for `EVALUATOR_TIMEOUT` seconds.
    """
    name = _task_record(EVALUATOR, 0)
    logging.info("Training is complete; waiting for the evaluator.")
    last_sizes, end = None, time.monotonic() + EVALUATOR_TIMEOUT
    while time.monotonic() < end:
        require_evaluator()
        record = run_record.read(model_run_dir, name)
        if record.status == run_record.SUCCEEDED:
            return dict(record.metrics)
        if record.status in run_record.UNSUCCESSFUL:
            raise task_error("evaluator", record)
        if (now := _event_file_sizes(model_run_dir)) != last_sizes:
            last_sizes, end = now, time.monotonic() + EVALUATOR_TIMEOUT
        time.sleep(_POLL_SECONDS)
    raise TrainingProcessError(
        f"The evaluator wrote nothing for {EVALUATOR_TIMEOUT:g} s after training. Its record is expected at "
        f"{os.path.join(model_run_dir, name)}. Start the evaluator, or remove it from the cluster in TF_CONFIG."
    )


def _task_record(kind: str, index: int) -> str:
    return os.path.join(run_record.TASKS_DIR, f"{kind}-{index}.json")


def _finished_chief_record(model_run_dir: str) -> RunRecord:
    """Returns the chief's record if its run has ended, one without `id` otherwise."""
    record = run_record.read(model_run_dir)
    return record if record.status in _ENDED else RunRecord.missing()


def _all_workers_finished(task: ClusterTask, model_run_dir: str) -> bool:
    workers = [ClusterTask(WORKER, index, task.jobs) for index in range(len(task.jobs.get(WORKER, ())))]
    return all(run_record.status_of(model_run_dir, record_name(worker)) in _ENDED for worker in workers)


def _event_file_sizes(model_run_dir: str) -> list[tuple[str, int]]:
    """Returns the event files of a run with their sizes, which grow while an evaluator works."""
    names = [name for name in file_io.files_below(model_run_dir) if "tfevents" in name]
    return [(name, file_io.size_of(os.path.join(model_run_dir, name))) for name in names]
