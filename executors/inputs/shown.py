"""Truncated representations of values and lists of names for error messages.

Usage:

    shown(b"old")                     # "'old'"
    listed(["age", "fare"])           # "age, fare"; long lists are cut to "…, … and 12 more"
    few(["a", "b", …], near="bb")     # "b, a, … and 27 more": at most five, closest matches first
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection

_CHARACTERS = 200
_NAMES = 30
_FEW = 5


def shown(value: object) -> str:
    """Returns the `repr` of a value, truncated to 200 characters; bytes are decoded as UTF-8."""
    if isinstance(value, bytes):
        value = value[: 4 * _CHARACTERS + 4].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return repr(value[:_CHARACTERS]) + "…" * (len(value) > _CHARACTERS)
    if isinstance(value, (list, tuple)):
        value = value[:_CHARACTERS]
    return cut(repr(value))


def cut(text: str) -> str:
    """Truncates a text to 200 characters and an ellipsis."""
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def listed(names: Collection[object]) -> str:
    """Returns a comma-separated list of the first 30 names, each truncated by `cut`, and the number of the others."""
    some = ", ".join(cut(str(name)) for name in itertools.islice(names, _NAMES))
    return f"{some} and {len(names) - _NAMES:,} more" if len(names) > _NAMES else some


def few(names: Collection[str], near: str = "") -> str:
    """Returns a comma-separated list of at most five names, and the number of the others.

    Args:
      names: The names.
      near: The name that was not found; if there are more than five names, its closest matches are listed. Without it,
        the first five are.
    """
    if len(names) <= _FEW:
        return listed(names)
    closest = difflib.get_close_matches(near, names, _FEW, cutoff=0.0) if near else list(names)[:_FEW]
    return f"{listed(closest)} and {len(names) - _FEW:,} more"
