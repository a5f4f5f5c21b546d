"""The record of a past run, independent of its source (`run.json` or ML Metadata)."""

from __future__ import annotations

import dataclasses
import functools
import os

from ...executors.monitoring import run_record
from ...executors.monitoring.run_record import RunRecord
from ...executors.runtime.files import file_io
from .metadata_url import display_url

RUNNING, SUCCEEDED, FAILED = run_record.RUNNING, run_record.SUCCEEDED, run_record.FAILED
INTERRUPTED, CACHED = run_record.INTERRUPTED, "cached"
STATUSES = (SUCCEEDED, FAILED, RUNNING, INTERRUPTED, CACHED)


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
        place = self.model_run
        has_record = place is not None and file_io.exists(os.path.join(place, run_record.FILE_NAME))
        return run_record.read_checked(place) if place is not None and has_record else RunRecord.missing()

    def to_json(self) -> dict[str, object]:
        """Returns the fields as JSON values, without the database's password."""
        return {**dataclasses.asdict(self), "metadata": display_url(self.metadata)}
