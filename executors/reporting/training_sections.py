"""Report sections on the training: curves, time, resources, and the attempts and workers of a cluster.

Parts that a record lacks, because the run failed early or was made by an older release, are omitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..monitoring.metrics import Metrics
from ..monitoring.metrics_origin import mark_of
from ..monitoring.resources import UsageRecord
from ..monitoring.series import Metric, step_rates
from .document import WARN, Block, Chart, Facts, Note, Section, Table, Value
from .quantities import seconds, share, size
from .values import plain, without_empty

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class _Profile:
    """The part `profile` of a record.

    Attributes:
      steps: Number of profiled batches.
      shares: Fraction of the time by category; they sum up to 1.
      step_ms: Milliseconds per step by category; only if there are steps.
      folder: Folder of the profile.
    """

    steps: int = 0
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)
    step_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    folder: str = ""


_PHASES = {
    "inputs": "Module and inputs",
    "training": "Training process",
    "training/load": "Training process: load module",
    "training/run_fn": "Training process: run_fn",
    "evaluator": "Evaluator",
    "check": "Model check",
    "publish": "Publishing",
    "analysis": "Error analysis",
}


def curves(record: RunRecord, logged: Sequence[Metric], last: Metrics) -> Section:
    """Returns a chart for each scalar that was logged more than once, and a table of the others.

    Args:
      record: Content of run.json; the epoch or step of the published weights is marked.
      logged: All scalars of the event files.
      last: Metrics that are shown elsewhere and are omitted from the table.
    """
    by_epoch = {metric.name for metric in logged if metric.axis == "epoch"}
    shown = [metric for metric in logged if metric.axis == "epoch" or metric.name not in by_epoch]
    charts = [chart_of(metric, mark_of(record, metric.axis)) for metric in shown if _is_curve(metric)]
    once = [
        (metric.name, split, f"{metric.axis} {curve.steps[0]:,}", curve.values[0])
        for metric in shown
        if not _is_curve(metric)
        for split, curve in metric.splits.items()
        if metric.name not in last.get(split, {})
    ]
    table = Table("Logged once", ("scalar", "split", "at", "value"), once)
    return Section("curves", "Curves", (*_nonfinite_notes(shown), *charts, table))


def _nonfinite_notes(metrics: Sequence[Metric]) -> Iterator[Note]:
    for metric in metrics:
        for split, curve in metric.splits.items():
            if curve.nonfinite_steps:
                first, count = curve.nonfinite_steps[0], len(curve.nonfinite_steps)
                times = f"{count:,} times, first" if count > 1 else "once,"
                text = f"{metric.name} ({split}) was NaN or infinite {times} at {metric.axis} {first:,}."
                yield Note(text, WARN)


def _is_curve(metric: Metric) -> bool:
    return any(len(curve.steps) > 1 for curve in metric.splits.values())


def chart_of(metric: Metric, mark: int | None = None) -> Chart:
    """Returns a metric's chart: a line for each split, and a mark at the published weights."""
    x = sorted({step for curve in metric.splits.values() for step in curve.steps})
    lines = {name: dict(zip(curve.steps, curve.values, strict=True)) for name, curve in metric.splits.items()}
    series = {name: [values.get(step) for step in x] for name, values in lines.items()}
    return Chart(metric.name, metric.axis, x, series, dashed=[name for name in series if name != "train"], mark=mark)


def time_section(record: RunRecord, metrics: Sequence[Metric]) -> Section:
    """Returns the section with durations of phases, throughput, and the profile of a step."""
    return Section("time", "Time", (_phases(record), *_throughput(metrics), *_profile(record)))


def _phases(record: RunRecord) -> Table:
    phases: Mapping[str, float] = record.phases
    whole = sum(took for name, took in phases.items() if "/" not in name)
    names = sorted_phases(phases)
    rows: list[Sequence[Value]] = [
        (phase_title(name), seconds(phases[name]), share(phases[name] / whole if whole else 0.0)) for name in names
    ]
    if rows:
        rows.append(("Total", seconds(whole), None))
    return Table("Time by phase", ("phase", "time", "share"), rows)


