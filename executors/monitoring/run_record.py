"""The run record `run.json` in the model run folder: code, data, options, durations and outcome of a run.

Progress, the printed summary, artifact properties and reports are views of it. It is written when the run begins and
again when it ends, in success, failure or interruption. A record that still has the status "running" after its process
has ended is of a killed run.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import functools
import importlib.metadata
import json
import os
import platform
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_origin

from absl import logging

from ..errors import InputError
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource
from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData, from_json, read_json
from ..runtime.logs.exceptions import describe, is_from_module, message_of
from ..runtime.logs.redaction import masked, masked_text
from ..runtime.process.identity import ProcessIdentity
from ..runtime.process.preemption import Preempted
from ..runtime.process.termination import Terminated
from .run_json import Arguments, CheckReport, ClusterJson

T = TypeVar("T")
FILE_NAME = "run.json"
TASKS_DIR = "tasks"  # records of the cluster tasks other than the chief
RUNNING, SUCCEEDED, FAILED, INTERRUPTED = "running", "succeeded", "failed", "interrupted"
UNSUCCESSFUL = (FAILED, INTERRUPTED)
# Arguments that differ between any two runs, and are no difference in what is trained.
RUN_SPECIFIC_ARGUMENTS = (
    *("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir", "working_dir"),
    *("schema_file", "transform_output", "is_chief", "worker_index", "num_workers"),
)
_UNWRITTEN = ("path", "_declared")
_TRACEBACK_CHARACTERS = 20_000  # from the end, which has the exception
_NUMBERS = re.compile(r"\[\n[-+.\deE,\s]+\]")  # number lists, to join into one line; JSON strings have no line breaks

_STACK = (
    "generic-trainer", "tensorflow", "keras", "tf-keras", "tensorflow-estimator", "tfx", "tensorflow-transform",
    "tensorflow-data-validation", "tensorflow-model-analysis", "ml-metadata", "apache-beam", "kfp", "ray", "numpy",
)  # fmt: skip


@dataclasses.dataclass
class RunRecord(JsonData):
    """The record of a run. All times are UTC, all durations in seconds.

    Attributes:
      id: Unique id of the run.
      status: "running", "succeeded", "failed", or "interrupted" by Ctrl-C, SIGTERM or SIGHUP.
      started: Start time, as ISO 8601.
      arguments: fn_args and options; values that look like secrets are redacted (see `redaction.py`).
      process: The run's process: host, process id, and start time (see `ProcessIdentity`).
      code: The module: reference, path, fingerprint, files; the model run folder keeps a copy of the files in `source`.
      stack: Version of Python, and of each distribution that matters to a run.
      dialect: The dialect and the reason for it.
      keras: The Keras version and the reason for it; and the environment variables that the module sets, if any.
      phases: Seconds by phase: inputs, training (with load and run_fn), check, publish.
      metrics: {"train": {...}, "eval": {...}} of the published weights; for a failed or interrupted run, the metrics
        logged or reported so far.
      cluster: For a run on a cluster: number of `workers` in each try, `failures`, and `tries`, `restarts`,
        `redone_steps`, `goodput`, `speeds` and `stragglers` as the engine defines them; otherwise empty.
      check: The SavedModel check's report, as `run_json.CheckReport`.
      rejected: Folder of outputs that were not published because the model failed the check, publishing failed, or the
        module raised after saving its model; otherwise "". With a `check`, the model in it is complete.
      unchecked: Whether the model in `rejected` was not checked, because a signal or an error ended the run before.
      resumed_model: Folder with the model of an earlier run that had not checked it, which this run has published
        without training; otherwise "".
      error: Type and message of the exception that ended the run, or None.
      traceback: Traceback of an exception of the module, from its first frame in the module's code.
      parts: What features have recorded, as JSON values by name. In the file, those that a `RunCallback` declares in
        its `parts` are beside the fields; others, such as results of worker callbacks, are below `parts`.
      path: The record's file.
    """

    id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    status: str = RUNNING
    started: str = ""
    arguments: Arguments = dataclasses.field(default_factory=Arguments)
    process: ProcessIdentity = dataclasses.field(default_factory=ProcessIdentity)
    code: Annotated[dict[str, Any], ModuleSource] = dataclasses.field(default_factory=dict)
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    dialect: dict[str, str] = dataclasses.field(default_factory=dict)
    keras: Annotated[dict[str, Any], KerasChoice] = dataclasses.field(default_factory=dict)
    phases: dict[str, float] = dataclasses.field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    cluster: ClusterJson = dataclasses.field(default_factory=ClusterJson)
    check: Annotated[dict[str, Any], CheckReport] = dataclasses.field(default_factory=dict)
    rejected: str = ""
    unchecked: bool = False
    resumed_model: str = ""
    error: dict[str, str] | None = None
    traceback: str = ""
    parts: dict[str, Any] = dataclasses.field(default_factory=dict)
    path: str = dataclasses.field(default="", repr=False, compare=False)
    _declared: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def declare(self, parts: Mapping[str, object]) -> None:
        """Adds parts that are beside the fields in the file, with their values before the feature sets them."""
        self._declared |= parts.keys()
        self.parts = {**copy.deepcopy(dict(parts)), **self.parts}

    def part(self, name: str, kind: type[T]) -> T:
        """Returns a feature's part as a type; its default without the part or, with a warning, if it is unreadable."""
        try:
            if self.parts.get(name):
                return from_json(kind, self.parts[name], f"{self.path}: {name}")
        except InputError as error:
            logging.warning("Skipped a part of a run record. %s", error)
        return cast("T", (get_origin(kind) or kind)())

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
        self.process = ProcessIdentity.current()
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
        file_io.write_text(path, self._text())
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
                f"{self.path}: another run started in this folder at {other.started}, while this run, started "
                f"at {self.started}, was in progress. Both would publish to the same path, so this run stops. Use "
                "separate folders for each run; tasks of one cluster need their own TF_CONFIG."
            )

    def _other_run(self) -> RunRecord | None:
        """Returns the record of another run that has taken over the folder; otherwise None."""
        there = read(*os.path.split(self.path))
        return there if there.id not in ("", self.id) else None

    def _write(self) -> None:
        file_io.write_text(self.path, self._text())

    def _text(self) -> str:
        """Returns the record as indented JSON text."""
        text = json.dumps(self.to_json(), indent=2, default=str)
        return _NUMBERS.sub(lambda numbers: re.sub(r"\s+", " ", numbers[0]), text) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Returns the content of the file."""
        state = {name: value for name, value in super().to_json().items() if name not in _UNWRITTEN}
        beside = {name: state["parts"].pop(name) for name in list(state["parts"]) if name in self._declared}
        return {**state, "keras": masked(state["keras"]), **beside}

    @classmethod
    def missing(cls) -> RunRecord:
        """Returns what is read where there is no record: one without `id` and `status`."""
        return cls(id="", status="")

    @classmethod
    def from_json(cls, state: object, what: str = "", path: str = "") -> RunRecord:
        """Returns the record with the content of a file, of this or any earlier release.

        Raises:
          InputError: When a field has another type.
        """
        content = from_json(dict[str, Any], state, what)
        record = super().from_json({"id": "", "status": "", **content}, what)
        record.path = path
        record.declare({name: part for name, part in content.items() if name not in _fields()})
        return record


@functools.cache
def _fields() -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(RunRecord)) - set(_UNWRITTEN)


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception means Ctrl-C or a termination signal."""
    return isinstance(error, (KeyboardInterrupt, Terminated, Preempted))


