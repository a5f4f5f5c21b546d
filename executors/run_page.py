"""A run's record as one HTML page without scripts or links, for whoever shows artifacts: Kubeflow's user interface.

file_io.write_text(path, run_page(run_record.read(model_run_dir)))
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

_STYLE = """
body { font: 14px/1.5 sans-serif; margin: 2em; max-width: 60em; color: #222 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 1.6em }
table { border-collapse: collapse } td, th { padding: .15em 1em .15em 0; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
pre { background: #f5f5f5; padding: .7em; white-space: pre-wrap; overflow-wrap: anywhere }
.failed { color: #b00020 } .succeeded { color: #1b6e2d }
"""
_SECTIONS = (("train", "Training metrics"), ("eval", "Evaluation metrics"))


def run_page(record: Mapping[str, Any]) -> str:
    """Returns the page.

    Args:
      record: What is in run.json; parts that are missing, as in the record of a run that failed, are left out.
    """
    status = str(record.get("status", "unknown"))
    module = record.get("code", {}).get("reference", "a module")
    outcome = f'<span class="{_text(status)}">{_text(status)}</span>'
    parts = [f"<h1>Training of {_text(module)}: {outcome}</h1>"]
    if error := record.get("error"):
        parts.append(f"<pre>{_text(error.get('type'))}: {_text(error.get('message'))}</pre>")
    parts.append(_table("Run", _facts(record)))
    for split, title in _SECTIONS:
        parts.append(_table(title, record.get("metrics", {}).get(split, {}).items()))
    check = record.get("check", {})
    parts.append(_table("Checks of the model", check.get("checks", {}).items()))
    if check.get("answer"):
        parts.append(f"<p>It answers {_text(check.get('example'))}:</p>{_json(check['answer'])}")
    if check.get("signatures"):
        parts.append(f"<h2>Signatures</h2>{_json(check['signatures'])}")
    parts.append(_table("Seconds", record.get("phases", {}).items()))
    parts.append(_table("Versions", record.get("stack", {}).items()))
    if record.get("arguments"):
        parts.append(f"<h2>Arguments</h2>{_json(record['arguments'])}")
    head = f'<meta charset="utf-8"><title>Training of {_text(module)}</title><style>{_STYLE}</style>'
    body = "\n".join(filter(None, parts))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _facts(record: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    dialect, keras, check = (record.get(name) or {} for name in ("dialect", "keras", "check"))
    facts = {
        "Started": record.get("started"),
        "Dialect": dialect and f"{dialect.get('name')}: {dialect.get('reason')}",
        "Keras": keras and f"{keras.get('version')}: {keras.get('reason')}",
        "Code": record.get("code", {}).get("fingerprint"),
        "Model's size in bytes": check.get("size_bytes"),
        "Run": record.get("id"),
    }
    return [(name, value) for name, value in facts.items() if value]


def _table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    lines = "\n".join(f"<tr><th>{_text(name)}</th>{_cell(value)}</tr>" for name, value in rows)
    return f"<h2>{_text(title)}</h2>\n<table>\n{lines}\n</table>" if lines else ""


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
        return f'<td class="number">{number}</td>'
    return f"<td>{_text(value)}</td>"


def _json(value: Any) -> str:
    return f"<pre>{_text(json.dumps(value, indent=2, default=str))}</pre>"


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)
