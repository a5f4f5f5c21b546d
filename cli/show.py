"""`generic-trainer show RUN`: shows the details of one run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ..executors.monitoring.report_file import path_in
from ..executors.options import TrainingOptions
from ..executors.runtime.logs.error_output import one_line, traceback_lines
from ..executors.runtime.quantities import duration_text
from ..pipelines.history.runs import Run, find_run
from .history_flags import Locations, location_flags
from .run_name import RunName
from .summary import summary_lines
from .tables import format_time, print_json, print_pairs, print_section

if TYPE_CHECKING:
    from ..executors.monitoring.run_record import RunRecord


@click.command()
@click.argument("run", type=RunName())
@location_flags
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the fields of Run, and its run.json as `record`.")
def show(run: str, as_json: bool, locations: Locations) -> None:
    """Shows the inputs, duration, metrics and outputs of one RUN.

    RUN is `last`, a run id or a prefix of one, the name of a pipeline run, or a directory: an --output of train, a
    pipeline root, a model run, a model or a pushed model.

    \b
    Example:
      generic-trainer show last
      generic-trainer show pipeline/serving/1795371723

    With --json: the keys of `runs --json`, and record, the contents of the run's run.json.
    """  # noqa: D301 (click's mark of lines to keep)
    found = find_run(run, **locations)
    if as_json:
        print_json({**found.to_json(), "record": found.record.to_json() if found.record.id else {}})
        return
    print_pairs(_run_facts(found))
    _print_metrics(found)
    _print_phases(found.record.phases)
    if traceback := found.record.traceback:
        click.echo()
        for line in traceback_lines(traceback):
            click.echo(line)


def _run_facts(run: Run) -> dict[str, str | None]:
    record = run.record
    code, check, error = record.code, record.check, run.error or record.error
    took = f", {duration_text(run.seconds)}" if run.seconds is not None else ""
    blessed = {True: "yes", False: "no", None: None}[run.blessed]
    return {
        "Run": run.id,
        "Status": f"{run.status}, started {format_time(run.started)} UTC{took}",
        "Error": one_line(f"{error.get('type')}: {error.get('message')}") if error else None,
        "Pipeline": f"{run.pipeline}, run {run.pipeline_run}" if run.pipeline else None,
        "Module": code.get("reference") or run.module,
        "Fingerprint": run.fingerprint,
        "Dialect": _with_reason(record.dialect, "name") or run.dialect,
        "Keras": _with_reason(record.keras, "version"),
        "Arguments": _arguments(record.arguments),
        "Data": _data(record),
        "Versions": ", ".join(f"{name} {version}" for name, version in record.stack.items()),
        **summary_lines(record),
        "Model": run.model,
        _rejected_label(record): record.rejected,
        "Signatures": ", ".join(check.get("signatures", {})),
        "Checks": ", ".join(f"{name} {outcome}" for name, outcome in check.get("checks", {}).items()),
        "Blessed": blessed,
        "Pushed model": run.pushed_model,
        "Evaluation": run.evaluation,
        "Logs": run.model_run,
        "Report": path_in(run.model_run),
    }


def _rejected_label(record: RunRecord) -> str:
    if record.check:
        return "Complete model, not published"
    return "Not checked, not published" if record.unchecked else "Rejected"


def _with_reason(chosen: Mapping[str, object], key: str) -> str:
    return f"{chosen[key]} ({chosen.get('reason', '')})" if chosen.get(key) else ""


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Returns a run's arguments, one per line; options with default values are left out."""
    defaults = json.loads(json.dumps(dataclasses.asdict(TrainingOptions())))
    options = arguments.get("options", {})
    requested = {name: arguments.get(name) for name in ("train_steps", "eval_steps", "base_model", "hyperparameters")}
    requested |= {f"custom_config.{name}": value for name, value in (arguments.get("custom_config") or {}).items()}
    requested |= {name: value for name, value in options.items() if value != defaults.get(name)}
    return "\n".join(f"{name} = {value}" for name, value in requested.items() if value is not None)


@dataclasses.dataclass(frozen=True)
class _Files:
    files: int | None = None
    bytes: int | None = None


def _data(record: RunRecord) -> str:
    lines = []
    arguments, files = record.arguments, record.part("data", dict[str, _Files])
    requested = {"train_files": arguments.get("train_files"), "eval_files": arguments.get("eval_files")}
    for name, patterns in requested.items():
        known = files.get(name, _Files())
        for pattern in patterns or ():
            size = f", {known.bytes:,} bytes" if known.bytes is not None else ""
            count = f" ({known.files} file{'s' * (known.files != 1)}{size})" if known.files is not None else ""
            lines.append(f"{name.partition('_')[0]} {pattern}{count}")
    return "\n".join(lines)


def _print_metrics(run: Run) -> None:
    splits = [split for split in ("train", "eval") if run.metrics.get(split)]
    names = list(dict.fromkeys(name for split in splits for name in run.metrics[split]))
    print_section(
        ["metric", *splits], [[name, *(run.metrics[split].get(name) for split in splits)] for name in names], splits
    )


def _print_phases(phases: dict[str, float]) -> None:
    rows = [["  " * ("/" in name) + name.rpartition("/")[2], f"{took:.3f}"] for name, took in _in_order(phases)]
    print_section(["phase", "seconds"], rows, right=["seconds"])


def _in_order(phases: dict[str, float]) -> list[tuple[str, float]]:
    """Returns the phases, each followed by its sub-phases, which are recorded before the phase itself."""
    wholes = [name for name in phases if "/" not in name]
    return [
        (name, phases[name])
        for whole in wholes
        for name in [whole, *(part for part in phases if part.startswith(f"{whole}/"))]
    ]
