"""Parses JSON, and reports each mistake as an `InputError`.

config = parsed_json(text, "--custom-config taxi.json")
require_plain(config, "--custom-config taxi.json")    # of plain_values.py: refuses NaN, as Python writes it
"""

from __future__ import annotations

import json
from typing import Any

from ...errors import InputError


def parsed_json(text: str | bytes, what: str) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: The text; bytes are UTF-8.
      what: The option or file, for messages.

    Raises:
      InputError: When it is not JSON, has a duplicate key in an object, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except _DuplicateKey as error:
        raise InputError(f"{what}: the key {error.key!r} occurs twice. Keep one of them.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is not JSON: the byte at position {error.start} is not UTF-8.") from error
    except ValueError as error:
        raise InputError(f"{what} is not JSON: {error}.") from error
    except RecursionError as error:
        raise InputError(f"{what}: its values are nested too deeply.") from error


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise _DuplicateKey(key)
        values[key] = value
    return values
