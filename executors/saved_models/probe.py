"""The process that checks a SavedModel: runs the registered checks; see `check.py`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from .. import plugins
from ..errors import TrainerError
from ..options import MODEL_CHECKS
from .checked_model import CheckedModel
from .model_check import PASSED, SKIPPED, CheckReport, CheckRequest, ModelCheck
from .tensor_values import excerpt
from .trial import NO_MEMORY

ENDS_AT_ONCE = True
_REPORTED = {field.name for field in dataclasses.fields(CheckReport)}


def execute(state: Mapping[str, object]) -> dict[str, Any]:
    """Entry point of the process: returns the fields of a `CheckReport`, without the size, for a `CheckRequest`."""
    names = (field.name for field in dataclasses.fields(CheckRequest))
    model = CheckedModel(CheckRequest(**{name: cast("Any", state[name]) for name in names}))
    checks = cast("Mapping[str, type[ModelCheck]]", plugins.load(MODEL_CHECKS))
    outcomes: dict[str, str] = {}
    for name, check in sorted(checks.items(), key=lambda item: item[1].order):
        if not (instance := check()).applies(model):
            continue
        if unknown := [need for need in check.needs if need not in checks]:
            outcomes[name] = f"{SKIPPED}: it needs {unknown[0]!r}, which no installed package registers"
        elif name in model.request.skip or any(outcomes.get(need) != PASSED for need in check.needs):
            outcomes[name] = SKIPPED
        else:
            outcomes[name] = _outcome(name, instance, model)
    return dataclasses.asdict(_report(model, outcomes))


def _outcome(name: str, check: ModelCheck, model: CheckedModel) -> str:
    """Runs a check; an exception or a result that a check must not have becomes an error with the check's name."""
    before = set(model.parts)
    try:
        outcome = check.check(model)
    except (TrainerError, *NO_MEMORY):
        raise
    except Exception as error:
        raise model.failed(name, f"the check raised {type(error).__name__}: {error}") from error
    if not isinstance(outcome, (str, type(None))):
        raise model.failed(name, f"the check returned {outcome!r}, neither None nor a text")
    added = {part: value for part, value in model.parts.items() if part not in before}
    if taken := _REPORTED & added.keys():
        raise model.failed(name, f"the check adds the part {min(taken)!r}, which is the name of a fact of every report")
    try:
        json.dumps(added)
    except (TypeError, ValueError) as error:
        raise model.failed(name, f"what the check adds to the report is not JSON: {error}") from error
    return outcome or PASSED


def _report(model: CheckedModel, outcomes: dict[str, str]) -> CheckReport:
    report = CheckReport(outcomes, model.signatures, op_packages=model.op_packages, parts=model.parts)
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
