"""Compares two or more runs: their differences in tables, and their curves in common charts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..monitoring.resources import UsageRecord
from ..monitoring.run_record import RUN_SPECIFIC_ARGUMENTS
from ..monitoring.series import Curve, Metric, read_metrics
from ..runtime.logs.error_output import one_line
from .document import (
    BAD,
    GOOD,
    WARN,
    Cell,
    Chart,
    Code,
    Note,
    Report,
    Section,
    Table,
    Value,
)
from .outcome_sections import median_of
from .quantities import difference, seconds, size
from .source import sources_of
from .training_sections import phase_title, sorted_phases
from .values import code, flattened, module_name

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord

_SPLITS = {"eval": "Evaluation", "train": "Training"}
Direction: TypeAlias = "Callable[[str], bool | None]"


def comparison(
    runs: Sequence[tuple[str, RunRecord]],
    names: Sequence[str] = (),
    higher_is_better: Direction = lambda metric: None,
) -> Report:
    """Returns a report that compares several runs with the first one.

    Args:
      runs: (folder of the model run, content of its run.json).
      names: Display names of the runs; by default "A", "B", ….
      higher_is_better: Returns whether a metric improves by increasing; None if not known.
    """
    names = names or [chr(ord("A") + number) for number in range(len(runs))]
    records = [record for _, record in runs]
    versions = [record.stack for record in records]
    sections = (
        Section("outcome", "Runs", (_runs(names, runs),)),
        Section("metrics", "Metrics", [_metrics(names, records, split, higher_is_better) for split in _SPLITS]),
        Section("curves", "Curves", list(_curves(names, [read_metrics(folder) for folder, _ in runs]))),
        Section("time", "Time and size", (_costs(names, records),)),
        Section(
            "arguments", "Arguments", (_differing("Arguments", names, [_arguments(record) for record in records]),)
        ),
        Section("code", "Code and versions", (*_code(names, runs), _differing("Versions", names, versions))),
    )
    modules = list(dict.fromkeys(module_name(record) for record in records))
    title = f"{len(runs)} runs of {', '.join(modules)}"
    return Report(title, "", (), [section for section in sections if section])


def _runs(names: Sequence[str], runs: Sequence[tuple[str, RunRecord]]) -> Table:
    rows: list[Sequence[Value]] = [
        ("Status", *(_status(record) for _, record in runs)),
        ("Started", *(record.started[:19].replace("T", " ") for _, record in runs)),
        ("Module", *(module_name(record) for _, record in runs)),
        ("Model run", *(code(folder) for folder, _ in runs)),
        ("Run", *(code(record.id[:12]) for _, record in runs)),
        ("Error", *(_error(record) for _, record in runs)),
    ]
    return Table("Compared runs", ("", *names), [row for row in rows if any(row[1:])])


def _status(record: RunRecord) -> Cell:
    status = record.status or "unknown"
    return Cell(status, tone={"succeeded": GOOD, "failed": BAD, "interrupted": WARN}.get(status, ""))


def _error(record: RunRecord) -> str | None:
    error = record.error
    return one_line(str(error.get("message"))) if error else None


def _metrics(names: Sequence[str], records: Sequence[RunRecord], split: str, direction: Direction) -> Table:
    first, *others = [record.metrics.get(split) or {} for record in records]
    found = dict.fromkeys(name for values in (first, *others) for name in values)
    rows: list[Sequence[Value]] = []
    for name in found:
        pairs = [(values.get(name), _change(values.get(name), first.get(name), direction(name))) for values in others]
        rows.append((name, first.get(name), *(value for pair in pairs for value in pair)))
    columns = ["metric", names[0], *(column for name in names[1:] for column in (name, f"{name} vs. {names[0]}"))]
    return Table(_SPLITS[split], columns, rows)


def _change(value: float | None, other: float | None, higher_is_better: bool | None) -> Cell | None:
    return None if value is None or other is None else difference(value, other, higher_is_better)


def _curves(names: Sequence[str], metrics: Sequence[Sequence[Metric]]) -> Iterator[Chart]:
    """Yields a chart for each metric with a curve in any run: one color per run, eval dashed."""
    by_key = [{(metric.name, metric.axis): metric for metric in found} for found in metrics]
    keys = dict.fromkeys(key for found in by_key for key in found)
    epochs = {name for name, axis in keys if axis == "epoch"}
    for name, axis in keys:
        if axis == "epoch" or name not in epochs:
            lines: dict[str, tuple[int, Curve]] = {
                f"{run}, {split}": (number, curve)
                for number, (run, found) in enumerate(zip(names, by_key, strict=True))
                if (name, axis) in found
                for split, curve in found[name, axis].splits.items()
            }
            if any(len(curve.steps) > 1 for _, curve in lines.values()):
                yield _overlaid(name, axis, lines)


def _overlaid(name: str, axis: str, lines: Mapping[str, tuple[int, Curve]]) -> Chart:
    x = sorted({step for _, curve in lines.values() for step in curve.steps})
    points = {label: dict(zip(curve.steps, curve.values, strict=True)) for label, (_, curve) in lines.items()}
    return Chart(
        name,
        axis,
        x,
        {label: [values.get(step) for step in x] for label, values in points.items()},
        dashed=[label for label in lines if not label.endswith(", train")],
        colours={label: number for label, (number, _) in lines.items()},
    )


def _costs(names: Sequence[str], records: Sequence[RunRecord]) -> Table:
    phases = [record.phases for record in records]
    checks = [record.check for record in records]
    peaks = [max(record.part("resources", UsageRecord).memory_bytes, default=0) for record in records]
    rows: list[Sequence[Value]] = [
        (phase_title(name), *(seconds(one[name]) if name in one else None for one in phases))
        for name in sorted_phases(name for one in phases for name in one)
    ]
    rows += [
        ("Prediction latency (median)", *map(median_of, checks)),
        ("Model size", *(size(one["size_bytes"]) if one.get("size_bytes") else None for one in checks)),
        ("Peak memory", *(size(peak) if peak else None for peak in peaks)),
    ]
    return Table("Durations and sizes", ("", *names), [row for row in rows if any(row[1:])])


def _arguments(record: RunRecord) -> dict[str, object]:
    arguments = record.arguments
    return dict(flattened({name: value for name, value in arguments.items() if name not in RUN_SPECIFIC_ARGUMENTS}))


def _differing(caption: str, names: Sequence[str], values: Sequence[Mapping[str, object]]) -> Table:
    keys = dict.fromkeys(key for one in values for key in one)
    rows = [
        (code(key), *(code(one.get(key)) for one in values))
        for key in keys
        if any(one.get(key) != values[0].get(key) for one in values)
    ]
    return Table(f"{caption} that differ", ("name", *names), rows)


def _code(names: Sequence[str], runs: Sequence[tuple[str, RunRecord]]) -> Iterator[Note | Code]:
    """Yields the differences between the first run's module and that of each other run."""
    (folder, record), *others = runs
    first, fingerprint = sources_of(folder, record), record.code.get("fingerprint")
    for name, (other_folder, other) in zip(names[1:], others, strict=True):
        if other.code.get("fingerprint") == fingerprint:
            yield Note(f"{name} ran the same code as {names[0]}.")
            continue
        there = sources_of(other_folder, other)
        if not first or not there:
            yield Note(f"{name} ran different code from {names[0]}; the source of at least one run is not available.")
        else:
            yield Code(f"Code: {names[0]} to {name}", diff_of(first, there, names[0], name), folded=False, is_diff=True)


def diff_of(before: Mapping[str, str], after: Mapping[str, str], name: str, other: str) -> str:
    """Returns the unified diff of two sets of files, given as {file: text}."""
    lines: list[str] = []
    for file in sorted({*before, *after}):
        old, new = (texts.get(file, "").splitlines() for texts in (before, after))
        lines += difflib.unified_diff(old, new, f"{name}/{file}", f"{other}/{file}", lineterm="")
    return "\n".join(lines)
