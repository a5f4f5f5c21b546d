"""The process that checks a SavedModel: runs the registered checks; see `check.py`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from .. import plugins
from ..errors import TrainerError
from ..monitoring.run_json import PASSED, SKIPPED, CheckReport
from ..options import MODEL_CHECKS
from .checked_model import CheckedModel
from .model_check import BATCHES, ModelCheck, ModelCheckRequest
from .tensor_values import excerpt
from .trial import NO_MEMORY

ENDS_AT_ONCE = True


def execute(state: Mapping[str, Any]) -> dict[str, Any]:
    """Entry point of the process: returns a `CheckReport` without the size, for a `ModelCheckRequest`."""
    model = CheckedModel(ModelCheckRequest(**state))
    checks = cast("Mapping[str, type[ModelCheck]]", plugins.load(MODEL_CHECKS))
    outcomes: dict[str, str] = {}
    parts: dict[str, Any] = {}
    for name, check in sorted(checks.items(), key=lambda item: item[1].order):
        if not (instance := check()).applies(model):
            continue
        if unknown := [need for need in check.needs if need not in checks]:
            outcomes[name] = f"{SKIPPED}: it needs {unknown[0]!r}, which no installed package registers"
        elif name in model.request.skip or any(outcomes.get(need) != PASSED for need in check.needs):
            outcomes[name] = SKIPPED
        else:
            outcomes[name] = _outcome(name, instance, model)
            parts[name] = instance.part
    return _report(model, outcomes, {name: part for name, part in parts.items() if part is not None}).to_json()


def _outcome(name: str, check: ModelCheck, model: CheckedModel) -> str:
    """Runs a check; an exception or a result that a check must not have becomes an error with the check's name."""
    try:
        outcome = check.check(model)
    except (TrainerError, *NO_MEMORY):
        raise
    except Exception as error:
        raise model.failed(name, f"the check raised {type(error).__name__}: {error}") from error
    if not isinstance(outcome, (str, type(None))):
        raise model.failed(name, f"the check returned {outcome!r}, neither None nor a text")
    try:
        json.dumps(check.part, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise model.failed(name, f"what the check adds to the report is not JSON: {error}") from error
    return outcome or PASSED


def _report(model: CheckedModel, outcomes: dict[str, str], parts: dict[str, Any]) -> CheckReport:
    dependence = parts.pop(BATCHES, None)
    report = CheckReport(
        outcomes, model.signatures, batch_dependence=dependence, op_packages=model.op_packages, parts=parts
    )
    answer = model.answer if outcomes["loads"] == PASSED else None
    if answer is None:
        return report
    report = dataclasses.replace(report, example=answer.example.source)
    if answer.problem:
        return report
    return dataclasses.replace(
        report,
        answer={name: excerpt(answer.outputs[name]) for name in sorted(answer.outputs)},  # in TensorFlow's random order
        asked=answer.signature,
        fed=answer.fed,
        inputs={name: excerpt(values) for name, values in sorted(answer.example.features.items())},
        latency=answer.latency,
    )
