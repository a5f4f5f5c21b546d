"""The summary that commands print at the end: locations of outputs, hyper-parameters and metrics.

With `--json`, `train` prints a `RunSummary` and `run` a `PipelineSummary`: the keys are the names of the fields, and
all of them are present.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ..executors.checkpoints.damage import Damage
from ..executors.inputs.bad_records import SkippedRecords
from ..executors.monitoring import run_record
from ..executors.monitoring.metrics_origin import origin_line, weights_line
from ..executors.monitoring.report_file import path_in
from ..executors.monitoring.run_record import RunRecord
from ..executors.monitoring.unchecked_model import unchecked_line
from ..executors.tuning.tuner_fn import KERAS_TUNER_PREFIX
from .tables import print_line, print_pairs

if TYPE_CHECKING:
    from ..executors.monitoring.run_json import ClusterJson

Metrics = Mapping[str, Mapping[str, float]]

_MAX_BAD_RECORDS = 3  # maximum of bad records to list


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """The output of `train --json`.

    Attributes:
      model: Folder of the published SavedModel, or None.
      model_run: Folder of the TensorBoard logs and `run.json`, or None.
      report: The HTML report, or None.
      metrics: {"train": {name: value}, "eval": {name: value}}; a split without metrics may be missing.
      metrics_of: The weights to which the metrics belong, or None if unknown.
      hyperparameters: {name: value} of the input hyper-parameters.
      cluster: The workers, as in `run.json`; None for a single process.
      bad_records: The skipped unreadable records, as in `run.json`; None without any.
      not_checked: Why the check has not loaded the model; None if it has.
    """

    model: str | None
    model_run: str | None
    report: str | None
    metrics: Metrics
    metrics_of: str | None
    hyperparameters: Mapping[str, object]
    cluster: ClusterJson | None
    bad_records: Mapping[str, object] | None
    not_checked: str | None


@dataclasses.dataclass(frozen=True)
class PipelineSummary(RunSummary):
    """The output of `run --json`: the fields of `train --json`, and these.

    `model` is the Model artifact's folder, and `metrics` are those of the Evaluator, if it has any.

    Attributes:
      slices: {slice: {metric: value}} of the Evaluator.
      evaluation: The evaluation plan in one line, or None.
      blessed: Whether the Evaluator blessed the model; None without an Evaluator.
      reason: Why the model was not blessed, or why there was no threshold; None otherwise.
      pushed_model: Folder of the pushed model, or None if it was not pushed.
      already_pushed: Whether it had been pushed before this run.
      metadata: Location of the ML Metadata store.
      cached: IDs of the steps whose outputs came from the cache.
    """

    slices: Metrics
    evaluation: str | None
    blessed: bool | None
    reason: str | None
    pushed_model: str | None
    already_pushed: bool
    metadata: str
    cached: Sequence[str]


def run_summary(record: RunRecord, model: str | None, model_run: str | None) -> RunSummary:
    """Returns the summary of a run with its model's folder and its model run."""
    return RunSummary(
        model=model,
        model_run=model_run,
        report=path_in(model_run),
        metrics=record.metrics,
        metrics_of=origin_line(record) or None,
        hyperparameters=hyperparameters_of(record),
        cluster=record.cluster or None,
        bad_records=record.parts.get("bad_records") or None,
        not_checked=unchecked_line(record) or None,
    )


def summary_lines(record: RunRecord) -> dict[str, str]:
    """Returns a run's summary lines other than locations: {label: text, or "" if it does not apply}.

    These are the workers, the skipped records, the damaged checkpoints, what the model needs, why the check did not
    load it, the model weights to which the metrics belong, and weights of examples that the metrics do not
    use.
    """
    check = record.check
    return {
        "Workers": workers_line(record.cluster),
        "Skipped": left_out_line(record.part("bad_records", SkippedRecords)),
        "Damaged": "\n".join(
            f"{damage.path}: {damage.problem}; {damage.result}"
            for damage in record.part("damaged_checkpoints", list[Damage])
        ),
        "Model needs": ", ".join(check.get("op_packages") or ()),
        "Not checked": unchecked_line(record),
        "Metrics of": origin_line(record),
        "Weights": weights_line(record),
    }


