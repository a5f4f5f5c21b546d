"""What messages quote of data: as much as a person reads, whatever its size.

Usage:

    shown(b"old")                     # "'old'"
    listed(["age", "fare"])           # "age, fare"; of many names the first ones, and how many more there are
    few(["a", "b", …], near="bb")     # "b, a, … and 27 more": at most five, the closest matches first
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection

_CHARACTERS = 200
_NAMES = 30
_FEW = 5


def shown(value: object) -> str:
    """Returns a text in quotes, or another value as Python writes it; cut after 200 characters."""
    if isinstance(value, bytes):
        value = value[: 4 * _CHARACTERS + 4].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return repr(value[:_CHARACTERS]) + "…" * (len(value) > _CHARACTERS)
    if isinstance(value, (list, tuple)):
        value = value[:_CHARACTERS]
    return cut(repr(value))


def cut(text: str) -> str:
    """Returns a text, cut after 200 characters."""
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def listed(names: Collection[object]) -> str:
    """Returns names with commas between them: the first thirty, each cut, and how many more there are."""
    some = ", ".join(cut(str(name)) for name in itertools.islice(names, _NAMES))
    return f"{some} and {len(names) - _NAMES:,} more" if len(names) > _NAMES else some


def few(names: Collection[str], near: str = "") -> str:
    """Returns at most five names with commas between them, and how many more there are.

    Args:
      names: The names.
      near: The name that was looked for: the closest matches come first. Else the order is kept.
    """
    if len(names) <= _FEW:
        return listed(names)
    closest = difflib.get_close_matches(near, names, _FEW, cutoff=0.0) if near else list(names)[:_FEW]
    return f"{listed(closest)} and {len(names) - _FEW:,} more"
