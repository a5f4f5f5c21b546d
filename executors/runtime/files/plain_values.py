"""Checks that values parsed from JSON or YAML fit into JSON, protobuf and TensorFlow.

require_plain({"epochs": 3}, "--custom-config")
require_plain({"rate": math.nan}, "--custom-config")    # InputError: --custom-config: rate is nan, which …
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...errors import InputError
from ...number_range import INT64

MAX_DEPTH = 100  # readers of nested values are recursive; protobuf has the same limit


def require_plain(value: object, what: str) -> None:
    """Checks the depth of nested lists and dicts, and their numbers.

    Args:
      value: The value.
      what: The option or file, for messages.

    Raises:
      InputError: When it is nested too deeply, or contains NaN, infinity or an integer of more than 64 bits.
    """
    require_shallow(value, what)
    for field, number in _leaves(value, ""):
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"{what}: {field or 'the value'} is {number}, which JSON does not have. Give a number.")
        if isinstance(number, int) and not isinstance(number, bool) and not INT64.includes(number):
            raise InputError(f"{what}: {field or 'the value'} is an integer of more than 64 bits. Write it as a text.")


def require_shallow(value: object, what: str) -> None:
    """Checks the depth of nested lists and dicts; raises InputError if it is more than 100."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for part in level for _, item in _items(part)]
        if not level:
            return
    raise InputError(f"{what}: values are nested too deeply, more than {MAX_DEPTH} levels.")


def _leaves(value: object, field: str) -> Iterator[tuple[str, object]]:
    if not isinstance(value, (dict, list)):
        yield field, value
    for name, item in _items(value):
        yield from _leaves(item, f"{field}.{name}" if field else str(name))


def _items(value: object) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return [*value.items()]
    return [*enumerate(value)] if isinstance(value, list) else []