def left_out_line(bad_records: SkippedRecords) -> str:
    """Returns the number of skipped unreadable records and the first of them; "" if there are none.

        2 unreadable records (limit: 10)
        train/part-0, byte 1125, record 26: its checksum is wrong
        train/part-1, byte 40, record 2: it is cut off

    Args:
      bad_records: The part `bad_records` of the record.
    """
    count = bad_records.count
    if not count:
        return ""
    lines = [f"{count:,} unreadable record{'s' * (count != 1)} (limit: {bad_records.limit:,})"]
    listed = bad_records.records
    lines += [str(record) for record in listed[:_MAX_BAD_RECORDS]]
    lines += [f"and more; all are in {run_record.FILE_NAME}"] if len(listed) > _MAX_BAD_RECORDS else []
    return "\n".join(lines)


def workers_line(cluster: ClusterJson) -> str:
    """Returns the number of workers, restarts and throughput in one to three lines; "" for a single process.

        2, 4 after a failure
        1 restart, 37 steps repeated, goodput 0.83
        worker 0 5,100 examples/s, worker 1 2,400 examples/s

    Args:
      cluster: `RunRecord.cluster`.
    """
    first, *later = [str(count) for count in cluster.get("workers", [])] or [""]
    lines = [", ".join([first, *(f"{count} after a failure" for count in later)])]
    if cluster.get("goodput") is not None:
        restarts, steps = cluster.get("restarts", 0), cluster.get("redone_steps", 0)
        replaced = cluster.get("replaced", 0)
        again = [f"{restarts} restart{'s' * (restarts != 1)}, {steps:,} step{'s' * (steps != 1)} repeated"] * bool(
            restarts
        )
        again += [f"{replaced} worker{'s' * (replaced != 1)} replaced"] * bool(replaced)
        lines.append(", ".join([*again, f"goodput {cluster['goodput']:.2f}"]))
    if speeds := cluster.get("speeds"):
        lines.append(", ".join(f"{worker} {_speed(speed)}" for worker, speed in speeds.items()))
    return "\n".join(lines)


def _speed(speed: Mapping[str, float]) -> str:
    if "examples_per_second" in speed:
        return f"{speed['examples_per_second']:,.0f} examples/s"
    return f"{speed.get('steps_per_second', 0.0):,.3g} steps/s"


def hyperparameters_of(record: RunRecord) -> dict[str, object]:
    """Returns a run's input hyper-parameters by name; {} if there were none."""
    values = (record.arguments.get("hyperparameters") or {}).get("values") or {}
    return {name: value for name, value in values.items() if not name.startswith(KERAS_TUNER_PREFIX)}


json_flag = click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON, and all other output to standard error."
)


def print_summary(
    places: Mapping[str, str | None],
    metrics: Mapping[str, Mapping[str, float]],
    hyperparameters: Mapping[str, object] | None = None,
) -> None:
    """Prints one line per location, hyper-parameter and metric to standard output.

    Args:
      places: {label: path}; entries without a path are left out.
      metrics: {"train": {...}, "eval": {...}}; the eval metrics are printed, or the train metrics if there are no
        eval metrics.
      hyperparameters: {name: value}.
    """
    print_pairs(places)
    if hyperparameters:
        click.echo("Hyperparameters:")
        _print_values(hyperparameters)
    split = "eval" if metrics.get("eval") else "train"
    values = metrics.get(split)
    if not values:
        click.echo("Metrics:      none (run_fn evaluated, logged, reported and returned none)")
        return
    click.echo(f"{split.capitalize()} metrics:")
    _print_values(values)


def _print_values(values: Mapping[str, object]) -> None:
    width = max(map(len, values))
    for name, value in values.items():
        shown = f"{value:.5g}" if isinstance(value, float) else value
        print_line(f"  {name:<{width}}  {shown}")
