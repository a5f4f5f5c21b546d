"""The types of the content of `run.json`, against which `run_record.read_checked` checks a file.

`RunRecord` in `run_record.py` writes it and describes the fields. Any field may be missing: a run may be in progress,
may have failed early, or may have been written by an earlier release. Fields of later releases are ignored.
"""

from __future__ import annotations

from typing import TypedDict


class Hyperparameters(TypedDict, total=False):
    """A tuner's result, in the format of Keras Tuner."""

    values: dict[str, object]


class ExamplesFormatJson(TypedDict, total=False):
    """The format of the examples, as `inputs.data_accessor.ExamplesFormat`."""

    payload: str


class Arguments(TypedDict, total=False):
    """The `fn_args` and options of a run. Lists the keys that are read; every attribute of `FnArgs` is present."""

    serving_model_dir: str
    model_run_dir: str
    base_model: str | None
    train_files: list[str]
    eval_files: list[str]
    transform_graph_path: str | None
    examples_format: ExamplesFormatJson
    custom_config: dict[str, object] | None
    options: dict[str, object]
    hyperparameters: Hyperparameters | None


class Files(TypedDict, total=False):
    """The files that a pattern matched; further keys are compared and displayed."""

    files: int
    bytes: int


class Process(TypedDict, total=False):
    """The process of the run, as `runtime.process.identity.ProcessIdentity`."""

    host: str
    number: int
    started: str


class Code(TypedDict, total=False):
    """The module, as `modules.source.ModuleSource`; only its reference before the module is found."""

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
    """The Keras version and the reason for it, and the environment variables that the module sets when imported."""

    version: str
    reason: str
    variables: dict[str, str]


class BadRecord(TypedDict):
    """Skipped records at one place, as `inputs.bad_records.BadRecord`."""

    file: str
    place: str
    problem: str
    count: int


class SkippedRecords(TypedDict, total=False):
    """All skipped records, as `inputs.bad_records.BadRecords`."""

    limit: int
    count: int
    readers: list[str]
    records: list[BadRecord]


class DamagedCheckpoint(TypedDict):
    """A damaged checkpoint or file that a run moved aside, as `checkpoints.damage.Damage`."""

    path: str
    problem: str
    moved_to: str
    result: str


class Origin(TypedDict, total=False):
    """The origin of a split's metrics."""

    source: str
    fit: int
    fits: int
    epoch: int
    epochs: int
    step: int


class ProfileJson(TypedDict, total=False):
    """A profile in the run record; {} without a profile.

    Attributes:
      seconds: Duration of the profile.
      steps: Number of batches in that time.
      shares: Fraction of the time by category; they sum up to 1.
      step_ms: Milliseconds per step by category; only if there are steps.
      folder: Folder of the profile.
    """

    seconds: float
    steps: int
    shares: dict[str, float]
    step_ms: dict[str, float]
    folder: str


class Machine(TypedDict, total=False):
    """The size of a machine."""

    cpus: int | None
    memory_bytes: int


class UsageJson(TypedDict, total=False):
    """Resource usage in the run record: the columns of `resources.Usage`, and the machine; {} without samples."""

    seconds: list[float]
    cpu: list[float]
    memory_bytes: list[float]
    gpu_percent: list[float]
    gpu_memory_bytes: list[float]
    machine: Machine


class TryAccount(TypedDict, total=False):
    """The account of one start of all workers, as its engine measured them."""

    workers: int
    began: float
    first_step: int
    last_step: int
    lost_steps: int
    seconds: float


class Account(TypedDict, total=False):
    """The account of a run on a cluster, as its engine measured it."""

    tries: list[TryAccount]
    restarts: int
    replaced: int
    redone_steps: int
    goodput: float | None
    speeds: dict[str, dict[str, float]]
    stragglers: dict[str, str]


class ClusterJson(Account, total=False):
    """The workers, failures and throughput of a run on a cluster."""

    workers: list[int]
    failures: list[str]


class Latency(TypedDict, total=False):
    """Seconds per call, of repeated calls of the model; {} without an example."""

    median: float
    p90: float
    calls: int


class SignatureTensors(TypedDict, total=False):
    """The tensors of a signature by name, each described as "float32 (?, 4)"."""

    inputs: dict[str, str]
    outputs: dict[str, str]


class BatchDependenceJson(TypedDict, total=False):
    """An answer that differs alone and in a batch.

    Attributes:
      output: Name of the output.
      alone: Its values for an example that is the only one, of more than 10 the first that differ; means if the model
        is random.
      together: The same values in a batch.
      batch_size: Number of examples in the batch.
    """

    output: str
    alone: list[str | int | float]
    together: list[str | int | float]
    batch_size: int


class CheckJson(TypedDict, total=False):
    """The report of the SavedModel check, as `saved_models.model_check.CheckReport`."""

    checks: dict[str, str]
    signatures: dict[str, SignatureTensors]
    size_bytes: int
    example: str
    answer: dict[str, object]
    asked: str
    fed: str
    inputs: dict[str, object]
    latency: Latency
    batch_dependence: BatchDependenceJson | None
    op_packages: dict[str, list[str]]


class _OutputJson(TypedDict):
    output: str


class OutputPlanJson(_OutputJson, total=False):
    """How one output is evaluated, as `evaluation.plan.OutputPlan`."""

    task: str
    label: str
    label_is_transformed: bool
    label_is_one_hot: bool
    classes: int
    scores: str
    loss: str
    label_values: list[tuple[str | int, int]]
    label_scale: list[tuple[float, float]]


class PlanJson(TypedDict, total=False):
    """How the model is evaluated, as `evaluation.plan.EvaluationPlan`."""

    signature: str
    examples: str
    takes_tensors: bool
    outputs: list[OutputPlanJson]
    problem: str
    reasons: dict[str, str]
    inputs: dict[str, str]
    is_guess: bool
    weights: str


class ErrorJson(TypedDict, total=False):
    """The exception that ended a run."""

    type: str
    message: str


class RunJson(TypedDict, total=False):
    """The content of `run.json`; see `RunRecord` for the fields."""

    id: str
    status: str
    started: str
    arguments: Arguments
    process: Process
    code: Code
    data: dict[str, Files]
    changed_data: list[str]
    bad_records: SkippedRecords
    damaged_checkpoints: list[DamagedCheckpoint]
    stack: dict[str, str]
    dialect: Dialect
    keras: Keras
    phases: dict[str, float]
    profile: ProfileJson
    metrics: dict[str, dict[str, float]]
    metrics_from: dict[str, Origin]
    evaluation_evidence: dict[str, object]
    evaluation_plan: PlanJson
    cluster: ClusterJson
    check: CheckJson
    rejected: str
    unchecked: bool
    resumed_model: str
    resources: UsageJson
    parts: dict[str, object]
    error: ErrorJson | None
    traceback: str
