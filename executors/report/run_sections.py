"""A run's sections, from its record (run.json) and the event files beside it.

Whatever a record lacks, because the run failed early or an older release wrote it, is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..metrics import Metrics
from ..options import TrainingOptions
from .document import BAD, GOOD, WARN, Block, Cell, Chart, Code, Facts, Note, Section, Table, Value
from .failure import place_of
from .quantities import seconds, share, size
from .series import Metric, rate
from .source import MODULE_SHOWN_BYTES, sources_of

Record = Mapping[str, Any]

_TILES = 4
_CHARACTERS = 2000  # of a value: a list of some thousand files is in run.json
_ROWS = 30  # more are for who opens the table
# What a reader looks for first, in this order; other metrics follow in their own.
_HEADLINES = (
    "auc",
    "accuracy",
    "f1",
    "precision",
    "recall",
    "r2",
    "mean_squared",
    "mean_absolute",
    "mse",
    "mae",
    "loss",
)
_UNINTERESTING = ("count", "learning_rate", "global_step", "/sec", "_diff")
_PHASES = {
    "inputs": "Module and inputs",
    "training": "Training process",
    "training/load": "of it: loading the module",
    "training/run_fn": "of it: run_fn",
    "evaluator": "Evaluator",
    "check": "Check of the model",
    "publish": "Publishing",
}
_PASSED, _SKIPPED = "passed", "skipped"


def outcome(record: Record, metrics: Metrics, facts: Sequence[tuple[str, Value]] = ()) -> Section:
    """Returns what came of the run: the error, or the metrics that count, the model's place, size and speed.

    Args:
      record: What is in run.json.
      metrics: Those to show, as the record has them, or an evaluation's.
      facts: Further lines, such as where the model was pushed.
    """
    check, arguments = record.get("check") or {}, record.get("arguments") or {}
    rows: list[tuple[str, Value]] = []
    if check:
        rows.append(("Model", code(arguments.get("serving_model_dir"))))
    rows += facts
    rows.append(("TensorBoard logs", code(arguments.get("model_run_dir"))))
    split = "eval" if metrics.get("eval") else "train"
    values = metrics.get(split) or {}
    tiles: list[tuple[str, Value]] = [(f"{name} ({split})", values[name]) for name in headlines(values)[:_TILES]]
    if check.get("size_bytes"):
        tiles.append(("model size", size(check["size_bytes"])))
    if check.get("latency"):
        tiles.append(("one prediction (median)", median_of(check)))
    return Section("outcome", "Outcome", (*_failure(record), Facts(tiles, tiles=True), Facts(_present(rows))))


def median_of(check: Record) -> Cell | None:
    """Returns how long one prediction took in the check, None where it was not timed."""
    return seconds(check["latency"]["median"]) if check.get("latency") else None


def _failure(record: Record) -> Iterator[Block]:
    error = record.get("error")
    if not error:
        if record.get("status") == "running":
            yield Note("This run has not ended, or it was killed before it could say so.", WARN)
        return
    yield Note(f"{error.get('type')}: {error.get('message')}", BAD)
    traceback = str(record.get("traceback") or "")
    if place := place_of(traceback, (record.get("code") or {}).get("files") or ()):
        yield Facts([("Where", code(place))])
    yield Code("Traceback", traceback, folded=False)


def headlines(metrics: Mapping[str, float]) -> list[str]:
    """Returns the metrics' names with those that a reader looks for first in front.

    Counts are left out, and what has the value of another one: TFMA's `binary_accuracy` beside Keras's `accuracy`.
    """

    def rank(name: str) -> int:
        return next((number for number, sign in enumerate(_HEADLINES) if sign in name.lower()), len(_HEADLINES))

    names = sorted((name for name in metrics if not any(sign in name for sign in _UNINTERESTING)), key=rank)
    return list({f"{metrics[name]:.6g}": name for name in reversed(names)}.values())[::-1]


def metrics_section(metrics: Metrics) -> Section:
    """Returns all last values, train beside eval."""
    splits = [split for split in ("train", "eval") if metrics.get(split)]
    names = dict.fromkeys(name for split in splits for name in metrics[split])
    rows = [(name, *(metrics[split].get(name) for split in splits)) for name in names]
    return Section("metrics", "Metrics", (Table("Last values", ("metric", *splits), rows),))


def curves(metrics: Sequence[Metric]) -> Section:
    """Returns a chart for each scalar that was logged more than once."""
    by_epoch = {metric.name for metric in metrics if metric.axis == "epoch"}
    shown = [metric for metric in metrics if metric.axis == "epoch" or metric.name not in by_epoch]
    charts = [chart_of(metric) for metric in shown if _is_curve(metric)]
    return Section("curves", "Curves", charts)


def _is_curve(metric: Metric) -> bool:
    return any(len(curve.steps) > 1 for curve in metric.splits.values())


def chart_of(metric: Metric) -> Chart:
    """Returns a metric's chart: a line for each split."""
    x = sorted({step for curve in metric.splits.values() for step in curve.steps})
    lines = {name: dict(zip(curve.steps, curve.values, strict=True)) for name, curve in metric.splits.items()}
    series = {name: [values.get(step) for step in x] for name, values in lines.items()}
    return Chart(metric.name, metric.axis, x, series, dashed=[name for name in series if name != "train"])


