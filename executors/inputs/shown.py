"""What messages quote of data: as much as a person reads, whatever its size.

Usage:

    shown(b"old")                     # "'old'"
    listed(["age", "fare"])           # "age, fare"; of many names the first ones, and how many more there are
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

_CHARACTERS = 200
_NAMES = 30


def shown(value: Any) -> str:
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


def listed(names: Collection[Any]) -> str:
    """Returns names with commas between them: the first thirty, each cut, and how many more there are."""
    some = ", ".join(cut(str(name)) for name in itertools.islice(names, _NAMES))
    return f"{some} and {len(names) - _NAMES:,} more" if len(names) > _NAMES else some