def status_after(error: BaseException) -> str:
    """Returns the status of a run that ended with an exception: INTERRUPTED or FAILED."""
    return INTERRUPTED if is_interrupt(error) else FAILED


def read(folder: str, name: str = FILE_NAME) -> RunRecord:
    """Returns the record in a folder, without an `id` when there is none or it is odd; see `read_checked`."""
    try:
        return read_checked(folder, name)
    except InputError:
        return RunRecord.missing()


def read_checked(folder: str, name: str = FILE_NAME) -> RunRecord:
    """Returns the record in a folder, of this or any earlier release.

    Raises:
      InputError: When it is missing, is not JSON, or a field has another type than in `RunRecord`; names file and
        field.
    """
    path = os.path.join(folder, name)
    if not file_io.exists(path):
        raise InputError(f"The run record {path} does not exist.")
    return RunRecord.from_json(read_json(path, object, "The run record"), f"The run record {path}", path)


def status_of(folder: str, name: str = FILE_NAME) -> str | None:
    """Returns the status of the run recorded in a folder, or None without a record."""
    return read(folder, name).status or None


def is_trained(phases: Mapping[str, float]) -> bool:
    """Whether the phases of a run show that `run_fn` has returned, even if the run failed afterwards."""
    return "training/run_fn" in phases


def stack() -> dict[str, str]:
    """Returns the versions of Python and of the installed distributions that matter to a run."""
    versions = {"python": platform.python_version()}
    for name in _STACK:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