def time_section(record: Record, metrics: Sequence[Metric]) -> Section:
    """Returns seconds by phase, steps per second, and where a profiled step's time went."""
    return Section("time", "Time", (_phases(record), *_throughput(metrics), *_profile(record), *_tuning(record)))


def _phases(record: Record) -> Table:
    phases: Mapping[str, float] = record.get("phases") or {}
    whole = sum(took for name, took in phases.items() if "/" not in name)
    names = in_order(phases)
    rows: list[Sequence[Value]] = [
        (phase_title(name), seconds(phases[name]), share(phases[name] / whole if whole else 0.0)) for name in names
    ]
    if rows:
        rows.append(("All", seconds(whole), None))
    return Table("Time by phase", ("phase", "time", "share"), rows)


def in_order(phases: Iterable[str]) -> list[str]:
    """Returns the names of phases in the order in which they come about, each once."""
    known = list(_PHASES)
    return sorted(dict.fromkeys(phases), key=lambda name: known.index(name) if name in known else len(known))


def phase_title(name: str) -> str:
    """Returns what to call a phase of the record."""
    return _PHASES.get(name, name)


def _throughput(metrics: Sequence[Metric]) -> Iterator[Chart]:
    steps = [curve for metric in metrics if metric.axis == "step" for curve in metric.splits.values()]
    longest = max(steps, key=lambda curve: len(curve.steps), default=None)
    if longest is not None and len(longest.steps) > 2:
        x, rates = rate(longest)
        yield Chart("Throughput", "seconds since the first scalar", x, {"training": rates}, unit="steps/s")


def _profile(record: Record) -> Iterator[Block]:
    profile = record.get("profile") or {}
    shares, each = profile.get("shares") or {}, profile.get("step_ms") or {}
    columns = ("part", "share", *(["ms a step"] if each else []))
    rows = [(name, share(part), *([each.get(name)] if each else [])) for name, part in shares.items()]
    yield Table(f"Where the time of {profile.get('steps') or 'some'} profiled steps went", columns, rows)
    yield Note(f"The profile is in {profile['folder']}." if profile.get("folder") else "")


def _tuning(record: Record) -> Iterator[Block]:
    fits = (record.get("tuning") or {}).get("fits") or []
    columns = list(dict.fromkeys(name for fit in fits for name in fit))
    rows = [[plain(fit.get(name)) for name in columns] for fit in fits]
    yield Table("How steps were found to run fastest", columns, rows)


def resources_section(record: Record) -> Section:
    """Returns processor, memory and GPU over time, of the training process and what it started."""
    found = record.get("resources") or {}
    x, machine = found.get("seconds") or [], found.get("machine") or {}
    memory, gpu_memory = (
        [value / 1e9 for value in found.get(name) or []] for name in ("memory_bytes", "gpu_memory_bytes")
    )
    drawn = (
        (f"Processors in use{_of(machine.get('cpus'), '')}", found.get("cpu") or [], "cores"),
        (f"Memory{_of(machine.get('memory_bytes', 0) / 1e9, ' GB')}", memory, "GB"),
        ("GPU in use", found.get("gpu_percent") or [], "%"),
        ("GPU memory", gpu_memory, "GB"),
    )
    name = "training"
    charts = [
        Chart(title, "seconds since training began", x, {name: values}, unit=unit)
        for title, values, unit in drawn
        if len(x) > 1 and len(values) == len(x)
    ]
    peak = max(found.get("memory_bytes") or [0])
    rows = [("Most memory at a time", size(peak))] if peak else []
    return Section("resources", "Resources", (Facts(rows), *charts))


def _of(most: float | None, unit: str) -> str:
    return f" (of {most:.3g}{unit})" if most else ""


def cluster_section(record: Record) -> Section:
    """Returns who trained on a cluster, what failed, and what that cost."""
    cluster = record.get("cluster") or {}
    goodput = cluster.get("goodput")
    rows: list[tuple[str, Value]] = [
        ("Workers", ", then ".join(map(str, cluster.get("workers") or []))),
        ("Restarts", cluster.get("restarts")),
        ("Steps done again", cluster.get("redone_steps")),
        ("Goodput", None if goodput is None else share(goodput)),
    ]
    return Section(
        "cluster",
        "Cluster",
        (
            Facts(_present(rows)),
            _dicts("Tries", cluster.get("tries") or []),
            _dicts("Speeds", [{"worker": worker, **speed} for worker, speed in (cluster.get("speeds") or {}).items()]),
            Table(
                "Stragglers", ("worker", "why"), [(k, plain(v)) for k, v in (cluster.get("stragglers") or {}).items()]
            ),
            Table("Failures", ("failure",), [(plain(one),) for one in cluster.get("failures") or []]),
        ),
    )


