"""The record of a past run, independent of its source (`run.json` or ML Metadata), and the selection of runs.

run = read_run("out/model_run")
metric_of(run, "eval/auc")
Selection(module="taxi_*", sort="auc", limit=10).first(runs)
"""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import functools
import math
import os
from collections.abc import Iterable

from ...executors.errors import InputError
from ...executors.monitoring import run_record
from ...executors.monitoring.run_record import FAILED, INTERRUPTED, RUNNING, SUCCEEDED, RunRecord
from ...executors.runtime.files import file_io
from .metadata_url import display_url
from .metric_comparison import is_higher_better

CACHED = "cached"
STATUSES = (SUCCEEDED, FAILED, RUNNING, INTERRUPTED, CACHED)
MODEL_RUN, MODEL = "model_run", "model"  # folders in the --output of `train`


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run, in or outside of a pipeline.

    Attributes:
      id: ID in `run.json`; without that file (the execution failed or was cached) the execution's UUID in ML Metadata.
      status: "succeeded", "failed", "running", "interrupted" (by a signal, or its process was killed) or
        "cached" (a pipeline reused an earlier run's model).
      started: Start time, ISO 8601, UTC.
      seconds: Duration in seconds; None while it runs, and if its process was killed.
      module: The module reference given by the user.
      fingerprint: SHA-256 of the module's files; "" if unknown.
      dialect: The module's dialect; "" if unknown.
      metrics: {"train": {...}, "eval": {...}}, as logged during training.
      model_run: Folder with `run.json` and TensorBoard logs; None if there is none, or if it was replaced.
      model: Folder of the model (in a pipeline, of the Model artifact); None without a model.
      pushed_model: Folder of the pushed model; None if it was not pushed.
      blessed: Whether the Evaluator blessed the model; None without an Evaluator.
      evaluation: Folder of TFMA's results; None without an Evaluator.
      error: {"type": ..., "message": ...} of the exception that ended the run; None if there was none or it was not
        recorded.
      pipeline: The pipeline's name; "" outside of a pipeline.
      pipeline_run: The name of the pipeline run, such as "20261122-184013.046332"; "" outside of a pipeline.
      metadata: The ML Metadata store, as for `connection_config`; "" outside of a pipeline.
      execution: ID of the Trainer's execution in ML Metadata; None outside of a pipeline.
      model_artifact: ID of the Model artifact in ML Metadata; None without a model or a pipeline.
    """

    id: str
    status: str
    started: str
    seconds: float | None = None
    module: str = ""
    fingerprint: str = ""
    dialect: str = ""
    metrics: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    model_run: str | None = None
    model: str | None = None
    pushed_model: str | None = None
    blessed: bool | None = None
    evaluation: str | None = None
    error: dict[str, str] | None = None
    pipeline: str = ""
    pipeline_run: str = ""
    metadata: str = dataclasses.field(default="", repr=False)  # a database URL may contain a password
    execution: int | None = None
    model_artifact: int | None = None

    @functools.cached_property
    def record(self) -> RunRecord:
        """The run's record; without an `id` if there is none.

        Raises:
          InputError: When `run.json` is not a run record; names the field.
          OSError: When it cannot be read.
        """
        if self.model_run is None or not file_io.exists(os.path.join(self.model_run, run_record.FILE_NAME)):
            return RunRecord.missing()
        return run_record.read_checked(self.model_run)

    def to_json(self) -> dict[str, object]:
        """Returns the fields as JSON values, without the database's password."""
        return {**dataclasses.asdict(self), "metadata": display_url(self.metadata)}


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which runs to return, and in which order.

    Attributes:
      module: Part of the module's name, or a pattern such as "taxi_*"; "" for all.
      status: One of STATUSES; "" for all.
      sort: A metric as for `metric_of`: best first, and runs without it last; "" for newest first.
      limit: Maximum number of runs; 0 for all.
    """

    module: str = ""
    status: str = ""
    sort: str = ""
    limit: int = 0

    def includes(self, run: Run) -> bool:
        """Whether module and status of a run are selected."""
        return self.status in ("", run.status) and fnmatch.fnmatch(run.module, f"*{self.module}*")

    def first(self, runs: Iterable[Run]) -> list[Run]:
        """Sorts runs, and returns at most `limit` of them."""
        ordered = sorted(runs, key=lambda run: (_time(run.started), run.execution or 0), reverse=True)
        if self.sort:
            sign = 1 if is_higher_better(self.sort) is False else -1
            ordered.sort(key=lambda run: _rank(metric_of(run, self.sort), sign))
        return ordered[: self.limit or None]


def _rank(value: float | None, sign: int) -> tuple[bool, float]:
    return (True, 0.0) if value is None or math.isnan(value) else (False, sign * value)


def _time(started: str) -> float:
    try:
        return datetime.datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError, OSError):  # no time, or one that the platform cannot represent
        return 0.0


def metric_of(run: Run, metric: str) -> float | None:
    """Returns a run's metric; None if it has none.

    Args:
      run: The run.
      metric: "auc" (of the eval split, or else of the train split), "eval/auc" or "train/auc".
    """
    split, separator, name = metric.partition("/")
    if separator and split in run.metrics:
        return run.metrics[split].get(name)
    return next(
        (run.metrics[split][metric] for split in ("eval", "train") if metric in run.metrics.get(split, {})), None
    )


def read_run(folder: str) -> Run:
    """Returns the run that is recorded in a folder's `run.json`.

    Raises:
      InputError: When `run.json` is not a run record.
      OSError: When it cannot be read.
    """
    record = run_record.read_checked(folder)
    if missing := [name for name in ("id", "status", "started") if not getattr(record, name)]:
        raise InputError(f"{os.path.join(folder, run_record.FILE_NAME)} is not a run record: {missing[0]} is missing.")
    wholes = [took for phase, took in record.phases.items() if "/" not in phase]  # without parts, as "training/load"
    return Run(
        id=record.id,
        status=INTERRUPTED if record.status == RUNNING and record.process.is_gone() else record.status,
        started=record.started,
        seconds=None if record.status == RUNNING else round(sum(wholes), 3),
        module=record.code.get("reference", ""),
        fingerprint=record.code.get("fingerprint", ""),
        dialect=record.dialect.get("name", ""),
        metrics=record.metrics,
        model_run=folder,
        model=_model_of(folder, record) if record.status == SUCCEEDED else None,
        error=record.error,
    )


def _model_of(model_run: str, record: RunRecord) -> str | None:
    """Returns the folder of a run's model; None if a later run of `train` replaced it."""
    name = os.path.basename(model_run)
    beside = os.path.join(file_io.parent(model_run), MODEL)
    if name == MODEL_RUN and file_io.isdir(beside):
        return beside
    if name.startswith(f"{MODEL_RUN}."):
        return None
    serving = record.arguments.get("serving_model_dir")
    return file_io.parent(serving) if serving and file_io.isdir(serving) else None
