"""Compares two runs: arguments, code, data, metrics, versions and phase durations.

difference = compare(find_run("last"), find_run("4f0c1a2b"))
difference.arguments["options.seed"]  # (1, 2)
difference.source                     # a unified diff of the module's files
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import TypeVar

from ...executors.modules.snapshot import read_source
from ...executors.monitoring.run_record import RUN_SPECIFIC_ARGUMENTS
from .lineage import ARTIFACT, lineage_of_run
from .metric_comparison import is_higher_better
from .run import Run

T = TypeVar("T")
# Fields of fn_args that are left out: output paths differ in every run, and the others follow from compared values.
_STEP_OUTPUTS = ("schema_path", "transform_graph_path")  # in a pipeline a new folder for each execution of a step
_DATA = ("train_files", "eval_files")
_EXAMPLES_PROPERTIES = ("span", "version", "input_fingerprint", "payload_format")


@dataclasses.dataclass(frozen=True)
class MetricDifference:
    """A metric's values in two runs.

    Attributes:
      before: Value in the first run; None if it does not have the metric.
      after: Value in the second run; None if it does not have the metric.
      difference: after - before; None if one is missing.
      is_better: Whether the second value is better; None if the values are equal, one is missing, or the metric's
        direction is unknown (see `is_higher_better`).
    """

    before: float | None
    after: float | None
    difference: float | None
    is_better: bool | None


@dataclasses.dataclass(frozen=True)
class RunDifference:
    """The differences between two runs; equal values are left out, except metrics and phases.

    Attributes:
      runs: The two runs.
      arguments: Differing fn_args, custom_config entries and options: {name: (first, second)}.
      same_code: Whether the module fingerprints are equal; None if one is unknown.
      files: {file: "changed", "added" or "removed"} for the module's files; {} if a run has no source snapshot.
      source: Unified diff of these files; "" if a run has no source snapshot.
      data: Differences of train_files and eval_files or, in pipelines, of the Examples: {name: (first, second)}.
      metrics: All metrics by split and name, such as "eval/auc".
      versions: Differing package versions, dialect and Keras mode: {name: (first, second)}.
      phases: Seconds by phase, (first, second); None if a run did not reach the phase.
    """

    runs: tuple[Run, Run]
    arguments: dict[str, tuple[object, object]]
    same_code: bool | None
    files: dict[str, str]
    source: str
    data: dict[str, tuple[object, object]]
    metrics: dict[str, MetricDifference]
    versions: dict[str, tuple[object, object]]
    phases: dict[str, tuple[float | None, float | None]]

    def to_json(self) -> dict[str, object]:
        """Returns the difference as JSON values, with run IDs instead of runs."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        metrics = {name: dataclasses.asdict(metric) for name, metric in self.metrics.items()}
        return {**fields, "runs": [run.id for run in self.runs], "metrics": metrics}


def compare(first: Run, second: Run) -> RunDifference:
    """Compares two runs by their run records, source snapshots and input Examples.

    Raises:
      InputError: When a run's store cannot be read.
    """
    runs = (first, second)
    sources = [read_source(run.model_run) if run.model_run else {} for run in runs]
    known = [run.fingerprint for run in runs]
    files, text = _source_diff(*sources) if all(sources) else ({}, "")
    return RunDifference(
        runs=runs,
        arguments=_differences(*map(_arguments, runs)),
        same_code=known[0] == known[1] if all(known) else None,
        files=files,
        source=text,
        data=_differences(*map(_data, runs)),
        metrics={name: _metric(name, *pair) for name, pair in _pairs(*map(_metrics, runs)).items()},
        versions=_differences(*map(_versions, runs)),
        phases=_pairs(*(run.record.phases for run in runs)),
    )


def _pairs(first: Mapping[str, T], second: Mapping[str, T]) -> dict[str, tuple[T | None, T | None]]:
    return {name: (first.get(name), second.get(name)) for name in (*first, *second)}


def _differences(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    return {name: pair for name, pair in _pairs(first, second).items() if pair[0] != pair[1]}


def _arguments(run: Run) -> dict[str, object]:
    """Returns the compared fn_args by name; nested mappings such as custom_config are flattened to dotted names."""
    excluded = (*RUN_SPECIFIC_ARGUMENTS, *_DATA, *(_STEP_OUTPUTS if run.execution is not None else ()))
    arguments = run.record.arguments
    return dict(_flatten({name: value for name, value in arguments.items() if name not in excluded}))


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value or None if isinstance(value, (dict, list)) else value


def _data(run: Run) -> dict[str, object]:
    """Returns the data arguments and recorded facts about a run's files, or in a pipeline properties of its Examples.

    In a pipeline files are not compared: Transform writes them to a new folder in each run, and their bytes differ
    because the order of the maps in serialized tf.Examples is undefined.
    """
    if run.execution is None:
        arguments = run.record.arguments
        return {name: arguments.get(name) for name in _DATA} | dict(
            _flatten(run.record.part("data", dict[str, object]))
        )
    lineage = lineage_of_run(run)
    known: dict[str, object] = {}
    for node in lineage.nodes:
        if node.kind == ARTIFACT and node.type == "Examples":
            role = next((role for role, _ in lineage.predecessors(node.id)), "examples")
            known |= {
                f"{role}.{name}": node.properties[name] for name in _EXAMPLES_PROPERTIES if name in node.properties
            }
    return known


def _versions(run: Run) -> dict[str, object]:
    record = run.record
    return {"dialect": record.dialect.get("name"), "Keras mode": record.keras.get("version"), **record.stack}


def _metrics(run: Run) -> dict[str, float]:
    return {
        f"{split}/{name}": run.metrics[split][name]
        for split in ("train", "eval")
        for name in run.metrics.get(split, ())
    }


def _metric(name: str, before: float | None, after: float | None) -> MetricDifference:
    if before is None or after is None:
        return MetricDifference(before, after, None, None)
    higher = is_higher_better(name)
    is_better = None if higher is None or before == after else (after > before) == higher
    return MetricDifference(before, after, after - before, is_better)


def _source_diff(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Returns {file: "changed", "added" or "removed"}, and the unified diff of these files."""
    files: dict[str, str] = {}
    lines: list[str] = []
    for name, (before, after) in sorted(_pairs(first, second).items()):
        if before == after:
            continue
        files[name] = "added" if before is None else "removed" if after is None else "changed"
        old, new = ((text or "").splitlines() for text in (before, after))
        lines += difflib.unified_diff(old, new, f"first/{name}", f"second/{name}", lineterm="")
    return files, "\n".join(lines)
