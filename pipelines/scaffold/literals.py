"""Python literals as source text, in the style of a formatter (ruff, black)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LINE_LENGTH = 120


def literal(value: object) -> str:
    """Returns a string, a number, or a tuple, list or dict of them as source text in one line; lists become tuples."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def assignment(name: str, value: Any, comment: str = "") -> str:
    """Returns `NAME = value  # comment`; tuples and dicts longer than 120 characters get one item per line.

    assignment("FEATURES", ("fare", "tips"))    'FEATURES = ("fare", "tips")'
    """
    behind = f"  # {comment}" if comment else ""
    line = f"{name} = {literal(value)}"
    if len(line) <= LINE_LENGTH and (len(line) + len(behind) <= LINE_LENGTH or not isinstance(value, (tuple, Mapping))):
        return line + behind
    pairs = value.items() if isinstance(value, Mapping) else ((None, one) for one in value)
    items = [literal(one) if key is None else f"{literal(key)}: {literal(one)}" for key, one in pairs]
    opening, closing = "{}" if isinstance(value, Mapping) else "()"
    return "\n".join([f"{name} = {opening}{behind}", *(f"    {item}," for item in items), closing])


def _string(text: str) -> str:
    """Returns a string literal with double quotes, or with single quotes if these need fewer backslashes."""
    inner = repr(text + "'\"")[1:-4].replace("\\'", "'")  # everything escaped except quotes
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + inner.replace(mark, f"\\{mark}") + mark
