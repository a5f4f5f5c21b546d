"""The run record `run.json` in the model run folder: code, data, options, durations and outcome of a run.

Progress, the printed summary, artifact properties and reports are views of it. It is written when the run begins and
again when it ends, in success, failure or interruption. A record that still has the status "running" after its process
has ended is of a killed run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from absl import logging

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.json_data import read_json
from ..runtime.logs.exceptions import describe, is_from_module, message_of
from ..runtime.logs.redaction import masked, masked_text
from ..runtime.process.identity import ProcessIdentity
from ..runtime.process.preemption import Preempted
from ..runtime.process.termination import Terminated
from .run_json import RunJson

FILE_NAME = "run.json"
TASKS_DIR = "tasks"  # records of the cluster tasks other than the chief
RUNNING, SUCCEEDED, FAILED, INTERRUPTED = "running", "succeeded", "failed", "interrupted"
UNSUCCESSFUL = (FAILED, INTERRUPTED)
# Arguments that differ between any two runs, and are no difference in what is trained.
RUN_SPECIFIC_ARGUMENTS = (
    *("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir", "working_dir"),
    *("schema_file", "transform_output", "is_chief", "worker_index", "num_workers"),
)
_TRACEBACK_CHARACTERS = 20_000  # from the end, which has the exception
_NUMBERS = re.compile(r"\[\n[-+.\deE,\s]+\]")  # number lists, to join into one line; JSON strings have no line breaks

_STACK = (
    "generic-trainer", "tensorflow", "keras", "tf-keras", "tensorflow-estimator", "tfx", "tensorflow-transform",
    "tensorflow-data-validation", "tensorflow-model-analysis", "ml-metadata", "apache-beam", "kfp", "ray", "numpy",
)  # fmt: skip


@dataclasses.dataclass
class RunRecord:
    """The record of a run. All times are UTC, all durations in seconds.

    Attributes:
      id: Unique id of the run.
      status: "running", "succeeded", "failed", or "interrupted" by Ctrl-C, SIGTERM or SIGHUP.
      started: Start time, as ISO 8601.
      arguments: fn_args and options; values that look like secrets are redacted (see `redaction.py`).
      process: The run's process: host, process id, and start time (see `ProcessIdentity`).
      code: The module: reference, path, fingerprint, files; the model run folder keeps a copy of the files in `source`.
      data: The files of `train_files` and of `eval_files` at the beginning, as `DataFiles.describe` returns them.
      changed_data: The input files that changed while they were trained on, and how: "a.csv (cut from 4 kB to 2 kB)".
      bad_records: With `on_bad_records=skip:N`: the `limit`, the `count` of skipped records, the `readers` that can
        skip records, and the first hundred `records` by `file`, `place` and `problem`, of all workers; otherwise empty.
      damaged_checkpoints: Damaged checkpoints, and damaged files beside them, that the run moved aside: the `path`, the
        `problem`, the folder that they were `moved_to`, and the `result`, such as "training resumes from ckpt-5".
      stack: Version of Python, and of each distribution that matters to a run.
      dialect: The dialect and the reason for it.
      keras: The Keras version and the reason for it; and the environment variables that the module sets, if any.
      phases: Seconds by phase: inputs, training (with load and run_fn), check, publish.
      profile: Time per step by activity, with `--profile`; otherwise empty.
      metrics: {"train": {...}, "eval": {...}} of the published weights; for a failed or interrupted run, the metrics
        logged or reported so far.
      metrics_from: By split, the origin of the metrics: the `source` ("returned" by run_fn, a "fit", an "evaluate",
        "evaluated again", "logged" or "unknown"; see `metrics_of_record.py`); for a fit also its number `fit` of
        `fits`, and the `epoch` of `epochs` whose weights were published, from 1; for an Estimator the `step`.
      evaluation_evidence: What training shows of the task: losses, labels and inputs of the last Keras fit, as
        `evaluation.evidence.TrainingEvidence`; empty without a Keras fit.
      evaluation_plan: How the model is evaluated, as `evaluation.plan.EvaluationPlan`; empty before the model's check.
      cluster: For a run on a cluster: number of `workers` in each try, `failures`, and `tries`, `restarts`,
        `redone_steps`, `goodput`, `speeds` and `stragglers` as the engine defines them; otherwise empty.
      check: The SavedModel check's report.
      rejected: Folder of outputs that were not published because the model failed the check, publishing failed, or the
        module raised after saving its model; otherwise "". With a `check`, the model in it is complete.
      unchecked: Whether the model in `rejected` was not checked, because a signal or an error ended the run before.
      resumed_model: Folder with the model of an earlier run that had not checked it, which this run has published
        without training; otherwise "".
      resources: Resource usage of training over time, as `run_json.UsageJson`; empty on a Ray cluster.
      parts: Results of worker callbacks that no callback of the calling process takes over, by their names.
      error: Type and message of the exception that ended the run, or None.
      traceback: Traceback of an exception of the module, from its first frame in the module's code.
      path: The record's file.
    """

    id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    status: str = RUNNING
    started: str = ""
    arguments: dict[str, object] = dataclasses.field(default_factory=dict)
    process: dict[str, object] = dataclasses.field(default_factory=dict)
    code: dict[str, Any] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    changed_data: Sequence[str] = ()
    bad_records: Mapping[str, object] = dataclasses.field(default_factory=dict)
    damaged_checkpoints: Sequence[Mapping[str, object]] = ()
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    dialect: dict[str, str] = dataclasses.field(default_factory=dict)
    keras: dict[str, Any] = dataclasses.field(default_factory=dict)
    phases: dict[str, float] = dataclasses.field(default_factory=dict)
    profile: dict[str, Any] = dataclasses.field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    metrics_from: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    evaluation_evidence: Mapping[str, object] = dataclasses.field(default_factory=dict)
    evaluation_plan: Mapping[str, object] = dataclasses.field(default_factory=dict)
    cluster: Mapping[str, object] = dataclasses.field(default_factory=dict)
    check: dict[str, Any] = dataclasses.field(default_factory=dict)
    rejected: str = ""
    unchecked: bool = False
    resumed_model: str = ""
    resources: Mapping[str, object] = dataclasses.field(default_factory=dict)
    parts: dict[str, object] = dataclasses.field(default_factory=dict)
    error: dict[str, str] | None = None
    traceback: str = ""
    path: str = dataclasses.field(default="", repr=False, compare=False)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Records the duration of the block, also if it raises."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = round(time.perf_counter() - begin, 3)

    @contextlib.contextmanager
    def written_to(self, folder: str, name: str = FILE_NAME) -> Iterator[None]:
        """Writes the record to a folder at the beginning and end of the block; records and re-raises its exception.

        A run takes over the record of an earlier run in the same folder: of two concurrent runs, the later one
        publishes. If a run is interrupted after its model was published and recorded as a success, its status stays
        "succeeded".
        """
        self.path = os.path.join(folder, name)
        self.started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        self.process = dataclasses.asdict(ProcessIdentity.current())
        self.stack = stack()
        self._write()
        try:
            yield
            self.status = SUCCEEDED
        except BaseException as error:
            if self.status != SUCCEEDED or isinstance(error, Exception):
                self._fail(error)
            raise
        finally:
            self.save_if_possible()

    def _fail(self, error: BaseException) -> None:
        self.status = status_after(error)
        message = message_of(error) or ("interrupted by Ctrl-C" if isinstance(error, KeyboardInterrupt) else "")
        self.error = {"type": type(error).__qualname__, "message": masked_text(message)}
        if self.status == FAILED and is_from_module(error):
            self.traceback = masked_text(describe(error)["traceback"])[-_TRACEBACK_CHARACTERS:]

    def save(self) -> None:
        """Writes the record's current state.

        Raises:
          InputError: When another run has begun in the folder; see `require_folder`.
        """
        self.require_folder()
        self._write()

    def save_if_possible(self) -> None:
        """Writes the record's current state, unless another run has begun in the folder.

        An OSError is logged as a warning: it must not discard a trained model or mask an earlier exception.
        """
        try:
            if not self._other_run():
                self._write()
        except OSError as error:
            logging.warning("Could not update the run record. %s", error)

    @contextlib.contextmanager
    def shown_in(self, folder: str) -> Iterator[None]:
        """Also keeps a copy of the record's current state in another folder during the block."""
        path = os.path.join(folder, FILE_NAME)
        if path == self.path:
            yield
            return
        file_io.write_text(path, self.to_json())
        try:
            yield
        finally:
            file_io.file_system(path).remove(path)

    def require_folder(self) -> None:
        """Checks that no other run has begun in the folder since.

        Raises:
          InputError: When another run has begun; only the later run publishes.
        """
        if other := self._other_run():
            raise InputError(
                f"{self.path}: another run started in this folder at {other.get('started')}, while this run, started "
                f"at {self.started}, was in progress. Both would publish to the same path, so this run stops. Use "
                "separate folders for each run; tasks of one cluster need their own TF_CONFIG."
            )

    def _other_run(self) -> Mapping[str, object]:
        """Returns the record of another run that has taken over the folder; otherwise {}."""
        there = read(*os.path.split(self.path))
        return there if there.get("id", self.id) != self.id else {}

    def _write(self) -> None:
        file_io.write_text(self.path, self.to_json())

    def to_json(self) -> str:
        """Returns the record as indented JSON text."""
        state = to_run_json(self)
        text = json.dumps(state, indent=2, default=str)
        return _NUMBERS.sub(lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"


def to_run_json(record: RunRecord) -> RunJson:
    """Returns a record's fields in the form that `read` returns."""
    state = dataclasses.asdict(record)
    del state["path"]
    state["keras"] = masked(state["keras"])
    return cast("RunJson", state)


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception means Ctrl-C or a termination signal."""
    return isinstance(error, (KeyboardInterrupt, Terminated, Preempted))


def status_after(error: BaseException) -> str:
    """Returns the status of a run that ended with an exception: INTERRUPTED or FAILED."""
    return INTERRUPTED if is_interrupt(error) else FAILED


def read(folder: str, name: str = FILE_NAME) -> RunJson:
    """Returns the record in a folder, or {} when it is missing or is no record of a run; see `read_checked`."""
    try:
        return read_checked(folder, name)
    except InputError:
        return {}


def read_checked(folder: str, name: str = FILE_NAME) -> RunJson:
    """Returns the record in a folder, of this or any earlier release.

    Raises:
      InputError: When it is missing, is not JSON, or a field has another type than in `RunJson`; names file and field.
    """
    path = os.path.join(folder, name)
    if not file_io.exists(path):
        raise InputError(f"The run record {path} does not exist.")
    return read_json(path, RunJson, "The run record")


def status_of(folder: str, name: str = FILE_NAME) -> str | None:
    """Returns the status of the run recorded in a folder, or None without a record."""
    return read(folder, name).get("status")


def has_trained(folder: str) -> bool:
    """Whether `run_fn` returned in the run recorded in a folder, even if the run failed afterwards."""
    return is_trained(read(folder).get("phases", {}))


def is_trained(phases: Mapping[str, float]) -> bool:
    """Whether the phases of a run show that `run_fn` has returned."""
    return "training/run_fn" in phases


def stack() -> dict[str, str]:
    """Returns the versions of Python and of the installed distributions that matter to a run."""
    versions = {"python": platform.python_version()}
    for name in _STACK:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
