"""Displays a run record in notebooks: a table of the metrics, the curve of the loss, and a link to the report."""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Mapping
from urllib.parse import quote

from IPython.core.getipython import get_ipython

from ...monitoring.report_file import path_in
from ...monitoring.run_record import RunRecord
from ...monitoring.series import EPOCH, Curve, read_metrics
from ...runtime.files import file_io

_WIDTH, _HEIGHT = 320, 90  # pixels
_DASHES = {"train": "none", "eval": "5 3"}


def register() -> None:
    """Registers the HTML of run records in this notebook's kernel."""
    formatters = get_ipython().display_formatter.formatters  # type: ignore[no-untyped-call]
    formatters["text/html"].for_type(RunRecord, html_of)


def html_of(record: RunRecord) -> str:
    """Returns a record as HTML, without scripts and with all text escaped."""
    parts = _table(f"Run {record.id[:8]} {record.status}", record.metrics)
    if folder := os.path.dirname(record.path):
        parts += _curve(folder)
    if report := path_in(folder):
        parts.append(f'<div><a href="{html.escape(_link(report))}" target="_blank">Report</a></div>')
    return "\n".join(parts)


def _table(title: str, metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    splits = [split for split in _DASHES if metrics.get(split)]
    rows = [["", *splits]] if splits else []
    for name in dict.fromkeys(name for split in splits for name in metrics[split]):
        values = [metrics[split].get(name) for split in splits]
        rows.append([name, *("" if value is None else f"{value:.5g}" for value in values)])
    cells = ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows]
    return [f"<table><caption>{html.escape(title)}</caption>", *(f"<tr>{row}</tr>" for row in cells), "</table>"]


def _curve(folder: str) -> list[str]:
    """Returns the loss that was logged below a folder as SVG, by epoch if possible; nothing without a curve."""
    losses = [metric for metric in read_metrics(folder) if "loss" in metric.name]
    loss = min(losses, key=lambda metric: (metric.name != "loss", metric.axis != EPOCH), default=None)
    lines = {split: _finite(loss.splits[split]) for split in _DASHES if loss and split in loss.splits}
    points = [point for line in lines.values() for point in line]
    if loss is None or max(map(len, lines.values()), default=0) < 2:
        return []
    (left, right), (low, high) = ((min(numbers), max(numbers)) for numbers in zip(*points, strict=True))
    svg = [f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="currentColor">']
    x_scale, y_scale = _WIDTH / (right - left or 1), _HEIGHT / (high - low or 1)
    for split, line in lines.items():
        places = " ".join(f"{(step - left) * x_scale:.1f},{(high - value) * y_scale:.1f}" for step, value in line)
        svg.append(f'<polyline points="{places}" stroke-dasharray="{_DASHES[split]}"/>')
    title = f"{loss.name} by {loss.axis}, from {high:.3g} to {low:.3g}; eval is dashed"
    return [*svg, "</svg>", f"<div>{html.escape(title)}</div>"]


def _finite(curve: Curve) -> list[tuple[int, float]]:
    return [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if value is not None]


def _link(path: str) -> str:
    """Returns a path as notebooks open it: relative to the current folder if it is below it, else as a URL."""
    if file_io.is_remote(path):
        return path
    below = os.path.relpath(path)
    return pathlib.Path(path).absolute().as_uri() if below.startswith(os.pardir) else quote(below)
