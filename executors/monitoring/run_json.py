"""The items of a `RunRecord` that are read; any of them may be missing, and others are kept."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

from ..runtime.files.json_data import JsonData


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


PASSED, SKIPPED = "passed", "skipped"


@dataclasses.dataclass(frozen=True)
class CheckReport(JsonData):
    """The report of the SavedModel check.

    Attributes:
      checks: {check: outcome}: "passed", "skipped", "skipped: REASON", why the check could not be run or is
        inconclusive, or what it found.
      signatures: {signature: {"inputs": {name: "float32 (?, 4)"}, "outputs": {…}}}.
      size_bytes: Size of all files of the model.
      example: Source of the example that the model was run on; "none" if it was not run.
      answer: {output: flat list of its first 10 values}; {} if no signature was run.
      asked: The signature that was run; "" if none was.
      fed: The source of each input, with the reason, in words; see `feeding.Feeding.line`.
      inputs: {feature: its first 10 values} of the example; {} if it is not a tf.Example.
      latency: `median` and `p90` in seconds of repeated calls with that example on the CPU, and their number `calls`;
        {} if no signature was run.
      batch_dependence: The answer that depends on the other examples of its batch; None if no dependence was found.
      op_packages: Packages to import before the model is loaded, because they register ops of it, with the paths of
        their libraries as far as they are known.
      parts: {check: the value that it adds}.
    """

    checks: dict[str, str] = dataclasses.field(default_factory=dict)
    signatures: dict[str, SignatureTensors] = dataclasses.field(default_factory=dict)
    size_bytes: int = 0
    example: str = "none"
    answer: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    asked: str = ""
    fed: str = ""
    inputs: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    latency: dict[str, float] = dataclasses.field(default_factory=dict)
    batch_dependence: BatchDependenceJson | None = None
    op_packages: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    parts: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def warnings(self) -> dict[str, str]:
        """The checks that neither passed nor were skipped, with their outcome."""
        return {name: outcome for name, outcome in self.checks.items() if not outcome.startswith((PASSED, SKIPPED))}
