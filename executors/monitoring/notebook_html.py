"""Small HTML tables that notebooks display for a result, with all text escaped.

class Outcome:
    def _repr_html_(self) -> str:
        return small_table("Pipeline run", {"Pushed model": self.pushed_model}, self.metrics)
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING

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


def record_table(record: RunJson) -> str:
    """Returns the HTML table of a run record.

    Args:
      record: The content of `run.json`.
    """
    error, check = record.get("error") or {}, record.get("check") or {}
    phases = {name: took for name, took in (record.get("phases") or {}).items() if "/" not in name}
    rows = {
        "status": str(record.get("status", "")),
        "error": f"{error.get('type')}: {error.get('message')}" if error else None,
        "started": str(record.get("started", "")),
        "seconds": ", ".join(f"{name} {took:.3g}" for name, took in phases.items()),
        "module": str((record.get("code") or {}).get("reference", "")),
        "dialect": (record.get("dialect") or {}).get("name"),
        "signatures": ", ".join(check.get("signatures", ())),
        "checks": ", ".join(f"{name} {outcome}" for name, outcome in check.get("checks", {}).items()),
        "model": (record.get("arguments") or {}).get("serving_model_dir"),
        "logs": (record.get("arguments") or {}).get("model_run_dir"),
    }
    return small_table(f"Run {record.get('id', '')[:8]}", rows, record.get("metrics") or {})


def _row(label: str, text: str, span: int) -> str:
    cell = f'<td colspan="{span}" style="text-align:left">{_safe(text)}</td>'
    return f'<tr><th scope="row">{_safe(label)}</th>{cell}</tr>'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _safe(text: object) -> str:
    return html.escape(str(text))
