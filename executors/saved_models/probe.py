"""The process that checks a SavedModel: runs the registered checks; see `check.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from .. import plugins
from ..options import MODEL_CHECKS
from .checked_model import CheckedModel
from .model_check import PASSED, SKIPPED, CheckReport, CheckRequest, ModelCheck
from .tensor_values import excerpt


def execute(state: Mapping[str, object]) -> dict[str, Any]:
    """Entry point of the process: returns the fields of a `CheckReport`, without the size, for a `CheckRequest`."""
    names = (field.name for field in dataclasses.fields(CheckRequest))
    model = CheckedModel(CheckRequest(**{name: cast("Any", state[name]) for name in names}))
    checks = cast("Mapping[str, type[ModelCheck]]", plugins.load(MODEL_CHECKS))
    outcomes: dict[str, str] = {}
    for name, check in sorted(checks.items(), key=lambda item: item[1].order):
        if (instance := check()).applies(model):
            is_skipped = name in model.request.skip or any(outcomes.get(need) != PASSED for need in check.needs)
            outcomes[name] = (SKIPPED if is_skipped else instance.check(model)) or PASSED
    return dataclasses.asdict(_report(model, outcomes))


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