def sorted_phases(phases: Iterable[str]) -> list[str]:
    """Returns the unique names of phases in chronological order."""
    known = list(_PHASES)
    return sorted(dict.fromkeys(phases), key=lambda name: known.index(name) if name in known else len(known))


def phase_title(name: str) -> str:
    """Returns the display name of a phase."""
    return _PHASES.get(name, name)


def _throughput(metrics: Sequence[Metric]) -> Iterator[Chart]:
    steps = [curve for metric in metrics if metric.axis == "step" for curve in metric.splits.values()]
    longest = max(steps, key=lambda curve: len(curve.steps), default=None)
    if longest is not None and len(longest.steps) > 2:
        x, rates = step_rates(longest)
        yield Chart("Throughput", "seconds since the first scalar", x, {"training": rates}, unit="steps/s")


def _profile(record: RunRecord) -> Iterator[Block]:
    profile = record.part("profile", _Profile)
    each = profile.step_ms
    columns = ("category", "share", *(["ms per step"] if each else []))
    rows = [(name, share(part), *([each.get(name)] if each else [])) for name, part in profile.shares.items()]
    yield Table(f"Time by category in {profile.steps or 'some'} profiled steps", columns, rows)
    yield Note(f"The profile is in {profile.folder}." if profile.folder else "")


def resources_section(usage: UsageRecord) -> Section:
    """Returns the section with CPU, memory and GPU usage over time, of the training process and its children."""
    x, machine = usage.seconds, usage.machine
    memory = [value / 1e9 for value in usage.memory_bytes]
    gpu_memory = [value / 1e9 for value in usage.gpu_memory_bytes]
    drawn = (
        (f"CPUs in use{_out_of(machine.cpus, '')}", usage.cpu, "cores"),
        (f"Memory{_out_of(machine.memory_bytes / 1e9, ' GB')}", memory, "GB"),
        ("GPU utilization", usage.gpu_percent, "%"),
        ("GPU memory", gpu_memory, "GB"),
    )
    name = "training"
    charts = [
        Chart(title, "seconds since training began", x, {name: values}, unit=unit)
        for title, values, unit in drawn
        if len(x) > 1 and len(values) == len(x)
    ]
    peak = max(usage.memory_bytes, default=0)
    rows = [("Peak memory", size(peak))] if peak else []
    return Section("resources", "Resources", (Facts(rows), *charts))


def _out_of(most: float | None, unit: str) -> str:
    return f" (of {most:.3g}{unit})" if most else ""


def cluster_section(record: RunRecord) -> Section:
    """Returns the section with a cluster's workers, failures, and the steps lost to them."""
    cluster = record.cluster
    goodput = cluster.get("goodput")
    rows: list[tuple[str, Value]] = [
        ("Workers", ", then ".join(map(str, cluster.get("workers") or []))),
        ("Restarts", cluster.get("restarts")),
        ("Replaced workers", cluster.get("replaced") or None),
        ("Repeated steps", cluster.get("redone_steps")),
        ("Goodput", None if goodput is None else share(goodput)),
    ]
    return Section(
        "cluster",
        "Cluster",
        (
            Facts(without_empty(rows)),
            _dicts("Attempts", cluster.get("tries") or []),
            _dicts(
                "Throughput by worker",
                [{"worker": worker, **speed} for worker, speed in (cluster.get("speeds") or {}).items()],
            ),
            Table(
                "Stragglers",
                ("worker", "reason"),
                [(k, plain(v)) for k, v in (cluster.get("stragglers") or {}).items()],
            ),
            Table("Failures", ("failure",), [(plain(one),) for one in cluster.get("failures") or []]),
        ),
    )


def _dicts(caption: str, rows: Sequence[Mapping[str, object]]) -> Table:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Table(
        caption,
        [name.replace("_", " ") for name in columns],
        [[plain(row.get(name)) for name in columns] for row in rows],
    )
