"""The engine of a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..base import Engine, Place, WorkerStart
from ..cluster_options import worker_range
from ..local import LocalEngine
from ..tf_config.engine import evaluate_estimator
from . import driver

if TYPE_CHECKING:
    from ...options import TrainingOptions
    from ...training.run_state import Run


class RayEngine(LocalEngine):
    """Runs the worker in each of a cluster's processes; this process waits for them, and checks the model here."""

    def __init__(self, options: TrainingOptions) -> None:
        super().__init__(options)
        workers = worker_range(options.workers)[1]
        self.place = Place(
            fit_workers=workers,
            in_cluster=True,
            is_remote=True,
            shares_batches=workers > 1 and not options.ps,
        )

    def require_ready(self) -> None:
        """Checks that Ray is installed, and that the cluster's address answers."""
        driver.require_reachable(self.options)

    def serving(self, run: Run) -> contextlib.AbstractContextManager[object]:
        """Keeps the run, to record the cluster even if the training raises."""
        self._run = run
        return super().serving(run)

    def execute(self, start: WorkerStart) -> Mapping[str, Any]:
        """Runs the worker on the cluster; `on_start` is not called, as its processes may be on other machines."""
        result = driver.run(
            start.worker,
            start.request,
            self.options,
            environment=start.variables,
            model_run=self._run.folders.model_run_dir,
        )
        self._run.record.cluster = result["cluster"]
        if "raised" in result:
            raise result["raised"]
        return result

    def finish(self, run: Run, execute_again: Callable[[Engine], object]) -> None:
        """Evaluates an Estimator's model that the chief did not export."""
        evaluate_estimator(run, execute_again)
