"""Checks JSON values against a declaration of their types, at the boundary where a file is read.

    class Files(TypedDict, total=False):
        bytes: int

    checked_json({"bytes": 12, "newer": []}, Files, "run.json")  # the same value: undeclared fields are not checked
    checked_json({"bytes": "12"}, Files, "run.json")  # InputError: run.json: bytes: expected an integer, not "12"

A declaration is a TypedDict, or consists of `dict[str, …]`, `list[…]`, `… | None`, `str`, `bool`, `int`, `float` and
`object`. Readers of checked values need no checks of their own.
"""

from __future__ import annotations

import functools
import json
import math
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from ...errors import InputError
from . import file_io
from .json_text import parsed_json

T = TypeVar("T")
_MAX_BYTES = 64 << 20  # parsing takes a second, and a gigabyte of memory; records have about 10 kB
_MAX_DEPTH = 100  # readers of nested values are recursive
_INT64 = 1 << 63
_NAMES = {str: "a text", bool: "true or false", int: "an integer", float: "a number", dict: "an object", list: "a list"}
_SHOWN = 40  # characters of a value in a message


def read_checked_json(path: str, kind: type[T], what: str) -> T:
    """Reads a JSON file whose content must be of a declared type.

    Args:
      path: The file.
      kind: The declaration, a TypedDict.
      what: What the file is, for messages, such as "The run record".

    Raises:
      InputError: When it is too large, is not JSON, or has another type; names the file and the field.
      OSError: When it cannot be read, or is no regular file.
    """
    shown = f"{what} {path}"
    if (size := file_io.size_of(path)) > _MAX_BYTES:
        raise InputError(f"{shown} has {size:,} bytes, more than the {_MAX_BYTES:,} that are read.")
    return checked_json(parsed_json(file_io.read_bytes(path), shown), kind, shown)


def checked_json(value: object, kind: type[T], what: str) -> T:
    """Returns a JSON value of a declared type.

    Args:
      value: The value.
      kind: The declaration, a TypedDict.
      what: What the value is, for messages.

    Raises:
      InputError: When it has another type, is nested more than 100 levels deep, or has a number that is not finite or
        does not fit in 64 bits.
    """
    if _is_too_deep(value):
        raise InputError(f"{what}: its values are nested more than {_MAX_DEPTH} levels deep.")
    for problem in _problems(value, kind, ""):
        raise InputError(f"{what}: {problem}.")
    return cast("T", value)


def _is_too_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            item for part in level if isinstance(part, (dict, list))
            for item in (part.values() if isinstance(part, dict) else part)
        ]  # fmt: skip
        if not level:
            return False
    return True


def _problems(value: object, kind: Any, field: str) -> Iterator[str]:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is object or (value is None and type(None) in parts):
        return
    if origin in (typing.Union, types.UnionType):
        [kind] = [part for part in parts if part is not type(None)]
        yield from _problems(value, kind, field)
    elif typing.is_typeddict(kind) and isinstance(value, dict):
        yield from _problems_of_fields(value, kind, field)
    elif origin is dict and isinstance(value, dict):
        for name, item in value.items():
            yield from _problems(item, parts[1], _joined(field, name))
    elif origin is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, parts[0], f"{field}[{index}]")
    elif not _is_plain(value, kind):
        expected = _NAMES[dict if typing.is_typeddict(kind) else origin or kind]
        yield f"{field or 'its value'}: expected {expected}, not {_shown(value)}"


def _problems_of_fields(value: dict[str, object], kind: Any, field: str) -> Iterator[str]:
    for name in sorted(kind.__required_keys__ - value.keys()):
        yield f"{_joined(field, name)} is missing"
    for name, declared in _fields_of(kind).items():
        if name in value:
            yield from _problems(value[name], declared, _joined(field, name))


@functools.cache
def _fields_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _is_plain(value: object, kind: type) -> bool:
    """Whether a value is of a plain type; a number must be finite and fit in 64 bits."""
    if kind not in (int, float):
        return kind in (str, bool) and isinstance(value, kind)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, int):
        return -_INT64 <= value < _INT64
    return kind is float and math.isfinite(value)


def _joined(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return _NAMES[type(value)]
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"
