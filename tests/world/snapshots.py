"""Text files that pin what a user sees; tests with UPDATE_SNAPSHOTS=1 rewrite them."""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import sys
from collections.abc import Mapping

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
UPDATE = "UPDATE_SNAPSHOTS"
# What differs between two runs of the same training, or between machines; floats do as well.
VARYING = frozenset(
    (
        *("id", "started", "modified", "digest", "fingerprint", "module_fingerprint", "stack"),
        *("host", "number", "cpus", "memory", "bytes", "memory_bytes", "size_bytes", "calls"),
        *("mappings", "tensors", "alike"),  # by the order of the examples, and names in the graph
    )
)
# Durations and sizes, which may come in other units, and other numbers that are no integers.
_QUANTITY = re.compile(r"\d+ min \d+ s|[\d.]+(e[-+]\d+)? (?P<unit>µs|ms|s|[kMGT]?B)\b|\d+\.\d+(e[-+]\d+)?")


def assert_unchanged(name: str, text: str, advice: str = "") -> None:
    """Compares a text with the snapshot in `tests/name`; the failure prints the difference and the advice."""
    path = TESTS / name
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = list(difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "now", lineterm="", n=1))
    if lines:
        test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
        accept = f"{UPDATE}=1 {os.path.relpath(sys.executable)} -m pytest '{test}'"
        report = [f"tests/{name} differs (- before, + now). {advice or 'Revert it, or accept it with'}", f"  {accept}"]
        pytest.fail("\n".join([*lines[:200], "", *report]), pytrace=False)


def masked(value: object, places: Mapping[str, str], key: str = "") -> object:
    """Returns JSON values with the types of those that vary, and with the names of places instead of their paths."""
    if key in VARYING or isinstance(value, float):
        return type(value).__name__
    if isinstance(value, dict):
        return {name: masked(inner, places, name) for name, inner in value.items()}
    if isinstance(value, list):
        is_numeric = value and all(isinstance(inner, float) for inner in value)
        return "list of float" if is_numeric else [masked(inner, places) for inner in value]
    if isinstance(value, str):
        for place, path in places.items():
            value = value.replace(path, place)
        return _QUANTITY.sub(lambda match: "float" if match["unit"] is None else "quantity", value)
    return value
