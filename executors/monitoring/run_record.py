"""The one record of a run, `run.json` in the model run: what ran, on what, how long, with what outcome.

Progress, the printed summary, artifact properties and reports are views of it. It is written when the
run begins and again when it ends, however that is, so that a killed run is told from a finished one.
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
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from absl import logging

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.logs.exceptions import describe, is_of_the_module, message_of
from ..runtime.logs.redaction import masked_text
from ..runtime.process.identity import ProcessIdentity
from ..runtime.process.preemption import Preempted, Terminated
from . import display
from .notebook_html import record_table

if TYPE_CHECKING:
    from .run_json import RunJson

FILE_NAME = "run.json"
TASKS_DIR = "tasks"  # records of a cluster's other tasks
RUNNING, SUCCEEDED, FAILED, INTERRUPTED = "running", "succeeded", "failed", "interrupted"
UNSUCCESSFUL = (FAILED, INTERRUPTED)
_TRACEBACK_CHARACTERS = 20_000  # the end, where it says what happened
_NUMBERS = re.compile(r"\[\n[-+.\deE,\s]+\]")  # a list of numbers: on one line; texts have no line breaks

_STACK = (
    "generic-trainer", "tensorflow", "keras", "tf-keras", "tensorflow-estimator", "tfx", "tensorflow-transform",
    "tensorflow-data-validation", "tensorflow-model-analysis", "ml-metadata", "apache-beam", "kfp", "ray", "numpy",
)  # fmt: skip


@dataclasses.dataclass
class RunRecord:
    """Everything that is known of one run. All times are UTC, all durations seconds.

    Attributes:
      id: Another one for every run.
      status: "running", "succeeded", "failed", or "interrupted" by Ctrl-C, SIGTERM or SIGHUP.
      started: When, as ISO 8601.
      arguments: fn_args and options; what looks like a secret is masked (see `redaction.py`).
      process: Of whom the run is: host, number, and start of the process (see `ProcessIdentity`).
      code: The module: reference, path, fingerprint, files; of their texts the model run keeps a copy in `source`.
      data: What `train_files` and `eval_files` were: `data_of` each.
      bad_records: With `on_bad_records=skip:N`: the `limit`, the `count` of records that were left out, the `readers`
        that would leave some out, and the first hundred `records` by `file`, `place` and `problem`, of all workers;
        else empty.
      stack: Versions by distribution, and Python's.
      dialect: The dialect and why it was chosen.
      keras: The Keras version and why it was chosen.
      phases: Seconds by phase: inputs, training (of it load and run_fn), check, publish.
      profile: Where a step's time went, with `--profile`; empty without.
      metrics: {"train": {...}, "eval": {...}} of the published weights; of a run that failed or was interrupted, what
        it had logged or reported by then.
      metrics_from: By split, where its metrics come from: the `source` ("returned" by run_fn, a "fit", an "evaluate",
        "evaluated again", "logged" or "unknown"; see `metrics_of_record.py`), of a fit also its number `fit` of
        `fits`, and the `epoch` of `epochs` whose weights were published, from 1; of an Estimator the `step`.
      evaluation_evidence: What training shows of the task: losses, labels and inputs of the last Keras fit, as
        `evaluation.evidence.TrainingEvidence`; empty where no fit was seen.
      evaluation_plan: How the model is evaluated, as `evaluation.plan.EvaluationPlan`; empty before the model's check.
      cluster: Of a run on a cluster: how many `workers` took part in each try, `failures`, and `tries`, `restarts`,
        `redone_steps`, `goodput`, `speeds` and `stragglers` as `throughput.py` defines them; else empty.
      check: The SavedModel check's report.
      rejected: Where the module's outputs are kept when they are not published: the model did not pass the check,
        publishing failed, or the module raised after saving its model; else "". With a `check` the model is complete.
      resources: What training took of the machine over time, as `resources.Usage` has it; empty on a Ray cluster.
      error: Type and message of what ended the run, or None.
      traceback: Of an exception of the module's own, from where its code begins.
      path: The record's own file.
    """

    id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    status: str = RUNNING
    started: str = ""
    arguments: dict[str, object] = dataclasses.field(default_factory=dict)
    process: dict[str, object] = dataclasses.field(default_factory=dict)
    code: dict[str, Any] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    bad_records: Mapping[str, object] = dataclasses.field(default_factory=dict)
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    dialect: dict[str, str] = dataclasses.field(default_factory=dict)
    keras: dict[str, str] = dataclasses.field(default_factory=dict)
    phases: dict[str, float] = dataclasses.field(default_factory=dict)
    profile: dict[str, Any] = dataclasses.field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    metrics_from: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    evaluation_evidence: Mapping[str, object] = dataclasses.field(default_factory=dict)
    evaluation_plan: Mapping[str, object] = dataclasses.field(default_factory=dict)
    cluster: Mapping[str, object] = dataclasses.field(default_factory=dict)
    check: dict[str, Any] = dataclasses.field(default_factory=dict)
    rejected: str = ""
    resources: Mapping[str, object] = dataclasses.field(default_factory=dict)
    error: dict[str, str] | None = None
    traceback: str = ""
    path: str = dataclasses.field(default="", repr=False, compare=False)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a block; a block that raises is timed, too."""
        begin = time.perf_counter()
        try:
            with display.current().phase(name):
                yield
        finally:
            self.phases[name] = round(time.perf_counter() - begin, 3)

    @contextlib.contextmanager
    def written_to(self, folder: str, name: str = FILE_NAME) -> Iterator[None]:
        """Keeps the record in a folder while a block runs; the block's exception is recorded and passed on.

        A run that begins in a folder takes it over from one that is there: of two, the later one publishes. An
        interrupt of a run that is recorded as a success already, because its model is published, leaves it that.
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
        if self.status == FAILED and is_of_the_module(error):
            self.traceback = masked_text(describe(error)["traceback"][-_TRACEBACK_CHARACTERS:])

    def save(self) -> None:
        """Writes the record as it stands.

        Raises:
          InputError: As `require_folder`.
        """
        self.require_folder()
        self._write()

    def save_if_possible(self) -> None:
        """Writes the record as it stands, unless another run has begun in the folder.

        A disk that refuses is a warning: it must not take a trained model away, nor hide what went wrong before.
        """
        try:
            if not self._other_run():
                self._write()
        except OSError as error:
            logging.warning("The run's record is not up to date. %s", error)

    @contextlib.contextmanager
    def shown_in(self, folder: str) -> Iterator[None]:
        """Shows the record as it stands in another folder, too, while a block runs."""
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
        """Makes sure that no other run has begun in the folder since.

        Raises:
          InputError: When one has: it is that one's outputs that count.
        """
        if other := self._other_run():
            raise InputError(
                f"{self.path}: another run has begun here at {other.get('started')}, while this one was at work since "
                f"{self.started}. Both would publish to the same place, so this one ends. Give each run folders of its "
                "own; if they are the tasks of one cluster, each needs its TF_CONFIG."
            )

    def _other_run(self) -> Mapping[str, object]:
        """Returns the record of a run that has taken the folder over; {} when it is still this one's."""
        there = read(*os.path.split(self.path))
        return there if there.get("id", self.id) != self.id else {}

    def _write(self) -> None:
        file_io.write_text(self.path, self.to_json())

    def to_json(self) -> str:
        """Returns the record as indented JSON text."""
        state = as_read(self)
        text = json.dumps(state, indent=2, default=str)
        return _NUMBERS.sub(lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"

    def _repr_html_(self) -> str:
        return record_table(as_read(self))


def as_read(record: RunRecord) -> RunJson:
    """Returns a record's fields, as `read` gives them."""
    state = dataclasses.asdict(record)
    del state["path"]
    return cast("RunJson", state)


def is_interrupt(error: BaseException) -> bool:
    """Returns whether an exception stands for Ctrl-C or a signal that asked the run to end."""
    return isinstance(error, (KeyboardInterrupt, Terminated, Preempted))


def status_after(error: BaseException) -> str:
    """Returns the status of a run that an exception ended: INTERRUPTED or FAILED."""
    return INTERRUPTED if is_interrupt(error) else FAILED


def read(folder: str, name: str = FILE_NAME) -> RunJson:
    """Returns the record in a folder, or {} when there is none that can be read."""
    path = os.path.join(folder, name)
    if not file_io.exists(path):
        return {}
    try:
        record = json.loads(file_io.read_text(path))
    except ValueError:
        return {}
    return cast("RunJson", record) if isinstance(record, dict) else {}


def status_of(folder: str, name: str = FILE_NAME) -> str | None:
    """Returns the status of the run recorded in a folder, or None when no run is."""
    return read(folder, name).get("status")


def has_trained(folder: str) -> bool:
    """Returns whether the run recorded in a folder ended, or broke off, after its module had trained."""
    return "training/run_fn" in read(folder).get("phases", {})


def stack() -> dict[str, str]:
    """Returns the versions of what a run stands on, and Python's; what is not installed is left out."""
    versions = {"python": platform.python_version()}
    for name in _STACK:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
