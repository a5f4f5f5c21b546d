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
from typing import TYPE_CHECKING, Any, cast

from absl import logging

from ..engines.base import WorkerStart, fresh_process
from ..errors import ModelCheckError, ProcessDiedError
from ..examples_format import ExamplesFormat
from ..monitoring.run_json import PASSED, SKIPPED, CheckReport
from ..options import check_names
from ..runtime.files import file_io
from .locations import find_saved_model, timestamped_models
from .model_check import ModelCheckRequest
from .readable_files import first_problem

if TYPE_CHECKING:
    from .custom_ops import OpPackage
    from .sample_input import SampleInput

_PROCESS = f"{__package__}.probe"
_TARGET = "fn_args.serving_model_dir"


def check_saved_model(  # noqa: PLR0913 (public; inside, one ModelCheckRequest)
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
    parts: Mapping[str, Any] | None = None,
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
      skip: Names of checks to skip, from `options.check_names`.
      op_packages: The packages with custom ops that the training has imported, by name.
      example: Sample input for the case that the eval files have no readable records: `source`, a description, and
        `features`, {name of the model's input: flat list of values; bytes as {"b64": …}}.
      parts: {check: JSON values for it}. With the part "evaluation", the evaluation is planned as well; see
        `evaluation.model_check`.
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
            names = ", ".join(map(os.path.basename, reversed(several)))
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
        return CheckReport(dict.fromkeys(check_names(), SKIPPED), size_bytes=size)
    assert model is not None
    request = ModelCheckRequest(
        model,
        shown,
        list(eval_files),
        list(raw_eval_files),
        (examples_format or ExamplesFormat()).payload,
        schema_path,
        transform_graph_path,
        list(required_signatures),
        list(skip),
        op_packages or {},
        cast("SampleInput | None", example),
        parts or {},
    )
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **(environment or {})}

    start = WorkerStart(_PROCESS, dataclasses.asdict(request), variables, what="model check", is_quiet=True)

    def run_checks() -> Mapping[str, Any]:
        return fresh_process(timeout).execute(start)

    try:
        report = run_checks()
    except (ProcessDiedError, MemoryError):  # retry: a temporary lack of memory must not discard the training
        logging.warning("The check of the model in %s was interrupted; retrying it once.", shown)
        report = run_checks()
    return CheckReport(**{**report, "size_bytes": size})


def log_report(report: CheckReport) -> None:
    """Logs the result of a check; checks that could not run are warnings."""
    if report.checks["loads"] == PASSED:
        logging.info("The model loads in a fresh process; its signatures: %s", ", ".join(report.signatures))
    if report.answer:
        answer = ", ".join(
            f"{name}={[float(f'{value:.4g}') if isinstance(value, float) else value for value in values]}"
            for name, values in report.answer.items()
        )
        logging.info("Prediction for %s: %s", report.example, answer if len(answer) < 200 else f"{answer[:200]}…")
    for name, outcome in report.warnings.items():
        logging.warning("The check %r %s", name, outcome)
