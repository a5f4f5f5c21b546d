"""Report sections on the model, its checks and a sample prediction, and on arguments, code and versions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..evaluation.plan import EvaluationPlan
from ..monitoring.run_json import PASSED, SKIPPED
from ..options import TrainingOptions
from .document import (
    GOOD,
    WARN,
    Block,
    Cell,
    Code,
    Facts,
    Note,
    Section,
    Table,
    Value,
)
from .quantities import seconds, size
from .source import MAX_SOURCE_BYTES, sources_of
from .values import code, flattened, values_of, without_empty

if TYPE_CHECKING:
    from ..monitoring.run_json import Arguments
    from ..monitoring.run_record import RunRecord

_ROWS = 30  # longer tables are initially collapsed


def model_section(record: RunRecord) -> Section:
    """Returns the section with the model's checks, its signatures, and its prediction for a sample input."""
    check = record.check
    signatures = [
        (code(name), direction, code(tensor), code(kind))
        for name, sides in (check.get("signatures") or {}).items()
        for direction, tensors in (("input", sides.get("inputs", {})), ("output", sides.get("outputs", {})))
        for tensor, kind in tensors.items()
    ]
    latency = check.get("latency", {})
    rows: list[tuple[str, Value]] = [("Size", size(check["size_bytes"]))] if check.get("size_bytes") else []
    if {"median", "p90", "calls"} <= latency.keys():
        timed = f"median {seconds(latency['median']).text}, 90th percentile {seconds(latency['p90']).text}"
        rows.append(("Prediction latency", f"{timed} ({latency['calls']} calls on the CPU, one example each)"))
    if packages := check.get("op_packages"):
        rows.append(("Needs", f"{', '.join(packages)}, imported before the model is loaded"))
    if record.parts.get("evaluation_plan"):
        rows.append(("Evaluation", record.part("evaluation_plan", EvaluationPlan).line()))
    checks = [(name, Cell(outcome, tone=_tone(outcome))) for name, outcome in (check.get("checks") or {}).items()]
    return Section(
        "model",
        "Model",
        (
            Facts(rows),
            Table("Checks in a fresh process", ("check", "outcome"), checks),
            Table("Signatures", ("signature", "", "tensor", "type and shape"), signatures, len(signatures) > _ROWS),
            *_answer(check),
        ),
    )


def _answer(check: Mapping[str, Any]) -> Iterator[Block]:
    if check.get("answer"):
        what = f"Signature {check['asked']}" if check.get("asked") else "The model"
        example, fed = str(check.get("example")), check.get("fed") or ""
        yield Note(f"{what} was run on {example}{'' if fed in example else f' ({fed})'}.")
        inputs, answers = (check.get("inputs") or {}).items(), (check.get("answer") or {}).items()
        features = [(code(name), values_of(values)) for name, values in inputs]
        yield Table("Input", ("feature", "value"), features, folded=len(features) > _ROWS)
        yield Table("Prediction", ("output", "value"), [(code(name), values_of(values)) for name, values in answers])


def _tone(outcome: str) -> str:
    return GOOD if outcome == PASSED else "" if outcome.startswith(SKIPPED) else WARN


def arguments_section(record: RunRecord) -> Section:
    """Returns the section with the module's arguments and the run's options."""
    arguments: Arguments = {**record.arguments}
    options = arguments.pop("options", {})
    defaults = {name: json.loads(json.dumps(value)) for name, value in vars(TrainingOptions()).items()}
    chosen = {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}
    others = {name: value for name, value in options.items() if name not in chosen}
    given = {name: value for name, value in flattened(arguments) if value not in (None, "", [])}
    return Section(
        "arguments",
        "Arguments",
        (
            _values("fn_args", given.items()),
            _values("Options that differ from their defaults", flattened(chosen)),
            _values("Options at their defaults", flattened(others), folded=True),
        ),
    )


def _values(caption: str, items: Iterable[tuple[str, object]], folded: bool = False) -> Table:
    return Table(caption, ("name", "value"), [(code(name), code(value)) for name, value in items], folded)


def code_section(record: RunRecord, folder: str) -> Section:
    """Returns the section with the module's properties and versions, and its source code unless it is too long."""
    module, dialect, keras = record.code, record.dialect, record.keras
    rows: list[tuple[str, Value]] = [
        ("Module", code(module.get("reference"))),
        ("Function", code(module.get("function"))),
        ("Fingerprint", code(module.get("fingerprint"))),
        ("Dialect", f"{dialect['name']}: {dialect.get('reason')}" if dialect.get("name") else None),
        ("Keras", f"{keras['version']}: {keras.get('reason')}" if keras.get("version") else None),
        ("Run", code(record.id)),
    ]
    sources = sources_of(folder, record)
    small = sum(map(len, sources.values())) <= MAX_SOURCE_BYTES
    texts = [Code(name, text) for name, text in sources.items()] if small else []
    versions = Table("Versions", ("package", "version"), [(k, code(v)) for k, v in record.stack.items()])
    return Section("code", "Code and versions", (Facts(without_empty(rows)), *texts, versions))
