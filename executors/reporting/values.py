"""Formats the values of a run's record: paths and values as code, nested dicts flattened."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .document import Cell, Value

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord

_CHARACTERS = 2000  # maximum length of a value; complete values, such as long lists of files, are in run.json


def code(value: object) -> Cell | None:
    """Returns a path, a name or a value as a code cell, truncated if it is long; None for an empty value."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return Cell(text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…", is_code=True)


def plain(value: object) -> Value:
    """Returns a JSON value as a table cell's value; lists and dicts as JSON text."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else json.dumps(value, default=str)


def values_of(values: object) -> Cell:
    """Returns the values of a feature or an output: floats with four significant digits, others unchanged."""
    listed = values if isinstance(values, list) else [values]
    texts = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in listed]
    return Cell(", ".join(texts), is_code=True)


def flattened(values: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Flattens nested dicts: yields ("custom_config.epochs", 3) for {"custom_config": {"epochs": 3}}."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flattened(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def module_name(record: RunRecord) -> str:
    """Returns the display name of the run's module."""
    reference = str(record.code.get("reference") or "a module")
    return os.path.basename(reference.rstrip("/")) or reference


def without_empty(rows: Sequence[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """Returns the rows that have a value."""
    return [(name, value) for name, value in rows if value is not None and value != ""]
