"""The dicts of a `RunRecord` whose items are read; any of them may be missing, and others are kept."""

from __future__ import annotations

from typing import TypedDict


class Hyperparameters(TypedDict, total=False):
    """A tuner's result, in the format of Keras Tuner."""

    values: dict[str, object]


class Arguments(TypedDict, total=False):
    """The `fn_args` and options of a run. Lists the keys that are read; every attribute of `FnArgs` is present."""

    serving_model_dir: str
    model_run_dir: str
    base_model: str | None
    train_files: list[str] | None
    eval_files: list[str] | None
    transform_graph_path: str | None
    examples_format: dict[str, str | None]
    custom_config: dict[str, object] | None
    options: dict[str, object]
    hyperparameters: Hyperparameters | None


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
