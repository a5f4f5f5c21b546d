"""Observes the training for the metrics of the weights that it publishes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...monitoring.event_files import from_event_files
from ...monitoring.metrics import merge_metrics, sizes_of_event_files
from ...saved_models.staging import Staging
from ...training.worker_callbacks import WorkerCallback
from . import metrics_of_record

if TYPE_CHECKING:
    from ...engines.training_request import TrainingRequest
    from ...monitoring.metrics import Metrics
    from .metrics_of_record import Origins


class MetricsOfRecord(WorkerCallback):
    """Observes fits and Estimators."""

    order = 40  # imports Estimators before the next callbacks look for them

    def __init__(self, request: TrainingRequest) -> None:
        super().__init__(request)
        self._earlier = sizes_of_event_files(request.fn_args.model_run_dir)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Observes them."""
        with metrics_of_record.observed(self.request.source.files, self.request.fn_args) as self._observations:
            yield

    def result(self, returned: object) -> tuple[Metrics, Origins]:
        """Returns the metrics and their origins."""
        args = self.request.fn_args
        logged = from_event_files(args.model_run_dir, self._earlier)
        if staging := Staging.of(args.serving_model_dir):  # a module may log beside its model
            logged = merge_metrics(from_event_files(staging.path), logged)
        return self._observations.metrics(returned, logged, self.dialect.eval_remedies)
