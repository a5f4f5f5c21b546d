"""Truncated representations of values and lists of names for error messages.

Usage:

    short_repr(b"old")                      # "'old'"
    join_names(["age", "fare"])             # "age, fare"; long lists are cut to "…, … and 12 more"
    closest_names(["a", "b", …], near="bb") # "b, a, … and 27 more": at most five, the nearest one first
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

from ..spelling import nearest

_MAX_CHARACTERS = 200
_MAX_NAMES = 30
_MAX_CLOSEST = 5


def short_repr(value: object) -> str:
    """Returns the `repr` of a value, truncated to 200 characters; bytes are decoded as UTF-8."""
    if isinstance(value, bytes):
        value = value[: 4 * _MAX_CHARACTERS + 4].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return repr(value[:_MAX_CHARACTERS]) + "…" * (len(value) > _MAX_CHARACTERS)
    if isinstance(value, (list, tuple)):
        value = value[:_MAX_CHARACTERS]
    return shorten(repr(value))


def shorten(text: str) -> str:
    """Truncates a text to 200 characters and an ellipsis."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def join_names(names: Collection[object], most: int = _MAX_NAMES) -> str:
    """Returns a comma-separated list of the first `most` names, each shortened, and the number of the others."""
    some = ", ".join(shorten(str(name)) for name in itertools.islice(names, most))
    return f"{some} and {len(names) - most:,} more" if len(names) > most else some


def closest_names(names: Collection[str], near: str = "") -> str:
    """Returns a comma-separated list of at most five names, and the number of the others.

    Args:
      names: The names.
      near: The name that was not found; if it is a misspelling of one of the names, that one is listed first.
    """
    misspelled = nearest(near, names) if len(names) > _MAX_CLOSEST else None
    return join_names([*filter(None, [misspelled]), *(name for name in names if name != misspelled)], _MAX_CLOSEST)
