"""The engine of a process that TF_CONFIG makes a task of a cluster: it runs this task, on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...distributed.tf_config import CHIEF, EVALUATOR, PS, VARIABLE, ClusterTask, task_from_environment
from ...errors import InputError
from ...options import LOCAL
from ...runtime.process.run_environment import inherited_environment
from ..base import Engine, Place, WorkerStart
from ..local import LocalEngine
from . import cluster_records
from .task_watch import TaskWatch

if TYPE_CHECKING:
    from ...options import TrainingOptions
    from ...training.run_state import Run


class TaskEngine(LocalEngine):
    """Runs one task of a cluster.

    Args:
      options: The options.
      task: The task; by default that of TF_CONFIG.
    """

    def __init__(self, options: TrainingOptions, task: ClusterTask | None = None) -> None:
        super().__init__(options)
        self._task = task or _task_of_environment(options)
        self._watch: TaskWatch | None = None  # of the other tasks
        self.place = Place(
            name=str(self._task),
            is_chief=self._task.is_chief,
            worker_index=self._task.worker_index,
            num_workers=self._task.num_workers,
            fit_workers=self._task.num_workers,
            in_cluster=True,
            shares_batches=self._task.num_workers > 1 and PS not in self._task.jobs,
            cluster_id=self._task.cluster_id,
            record_name=cluster_records.record_name(self._task),
        )

    @contextlib.contextmanager
    def serving(self, run: Run) -> Iterator[None]:
        """Watches the other tasks; the chief first removes the records that they have left earlier."""
        folder = run.fn_args.model_run_dir
        if self.place.is_chief:
            cluster_records.delete_finished_tasks(folder)
        self._watch = TaskWatch(self._task, folder)
        with self._watch.watching(run.record.id):
            yield

    @property
    def until(self) -> Callable[[], bool] | None:
        """Whether the cluster needs this task no more."""
        return self._watch

    def execute(self, start: WorkerStart) -> Mapping[str, Any]:
        """Runs the worker with the task's TF_CONFIG.

        Raises:
          LostTaskError: If another task was lost.
          TrainingProcessError: If this task ended because the chief has failed.
        """
        start = dataclasses.replace(start, variables={**start.variables, **self._task.environment()})
        with self._watch.explained() if self._watch else contextlib.nullcontext():
            result = super().execute(start)
        if not result and self._watch:
            self._watch.require_success()
        return result

    def finish(self, run: Run, execute_again: Callable[[Engine], object]) -> None:
        """Waits for the cluster's evaluator; without one, evaluates an Estimator's model."""
        folder = run.folders.model_run_dir
        if self._watch and cluster_records.has_evaluator(self._task, folder):
            run.record.metrics |= cluster_records.await_evaluator(folder, self._watch.require_evaluator)
        else:
            evaluate_estimator(run, execute_again, self._task.jobs)


def _task_of_environment(options: TrainingOptions) -> ClusterTask:
    task = task_from_environment(inherited_environment())
    if task is None:
        raise InputError(f"{VARIABLE} is not set, so this process is no task of a cluster.")
    if options.engine != LOCAL:
        raise InputError(
            f"engine={options.engine!r}: {VARIABLE} already makes this process {task} of a cluster. Omit engine: the "
            "workers are already running."
        )
    task.require_free_port()
    if task.type == PS and not options.isolate:
        raise InputError(
            f"isolate=False: {task} of {VARIABLE} runs until it is ended, so it needs a subprocess. Omit isolate."
        )
    return task


def evaluate_estimator(
    run: Run, execute_again: Callable[[Engine], object], jobs: Mapping[str, tuple[str, ...]] | None = None
) -> None:
    """Evaluates and exports an Estimator's model, if the chief exported none, in a process that joins no cluster.

    Args:
      run: The run.
      execute_again: Runs the module again, with another engine.
      jobs: Addresses by role of the cluster.
    """
    if run.uses_estimators and not run.has_model():
        evaluator = ClusterTask(EVALUATOR, 0, jobs or {CHIEF: ("localhost:1",)})
        # The record in the evaluator's model run folder signals that training is over.
        with run.record.shown_in(run.folders.model_run_dir):
            execute_again(TaskEngine(run.options, evaluator))
