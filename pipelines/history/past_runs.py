"""What a run of the past is, wherever it was found."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from ...executors.monitoring import run_record
from ...executors.monitoring.notebook_html import small_table
from .metadata_store import shown

if TYPE_CHECKING:
    from ...executors.monitoring.run_json import ErrorJson, RunJson

RUNNING, SUCCEEDED, FAILED = run_record.RUNNING, run_record.SUCCEEDED, run_record.FAILED
INTERRUPTED, CACHED = run_record.INTERRUPTED, "cached"
STATUSES = (SUCCEEDED, FAILED, RUNNING, INTERRUPTED, CACHED)


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run, with or without a pipeline around it. Times are UTC.

    Attributes:
      id: That of `run.json`; of an execution that left none (it failed, or was cached) its UUID in ML Metadata.
      status: "succeeded", "failed", "running", "interrupted" (by a signal, or its process was killed) or
        "cached" (a pipeline took an earlier run's model).
      started: When, as ISO 8601.
      seconds: How long it took; None while it runs, and when its process was killed.
      module: What the user called the module.
      fingerprint: SHA-256 of the module's files; "" when it is not known.
      dialect: How the module is written; "" when it is not known.
      metrics: {"train": {...}, "eval": {...}}, as training logged them.
      model_run: Folder with `run.json` and TensorBoard's logs; None when there is none, or not any longer.
      model: Folder of the model (in a pipeline, of the Model artifact); None without one.
      pushed_model: Where the model was pushed; None when it was not.
      blessed: The Evaluator's verdict; None when there was none.
      evaluation: Folder of TFMA's results; None without an Evaluator.
      error: {"type": ..., "message": ...} of what ended it; None when nothing did, or ML Metadata doesn't know.
      pipeline: The pipeline's name; "" outside of one.
      pipeline_run: The name of the pipeline's run, such as "20261122-184013.046332"; "" outside of one.
      metadata: Where ML Metadata lies, as `connection_config` takes it; "" outside of a pipeline.
      execution: The Trainer's execution there; None outside of a pipeline.
      model_artifact: The Model's artifact there.
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
    error: ErrorJson | None = None
    pipeline: str = ""
    pipeline_run: str = ""
    metadata: str = dataclasses.field(default="", repr=False)  # a database's URL holds a password
    execution: int | None = None
    model_artifact: int | None = None

    @functools.cached_property
    def record(self) -> RunJson:
        """The content of `run.json`; {} when there is none."""
        return run_record.read(self.model_run) if self.model_run else {}

    def _repr_html_(self) -> str:
        rows = {
            "status": self.status,
            "started": self.started,
            "module": self.module,
            "model": self.model,
            "pushed model": self.pushed_model,
            "logs": self.model_run,
        }
        return small_table(f"Run {self.id[:8]}", rows, self.metrics)

    def to_json(self) -> dict[str, object]:
        """Returns the fields as JSON values, without the database's password."""
        return {**dataclasses.asdict(self), "metadata": shown(self.metadata)}
