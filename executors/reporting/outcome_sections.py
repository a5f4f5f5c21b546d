"""Report sections on the outcome of a run: the error and its location, or the model and its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..checkpoints.damage import Damage
from ..inputs.bad_records import SkippedRecords
from ..monitoring.metrics import Metrics
from ..monitoring.metrics_origin import origin_line, origin_of, weights_line
from ..runtime.files.artifact_layout import kept_folder
from .document import (
    WARN,
    Block,
    Cell,
    Facts,
    Note,
    Section,
    Table,
    Value,
)
from .quantities import seconds, size
from .values import code, without_empty

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord

_TILES = 4
_ROWS = 30  # longer tables are initially collapsed
# Parts of the names of the most important metrics, in display order; other metrics follow in their original order.
_HEADLINES = (
    *("auc", "accuracy", "f1", "precision", "recall", "r2"),
    *("mean_squared", "mean_absolute", "mse", "mae", "loss"),
)
_NOT_HEADLINES = ("count", "learning_rate", "global_step", "/sec", "_diff")


def outcome(record: RunRecord, metrics: Metrics, facts: Sequence[tuple[str, Value]] = ()) -> Section:
    """Returns the outcome section: the error, or the main metrics and the model's location, size and latency.

    Args:
      record: Content of run.json.
      metrics: Metrics to show, from the record or from an evaluation.
      facts: Further rows, such as the pushed model's location.
    """
    check, arguments = record.check, record.arguments
    rows: list[tuple[str, Value]] = []
    if rejected := record.rejected:
        kind = "model (complete)" if check else "model (not checked)" if record.unchecked else "outputs"
        rows.append((f"Unpublished {kind}", code(rejected)))
    elif check:
        rows.append(("Model", code(arguments.get("serving_model_dir"))))
    rows += facts
    if logs := arguments.get("model_run_dir"):
        rows.append(("TensorBoard logs", code(kept_folder(logs) if record.error else logs)))
    split = "eval" if metrics.get("eval") else "train"
    values = metrics.get(split) or {}
    tiles: list[tuple[str, Value]] = [(f"{name} ({split})", values[name]) for name in headline_metrics(values)[:_TILES]]
    if check.get("size_bytes"):
        tiles.append(("model size", size(check["size_bytes"])))
    if latency := median_of(check):
        tiles.append(("prediction latency (median)", latency))
    return Section(
        "outcome",
        "Outcome",
        (
            *_failure(record),
            *_skipped_records(record),
            *_damaged_checkpoints(record),
            Facts(tiles, tiles=True),
            Facts(without_empty(rows)),
        ),
    )


def median_of(check: Mapping[str, Any]) -> Cell | None:
    """Returns the median latency of a prediction in the model check; None if it was not measured."""
    median = check.get("latency", {}).get("median")
    return None if median is None else seconds(median)


def _failure(record: RunRecord) -> Iterator[Block]:
    error = record.error
    if not error:
        if record.status == "running":
            yield Note("This run has not ended, or it was killed before it could record its outcome.", WARN)
        return
    if record.status == "interrupted":
        yield Note(f"Interrupted: {error.get('message')}. The metrics are those logged before the interruption.", WARN)
        return
    from .failure import failure_blocks

    yield from failure_blocks(record, f"{error.get('type')}: {error.get('message')}")


def _skipped_records(record: RunRecord) -> Iterator[Block]:
    bad = record.part("bad_records", SkippedRecords)
    if count := bad.count:
        yield Note(f"Skipped {count:,} unreadable record{'s' * (count != 1)} (limit: {bad.limit:,}).", WARN)


def _damaged_checkpoints(record: RunRecord) -> Iterator[Block]:
    for damage in record.part("damaged_checkpoints", list[Damage]):
        yield Note(f"{damage.path} is damaged: {damage.problem}; {damage.result}.", WARN)


def skipped_records_section(record: RunRecord) -> Section:
    """Returns the section that lists the skipped bad records."""
    skipped = record.part("bad_records", SkippedRecords).records
    rows = [(code(bad.file), bad.place, bad.problem, bad.count) for bad in skipped]
    table = Table("Bad records", ("file", "place", "problem", "records"), rows, folded=len(rows) > _ROWS)
    return Section("skipped", "Skipped records", (table,))


def headline_metrics(metrics: Mapping[str, float]) -> list[str]:
    """Returns the metrics' names, the most important ones first.

    Omits counts, and metrics with the same value as another one, such as TFMA's `binary_accuracy` with Keras's
    `accuracy`.
    """

    def rank(name: str) -> int:
        return next((number for number, sign in enumerate(_HEADLINES) if sign in name.lower()), len(_HEADLINES))

    names = sorted((name for name in metrics if not any(sign in name for sign in _NOT_HEADLINES)), key=rank)
    return list({f"{metrics[name]:.4g}": name for name in reversed(names)}.values())[::-1]


def metrics_section(record: RunRecord, metrics: Metrics) -> Section:
    """Returns the section with the metrics of record by split, and the weights to which they apply."""
    splits = [split for split in ("train", "eval") if metrics.get(split)]
    names = dict.fromkeys(name for split in splits for name in metrics[split])
    rows = [(name, *(metrics[split].get(name) for split in splits)) for name in names]
    line = origin_line(record)
    note = Note(f"Metrics of {line}." if line else "", WARN if origin_of(record).source == "unknown" else "")
    weights = Note(f"Weights: {text}." if (text := weights_line(record)) else "")
    return Section("metrics", "Metrics", (note, weights, Table("Recorded metrics", ("metric", *splits), rows)))
