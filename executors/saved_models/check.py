"""Validates a trained SavedModel: it parses, has signatures, loads in a fresh process, and predicts finite values.

TFX only checks that the model's folder exists. But a crashed training leaves a folder too, and a SavedModel that other
processes cannot load would fail in production. So a subprocess that shares no state with the training loads the model
and runs one of its signatures on an evaluation example.

Usage:

    report = check_saved_model(folder, eval_patterns, options)   # raises ModelCheckError
    report.answer                                               # {"probability": [[0.93]]}
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from absl import logging

from ..engines.base import WorkerStart, fresh_process
from ..errors import ModelCheckError, ProcessDiedError
from ..examples_format import ExamplesFormat
from ..options import CHECKS
from ..runtime.files import file_io
from .locations import find_saved_model, timestamped_models
from .readable_files import first_problem

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from .batch_dependence import BatchDependence
    from .custom_ops import OpPackage
    from .sample_input import SampleInput

BATCH_DEPENDENCE = "batch_dependence"  # property of a Model artifact, with the outcome of the check
PROBE = f"{__package__}.probe"
_TARGET = "fn_args.serving_model_dir"


class SignatureTensors(TypedDict):
    """The tensors of a signature by name, as "float32 (?, 4)"."""

    inputs: dict[str, str]
    outputs: dict[str, str]


class ProbeRequest(TypedDict):
    """Request to the fresh process, as JSON values; see `check_saved_model`."""

    model: str
    shown_as: str
    eval_files: list[str]
    raw_eval_files: list[str]
    examples_format: dict[str, str]
    schema_path: str | None
    transform_graph_path: str | None
    required_signatures: list[str]
    skip: list[str]
    op_packages: dict[str, OpPackage]
    example: SampleInput


class ProbeReport(TypedDict):
    """Result of the fresh process, as JSON values: the fields of `CheckReport` except `size_bytes`."""

    checks: dict[str, str]
    signatures: dict[str, SignatureTensors]
    example: str
    answer: dict[str, list[str | float]]
    asked: NotRequired[str]
    fed: NotRequired[str]
    inputs: NotRequired[dict[str, list[str | float]]]
    latency: NotRequired[dict[str, float]]
    batch_dependence: NotRequired[BatchDependence | None]
    op_packages: NotRequired[dict[str, list[str]]]
    evaluation_plan: NotRequired[dict[str, object]]


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """The result of a check.

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
      evaluation_plan: The model's `evaluation.plan.EvaluationPlan`; {} if the probe makes none.
    """

    checks: dict[str, str]
    signatures: dict[str, SignatureTensors]
    size_bytes: int
    example: str
    answer: dict[str, list[str | float]]
    asked: str = ""
    fed: str = ""
    inputs: dict[str, list[str | float]] = dataclasses.field(default_factory=dict)
    latency: dict[str, float] = dataclasses.field(default_factory=dict)
    batch_dependence: BatchDependence | None = None
    op_packages: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    evaluation_plan: dict[str, object] = dataclasses.field(default_factory=dict)

    @property
    def warnings(self) -> dict[str, str]:
        """The checks that neither passed nor were skipped, with their outcome."""
        return {name: outcome for name, outcome in self.checks.items() if not outcome.startswith(("passed", "skipped"))}


def check_saved_model(
    folder: str,
    eval_files: Sequence[str] = (),
    *,
    raw_eval_files: Sequence[str] = (),
    examples_format: ExamplesFormat | None = None,
    schema_path: str | None = None,
    transform_graph_path: str | None = None,
    required_signatures: Sequence[str] = (),
    skip: Sequence[str] = (),
    op_packages: Mapping[str, OpPackage] | None = None,
    example: Mapping[str, Any] | None = None,
    probe: str = PROBE,
    probe_arguments: Mapping[str, Any] | None = None,
    shown_as: str = "",
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> CheckReport:
    """Checks the SavedModel that a training module wrote.

    Args:
      folder: The module's `serving_model_dir`.
      eval_files: Patterns of evaluation examples; the model is run on the first record.
      raw_eval_files: Patterns of raw evaluation examples, if `eval_files` are transformed and raw ones are available:
        for signatures that take raw examples.
      examples_format: Encoding of the examples.
      schema_path: The examples' schema, for a synthetic example if no real one fits.
      transform_graph_path: A Transform graph; its raw schema is preferred for the synthetic example.
      required_signatures: Signatures that the model must have; if empty, any one is enough.
      skip: Names of checks to skip, from `options.CHECKS`.
      op_packages: The packages with custom ops that the training has imported, by name.
      example: Sample input for the case that the eval files have no readable records: `source`, a description, and
        `features`, {name of the model's input: flat list of values; bytes as {"b64": …}}.
      probe: The module whose `execute` runs in the fresh process. `evaluation.probe` also plans the evaluation.
      probe_arguments: Additional JSON values of the request to this module.
      shown_as: The folder's name in messages, if `folder` is a copy.
      environment: Environment variables of the fresh process, such as the one that selects Keras 2 or 3 for `tf.keras`.
      timeout: Timeout of the fresh process in seconds; None for no limit.

    Raises:
      ModelCheckError: With the check's name, the folder, the problem and how to skip the check.
    """
    shown = shown_as or folder
    if not file_io.isdir(folder):
        raise ModelCheckError(f"run_fn wrote no model: {shown} does not exist. It must save one to {_TARGET}.")
    if problem := first_problem(folder):
        raise ModelCheckError(f"{shown}: {problem}.")
    files = list(file_io.files_below(folder))
    if not files:
        raise ModelCheckError(f"run_fn wrote no model: {shown} is empty. It must save one to {_TARGET}.")
    model = find_saved_model(folder)
    if model is None and "parses" not in skip:
        if several := timestamped_models(folder):
            names = ", ".join(map(os.path.basename, several))
            raise ModelCheckError(
                f"{shown} contains several SavedModels, {names}, and only one can be published. "
                f"Save it to {_TARGET} itself."
            )
        raise ModelCheckError(
            f"{shown} contains no SavedModel, only {', '.join(sorted(files)[:5])}. Save one to {_TARGET}, "
            f"or skip this check with --skip-check parses (skip_checks in Python)."
        )
    for name in skip:
        logging.warning("The check %r of the model in %s is skipped.", name, shown)
    size = sum(file_io.size_of(os.path.join(folder, name)) for name in files)
    if "parses" in skip:
        return CheckReport(dict.fromkeys(CHECKS, "skipped"), {}, size, "none", {})
    request = {
        "model": model,
        "shown_as": shown,
        "eval_files": list(eval_files),
        "raw_eval_files": list(raw_eval_files),
        "examples_format": dataclasses.asdict(examples_format or ExamplesFormat()),
        "schema_path": schema_path,
        "transform_graph_path": transform_graph_path,
        "required_signatures": list(required_signatures),
        "skip": list(skip),
        "op_packages": dict(op_packages or {}),
        "example": dict(example or {}),
        **(probe_arguments or {}),
    }
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **(environment or {})}

    start = WorkerStart(probe, request, variables, what="model check", is_quiet=True)

    def run_probe() -> ProbeReport:
        return cast("ProbeReport", fresh_process(timeout).execute(start))

    try:
        found = run_probe()
    except (ProcessDiedError, MemoryError):  # retry: a temporary lack of memory must not discard the training
        logging.warning("The check of the model in %s was interrupted; retrying it once.", shown)
        found = run_probe()
    return CheckReport(size_bytes=size, **found)


def log_report(report: CheckReport) -> None:
    """Logs the result of a check; checks that could not run are warnings."""
    if report.checks["loads"] == "passed":
        logging.info("The model loads in a fresh process; its signatures: %s", ", ".join(report.signatures))
    if report.answer:
        answer = ", ".join(
            f"{name}={[float(f'{one:.4g}') if isinstance(one, float) else one for one in values]}"
            for name, values in report.answer.items()
        )
        logging.info("Prediction for %s: %s", report.example, answer if len(answer) < 200 else f"{answer[:200]}…")
    for name, outcome in report.warnings.items():
        logging.warning("The check %r %s", name, outcome)
