"""The content of `run.json` as its readers find it.

`RunRecord` in `run_record.py` writes it and describes the fields. Any field may be missing: a run may be under way, may
have failed early, or may be of an earlier release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from .throughput import Account

if TYPE_CHECKING:
    from .metrics import Metrics
    from .profile_summary import ProfileJson
    from .resources import UsageJson


class Hyperparameters(TypedDict, total=False):
    """What a tuner found, as Keras Tuner writes it."""

    values: dict[str, object]


class Arguments(TypedDict, total=False):
    """The `fn_args` and options of a run: the keys that readers look up. Every attribute of `FnArgs` is there."""

    serving_model_dir: str
    model_run_dir: str
    base_model: str | None
    train_files: list[str]
    eval_files: list[str]
    options: dict[str, object]
    hyperparameters: Hyperparameters | None


class Files(TypedDict, total=False):
    """What files a pattern has found; further facts are compared, and shown."""

    files: int
    bytes: int


class Code(TypedDict, total=False):
    """The module, as `modules.source.ModuleSource`; only its reference before it is found."""

    reference: str
    path: str
    name: str
    function: str | None
    files: list[str]
    relative_imports: bool
    fingerprint: str


class Dialect(TypedDict, total=False):
    """The dialect and the reason for it."""

    name: str
    reason: str


class Keras(TypedDict, total=False):
    """The Keras version and the reason for it."""

    version: str
    reason: str


class BadRecord(TypedDict):
    """Records that were left out at one place, as `inputs.bad_records.BadRecord`."""

    file: str
    place: str
    problem: str
    count: int


class LeftOut(TypedDict, total=False):
    """The records that were left out, as `inputs.bad_records.BadRecords`."""

    limit: int
    count: int
    readers: list[str]
    records: list[BadRecord]


class Origin(TypedDict, total=False):
    """Where the metrics of a split come from."""

    source: str
    fit: int
    fits: int
    epoch: int
    epochs: int
    step: int


class ClusterJson(Account, total=False):
    """What became of a run on a cluster."""

    workers: list[int]
    failures: list[str]


class Latency(TypedDict, total=False):
    """Seconds of repeated calls of the model."""

    median: float
    p90: float
    calls: int


class Sides(TypedDict, total=False):
    """The tensors of a signature by name, each as "float32 (?, 4)"."""

    inputs: dict[str, str]
    outputs: dict[str, str]


class CheckJson(TypedDict, total=False):
    """The report of the SavedModel check, as `saved_models.check.CheckReport`."""

    checks: dict[str, str]
    signatures: dict[str, Sides]
    size_bytes: int
    example: str
    answer: dict[str, object]
    asked: str
    inputs: dict[str, object]
    latency: Latency


class ErrorJson(TypedDict, total=False):
    """What ended a run."""

    type: str
    message: str


class RunJson(TypedDict, total=False):
    """The content of `run.json`; see `RunRecord` for the fields."""

    id: str
    status: str
    started: str
    arguments: Arguments
    process: dict[str, object]
    code: Code
    data: dict[str, Files]
    bad_records: LeftOut
    stack: dict[str, str]
    dialect: Dialect
    keras: Keras
    phases: dict[str, float]
    profile: ProfileJson
    metrics: Metrics
    metrics_from: dict[str, Origin]
    evaluation_evidence: dict[str, object]
    evaluation_plan: dict[str, object]
    cluster: ClusterJson
    check: CheckJson
    rejected: str
    resources: UsageJson
    error: ErrorJson | None
    traceback: str
