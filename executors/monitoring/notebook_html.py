"""What notebooks display for a result: a small HTML table, the curve of the loss, and a link to the report.

class Outcome:
    def _repr_html_(self) -> str:
        return run_view("Pipeline run", {"Pushed model": self.pushed_model}, self.metrics, self.model_run)

There are no scripts, and all text is escaped.
"""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..runtime.files import file_io
from ..runtime.logs.error_output import one_line
from .loss_curve import loss_of, svg_of
from .report_file import path_in

if TYPE_CHECKING:
    from .run_json import RunJson


def small_table(title: str, rows: Mapping[str, str | None], metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Returns an HTML table: a caption, a row for each label with a text, and a row for each metric by split.

    Args:
      title: The caption.
      rows: {label: text}; rows without a text are left out.
      metrics: {"train": {...}, "eval": {...}}.
    """
    lines = [f"<table><caption>{_safe(title)}</caption>"]
    lines += [_row(label, text, span=max(1, len(metrics))) for label, text in rows.items() if text]
    splits = [split for split in ("train", "eval") if metrics.get(split)]
    if splits:
        heads = "".join(f'<th scope="col">{split}</th>' for split in splits)
        lines.append(f'<tr><th scope="col">metric</th>{heads}</tr>')
    for name in dict.fromkeys(name for split in splits for name in metrics[split]):
        values = "".join(f"<td>{_number(metrics[split].get(name))}</td>" for split in splits)
        lines.append(f'<tr><th scope="row">{_safe(name)}</th>{values}</tr>')
    return "\n".join([*lines, "</table>"])


def run_view(
    title: str, rows: Mapping[str, str | None], metrics: Mapping[str, Mapping[str, float]], folder: str | None
) -> str:
    """Returns the table of a run, with the curve of its loss and a link to its report if there are any.

    Args:
      title: See `small_table`.
      rows: See `small_table`.
      metrics: See `small_table`.
      folder: The model run; None if there is none.
    """
    parts = [small_table(title, rows, metrics)]
    if folder and (loss := loss_of(folder)):
        parts.append(f"<div>{svg_of(loss)}</div>")
    if path := path_in(folder):
        parts.append(f'<div><a href="{_safe(_link(path))}" target="_blank">Report</a></div>')
    return "\n".join(parts)


def _link(path: str) -> str:
    """Returns a path as notebooks open it: relative to the current folder if it is below it, else as a URL."""
    if file_io.is_remote(path):
        return path
    below = os.path.relpath(path)
    return pathlib.Path(path).absolute().as_uri() if below.startswith(os.pardir) else quote(below)


def record_view(record: RunJson, folder: str) -> str:
    """Returns the view of a run record, see `run_view`.

    Args:
      record: The content of `run.json`.
      folder: The model run with `run.json`; "" if it was not written.
    """
    error, check = record.get("error") or {}, record.get("check") or {}
    phases = {name: took for name, took in (record.get("phases") or {}).items() if "/" not in name}
    rows = {
        "status": str(record.get("status", "")),
        "error": one_line(f"{error.get('type')}: {error.get('message')}") if error else None,
        "started": str(record.get("started", "")),
        "seconds": ", ".join(f"{name} {took:.3g}" for name, took in phases.items()),
        "module": str((record.get("code") or {}).get("reference", "")),
        "dialect": (record.get("dialect") or {}).get("name"),
        "signatures": ", ".join(check.get("signatures", ())),
        "checks": ", ".join(f"{name} {outcome}" for name, outcome in check.get("checks", {}).items()),
        "model": (record.get("arguments") or {}).get("serving_model_dir"),
        "logs": (record.get("arguments") or {}).get("model_run_dir"),
    }
    return run_view(f"Run {record.get('id', '')[:8]}", rows, record.get("metrics") or {}, folder)


def _row(label: str, text: str, span: int) -> str:
    cell = f'<td colspan="{span}" style="text-align:left">{_safe(text)}</td>'
    return f'<tr><th scope="row">{_safe(label)}</th>{cell}</tr>'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _safe(text: object) -> str:
    return html.escape(str(text))
