"""Parses JSON, and checks that values from JSON or YAML fit into JSON, protobuf and TensorFlow.

config = parsed_json(text, "--custom-config taxi.json")
require_plain(config, "--custom-config taxi.json")    # InputError: --custom-config taxi.json: rate is nan, which …
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from typing import Any

from ...errors import InputError
from ...number_range import INT64

MAX_DEPTH = 100  # readers of nested values are recursive; protobuf has the same limit


def parsed_json(text: str | bytes, what: str) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: The text; bytes are UTF-8.
      what: The option or file, for messages.

    Raises:
      InputError: When it is not JSON, has a duplicate key in an object, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=functools.partial(_without_duplicates, what))
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is not JSON: the byte at position {error.start} is not UTF-8.") from error
    except ValueError as error:
        raise InputError(f"{what} is not JSON: {error}.") from error
    except RecursionError as error:
        raise InputError(f"{what}: its values are nested too deeply.") from error


def _without_duplicates(what: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise InputError(f"{what}: the key {key!r} occurs twice. Keep one of them.")
        values[key] = value
    return values


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