def _dicts(caption: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Table(
        caption,
        [name.replace("_", " ") for name in columns],
        [[plain(row.get(name)) for name in columns] for row in rows],
    )


def model_section(record: Record) -> Section:
    """Returns the checks that the model passed, its signatures, and what it answered to an example."""
    check = record.get("check") or {}
    signatures = [
        (code(name), direction, code(tensor), code(kind))
        for name, sides in (check.get("signatures") or {}).items()
        for direction, tensors in (("input", sides.get("inputs", {})), ("output", sides.get("outputs", {})))
        for tensor, kind in tensors.items()
    ]
    latency = check.get("latency") or {}
    rows: list[tuple[str, Value]] = [("Size", size(check["size_bytes"]))] if check.get("size_bytes") else []
    if latency:
        timed = f"median {seconds(latency['median']).text}, 90 % within {seconds(latency['p90']).text}"
        rows.append(("One prediction", f"{timed} ({latency['calls']} calls on the processor, one example each)"))
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


def _answer(check: Record) -> Iterator[Block]:
    if check.get("answer"):
        asked = f"{check['asked']} was asked" if check.get("asked") else "The model was asked"
        yield Note(f"{asked} {check.get('example')}.")
        inputs, answers = ((check.get(name) or {}).items() for name in ("inputs", "answer"))
        features = [(code(name), values_of(values)) for name, values in inputs]
        yield Table("The example", ("feature", "value"), features, folded=len(features) > _ROWS)
        yield Table("Its answer", ("output", "value"), [(code(name), values_of(values)) for name, values in answers])


def _tone(outcome: str) -> str:
    return GOOD if outcome == _PASSED else "" if outcome == _SKIPPED else WARN


def arguments_section(record: Record) -> Section:
    """Returns what the module was given, and the options of the run."""
    arguments = dict(record.get("arguments") or {})
    options = arguments.pop("options", {})
    usual = {name: json.loads(json.dumps(value)) for name, value in vars(TrainingOptions()).items()}
    chosen = {name: value for name, value in options.items() if name not in usual or value != usual[name]}
    others = {name: value for name, value in options.items() if name not in chosen}
    given = {name: value for name, value in flat(arguments) if value not in (None, "", [])}
    return Section(
        "arguments",
        "Arguments",
        (
            _values("fn_args", given.items()),
            _values("Options that differ from their defaults", flat(chosen)),
            _values("Options at their defaults", flat(others), folded=True),
        ),
    )


def _values(caption: str, items: Any, folded: bool = False) -> Table:
    return Table(caption, ("name", "value"), [(code(name), code(value)) for name, value in items], folded)


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields ("custom_config.epochs", 3) for {"custom_config": {"epochs": 3}}."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def code_section(record: Record, folder: str) -> Section:
    """Returns what the module is, and its text if that is small."""
    module, dialect, keras = (record.get(name) or {} for name in ("code", "dialect", "keras"))
    rows: list[tuple[str, Value]] = [
        ("Module", code(module.get("reference"))),
        ("Function", code(module.get("function"))),
        ("Fingerprint", code(module.get("fingerprint"))),
        ("Dialect", f"{dialect['name']}: {dialect.get('reason')}" if dialect.get("name") else None),
        ("Keras", f"{keras['version']}: {keras.get('reason')}" if keras.get("version") else None),
        ("Run", code(record.get("id"))),
    ]
    sources = sources_of(folder, record)
    small = sum(map(len, sources.values())) <= MODULE_SHOWN_BYTES
    texts = [Code(name, text) for name, text in sources.items()] if small else []
    versions = Table("Versions", ("package", "version"), [(k, code(v)) for k, v in (record.get("stack") or {}).items()])
    return Section("code", "Code and versions", (Facts(_present(rows)), *texts, versions))


def code(value: Any) -> Cell | None:
    """Returns a path, a name or a value as it is written in code, the beginning of a long one; None for nothing."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return Cell(text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…", is_code=True)


def plain(value: Any) -> Value:
    """Returns a JSON value for a table's cell."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else json.dumps(value, default=str)


def values_of(values: Any) -> Cell:
    """Returns the values of a feature or an output: numbers with four digits, texts as they are."""
    listed = values if isinstance(values, list) else [values]
    texts = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in listed]
    return Cell(", ".join(texts), is_code=True)


def module_name(record: Record) -> str:
    """Returns what to call the run's module."""
    reference = str((record.get("code") or {}).get("reference") or "a module")
    return os.path.basename(reference.rstrip("/")) or reference


def _present(rows: Sequence[tuple[str, Value]]) -> list[tuple[str, Value]]:
    return [(name, value) for name, value in rows if value is not None and value != ""]
