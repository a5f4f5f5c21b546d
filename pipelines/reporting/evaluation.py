"""The report's section on an evaluation: TFMA's metrics and slices, with confidence intervals if there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...executors.reporting.document import (
    BAD,
    GOOD,
    WARN,
    Block,
    Cell,
    Chart,
    Note,
    Section,
    Table,
    Value,
    as_cell,
)
from ...executors.reporting.outcome_sections import headline_metrics
from ...executors.reporting.prediction_sections import plots_section
from ..history.evaluation_results import ALL, Evaluation, Measure

_COUNT = "example_count"


def evaluation_sections(evaluation: Evaluation, blessed: bool | None) -> list[Section]:
    """Returns the section on an evaluation: verdict, metrics over all examples and by slice; [] if it is empty."""
    slices = dict(evaluation.slices)
    overall = slices.pop(ALL, {})
    rows = [(name, measure.value, _interval(measure)) for name, measure in overall.items()]
    has_intervals = any(measure.interval for measure in overall.values())
    columns = ("metric", "value", *(("95 % interval",) if has_intervals else ()))
    blocks: list[Block] = [
        Note(_verdict(evaluation, blessed), "" if blessed else BAD),
        *(Note(note, WARN) for note in (evaluation.verdict.notes if evaluation.verdict else ())),
        Note(f"Evaluated: {plan}" if (plan := evaluation.verdict and evaluation.verdict.plan_line) else ""),
        Table("Missed thresholds", ("slice", "metric", "reason"), evaluation.failures),
        Table("All examples", columns, [row[: len(columns)] for row in rows]),
    ]
    names = headline_metrics({name: measure.value for name, measure in overall.items()})
    blocks += [_chart(name, slices) for name in names[:1] if slices]  # the table shows the other metrics
    blocks.append(_table(slices, [*names, *(name for name in overall if name == _COUNT)], overall))
    section = Section("evaluation", "Evaluation", blocks)
    return [section] if section else []


def prediction_sections(evaluation: Evaluation) -> list[Section]:
    """Returns the section on predictions and labels over all examples; [] without plots."""
    names = dict(evaluation.verdict.class_names) if evaluation.verdict else {}
    names.setdefault("", next(iter(names.values()), {}))  # TFMA's plots of a single output do not have its name
    section = plots_section(evaluation.plots, names)
    return [section] if section else []


def _verdict(evaluation: Evaluation, blessed: bool | None) -> str:
    if blessed is None:
        return ""
    found = evaluation.verdict
    if blessed:
        return "The model was blessed." if found is None or found.has_threshold else f"{found.reason}."
    reason = f": {found.reason.rstrip('.')}." if found and found.reason else "."
    return f"The model was not blessed, so it was not pushed{reason}"


def _interval(measure: Measure) -> Cell | None:
    if measure.interval is None:
        return None
    low, high = measure.interval
    return Cell(f"{low:.4g} to {high:.4g}", is_number=True)


def _chart(metric: str, slices: Mapping[str, Mapping[str, Measure]]) -> Chart:
    with_metric = {name: found[metric] for name, found in slices.items() if metric in found}
    intervals = {metric: [measure.interval for measure in with_metric.values()]}
    return Chart(
        f"{metric} by slice",
        "slice",
        list(with_metric),
        {metric: [measure.value for measure in with_metric.values()]},
        intervals=intervals if any(measure.interval for measure in with_metric.values()) else {},
    )


def _table(slices: Mapping[str, Mapping[str, Measure]], names: Sequence[str], overall: Mapping[str, Measure]) -> Table:
    rows: list[Sequence[Value]] = [
        (name, *(_measure_cell(found.get(metric)) for metric in names)) for name, found in slices.items()
    ]
    if rows:
        rows.append((Cell(ALL, tone=GOOD), *(_measure_cell(overall.get(metric)) for metric in names)))
    return Table("Slices", ("slice", *names), rows, folded=len(rows) > 12)


def _measure_cell(measure: Measure | None) -> Cell | None:
    if measure is None:
        return None
    value = (
        as_cell(int(measure.value)) if measure.value.is_integer() and abs(measure.value) > 1 else as_cell(measure.value)
    )
    if measure.interval is None:
        return value
    return Cell(f"{value.text} ({measure.interval[0]:.4g} to {measure.interval[1]:.4g})", is_number=True)
