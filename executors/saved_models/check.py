"""The check that a run's outcome is a model: it parses, has signatures, loads in a fresh process, answers.

TFX asks whether a folder is there. A folder is there after a crash, too, and a SavedModel that no other
process can load is found out in production. So a process that knows nothing of the training loads the
model and puts one of the evaluation examples to it.

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

from ..engines import child_process
from ..errors import ModelCheckError, ProcessDiedError
from ..inputs.data_accessor import ExamplesFormat
from ..options import CHECKS
from ..runtime.files import file_io
from .locations import find_saved_model, timestamped_models

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from .sample_input import SampleInput

PROBE = f"{__package__}.probe"
_TARGET = "fn_args.serving_model_dir"


class SignatureTensors(TypedDict):
    """The tensors of a signature by name, as "float32 (?, 4)"."""

    inputs: dict[str, str]
    outputs: dict[str, str]


class ProbeRequest(TypedDict):
    """What the fresh process is asked, as JSON values; see `check_saved_model`."""

    model: str
    shown_as: str
    eval_files: list[str]
    raw_eval_files: list[str]
    examples_format: dict[str, str]
    schema_path: str | None
    transform_graph_path: str | None
    required_signatures: list[str]
    skip: list[str]
    op_packages: list[str]
    example: SampleInput


class ProbeReport(TypedDict):
    """The answer of the fresh process, as JSON values: the fields of `CheckReport` but for the size."""

    checks: dict[str, str]
    signatures: dict[str, SignatureTensors]
    example: str
    answer: dict[str, list[str | float]]
    asked: NotRequired[str]
    inputs: NotRequired[dict[str, list[str | float]]]
    latency: NotRequired[dict[str, float]]
    evaluation_plan: NotRequired[dict[str, object]]


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """What the check found.

    Attributes:
      checks: Each check's name and its outcome: "passed", "skipped", or why it could not be made.
      signatures: {signature: {"inputs": {name: "float32 (?, 4)"}, "outputs": {…}}}.
      size_bytes: Bytes of all files of the model.
      example: Where the example came from that the model answered, or why there was none.
      answer: {output: value as nested lists, shortened}, or {} when nothing was asked.
      asked: The signature that answered; "" when nothing was asked.
      inputs: {feature: values, shortened} of the example that it answered; {} where it is no tf.Example.
      latency: Of repeated calls with that example, on the processor: `median` and `p90` in seconds, and `calls`; {}
        when nothing was asked.
      evaluation_plan: How the model is evaluated, as `evaluation.plan.EvaluationPlan`; {} if the probe makes no plan.
    """

    checks: dict[str, str]
    signatures: dict[str, SignatureTensors]
    size_bytes: int
    example: str
    answer: dict[str, list[str | float]]
    asked: str = ""
    inputs: dict[str, list[str | float]] = dataclasses.field(default_factory=dict)
    latency: dict[str, float] = dataclasses.field(default_factory=dict)
    evaluation_plan: dict[str, object] = dataclasses.field(default_factory=dict)


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
    op_packages: Sequence[str] = (),
    example: Mapping[str, Any] | None = None,
    probe: str = PROBE,
    probe_arguments: Mapping[str, Any] | None = None,
    shown_as: str = "",
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> CheckReport:
    """Checks the SavedModel that a training module wrote.

    Args:
      folder: The `serving_model_dir` that the module was given.
      eval_files: Patterns of evaluation examples; the first record of them is put to the model.
      raw_eval_files: Patterns of raw evaluation examples, where `eval_files` are transformed ones and raw ones are at
        hand: a signature that takes raw examples is asked one of them.
      examples_format: How these are encoded.
      schema_path: The examples' schema; with it a Parquet row becomes a tf.Example.
      transform_graph_path: A Transform graph. Its raw schema makes up an example when the eval examples
        are transformed ones and the model's signature takes raw ones.
      required_signatures: Signatures that must be there; any one will do when empty.
      skip: Names of checks to leave out, of `options.CHECKS`.
      op_packages: Packages to import first because they register TensorFlow ops.
      example: What to ask when the eval files hold no records that can be read here: `source`, where it is from, and
        `features`, {name of the model's input: its values, in one list; bytes as {"b64": …}}.
      probe: The module whose `execute` answers in the fresh process. `evaluation.probe` also plans the evaluation.
      probe_arguments: JSON values that this module takes in addition.
      shown_as: The folder's name in messages, when the check is made on a copy of it.
      environment: Variables for the fresh process, such as which Keras `tf.keras` is: TensorFlow imports one of them.
      timeout: Seconds that the fresh process may take.

    Raises:
      ModelCheckError: With the check's name, the folder, what was found and how to leave the check out.
    """
    shown = shown_as or folder
    if not file_io.isdir(folder):
        raise ModelCheckError(f"run_fn wrote no model: {shown} does not exist. It must save one to {_TARGET}.")
    files = list(file_io.files_below(folder))
    if not files:
        raise ModelCheckError(f"run_fn wrote no model: {shown} is empty. It must save one to {_TARGET}.")
    model = find_saved_model(folder)
    if model is None and "parses" not in skip:
        if several := timestamped_models(folder):
            names = ", ".join(map(os.path.basename, several))
            raise ModelCheckError(
                f"{shown} holds several SavedModels, {names}, and which of them is to be published is not known. "
                f"Save one to {_TARGET} itself."
            )
        raise ModelCheckError(
            f"{shown} holds no SavedModel, only {', '.join(sorted(files)[:5])}. Save one to {_TARGET}, "
            f"or leave this check out with --skip-check parses (in Python skip_checks)."
        )
    for name in skip:
        logging.warning("The check %r of the model in %s was turned off.", name, shown)
    size = sum(file_io.size_of(os.path.join(folder, name)) for name in files)
    if "parses" in skip:
        return CheckReport(dict.fromkeys(CHECKS, "skipped"), {}, size, "not asked", {})
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
        "op_packages": list(op_packages),
        "example": dict(example or {}),
        **(probe_arguments or {}),
    }
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **(environment or {})}

    def asked() -> ProbeReport:
        report = child_process.run(
            probe, request, environment=variables, timeout=timeout, quiet=True, forked=True, what="model's check"
        )
        return cast("ProbeReport", report)

    try:
        found = asked()
    except (ProcessDiedError, MemoryError):  # the training must not be lost by a moment's want of memory
        logging.warning("The check of the model in %s was cut off, and is made once more.", shown)
        found = asked()
    return CheckReport(size_bytes=size, **found)


def log_report(report: CheckReport) -> None:
    """Logs what the check found; what it could not look at is a warning."""
    if report.checks["loads"] == "passed":
        logging.info("The model loads in a fresh process; its signatures: %s", ", ".join(report.signatures))
    if report.answer:
        answer = ", ".join(
            f"{name}={[float(f'{one:.4g}') if isinstance(one, float) else one for one in values]}"
            for name, values in report.answer.items()
        )
        logging.info("It answers %s: %s", report.example, answer if len(answer) < 200 else f"{answer[:200]}…")
    for name, outcome in report.checks.items():
        if outcome not in ("passed", "skipped"):
            logging.warning("The check %r %s", name, outcome)
