"""Checks JSON values against a declaration of their types, at the boundary where a file is read.

    class Files(TypedDict, total=False):
        bytes: int

    checked_json({"bytes": 12, "newer": []}, Files, "run.json")  # the same value: undeclared fields are not checked
    checked_json({"bytes": "12"}, Files, "run.json")  # InputError: run.json: bytes: expected an integer, not "12"

A declaration is a TypedDict or a dataclass, or consists of `dict[str, …]`, `list[…]`, `tuple[…]`, `… | None`, `str`,
`bool`, `int`, `float` and `object`. Readers of checked values need no checks of their own. JSON has lists for tuples.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from absl import logging

from ...errors import InputError
from ...number_range import INT64
from . import file_io
from .json_text import parsed_json
from .plain_values import require_shallow

T = TypeVar("T")
_MAX_BYTES = 64 << 20  # parsing takes a second, and a gigabyte of memory; records have about 10 kB
_NAMES = {str: "a text", bool: "true or false", int: "an integer", float: "a number"}
_OBJECTS = (dict, Mapping)
_LISTS = (list, tuple, Sequence)
_SHOWN = 40  # characters of a value in a message


def read_checked_json(path: str, kind: type[T], what: str, *, finite: bool = True) -> T:
    """Reads a JSON file whose content must be of a declared type.

    Args:
      path: The file.
      kind: The declaration.
      what: What the file is, for messages, such as "The run record".
      finite: Whether numbers must be finite.

    Raises:
      InputError: When it is too large, is not JSON, or has another type; names the file and the field.
      OSError: When it cannot be read, or is no regular file.
    """
    shown = f"{what} {path}"
    if (size := file_io.size_of(path)) > _MAX_BYTES:
        raise InputError(f"{shown} has {size:,} bytes, more than the {_MAX_BYTES:,} that are read.")
    return checked_json(parsed_json(file_io.read_bytes(path), shown), kind, shown, finite=finite)


def read_or_skip(path: str, kind: type[T], what: str, *, finite: bool = True) -> T | None:
    """Reads as `read_checked_json`; returns None if there is no such file, or, with a warning, if it is odd."""
    try:
        return read_checked_json(path, kind, what, finite=finite) if file_io.exists(path) else None
    except (InputError, OSError) as error:
        logging.warning("Skipped a file: %s", error)
        return None


def known_fields(kind: type, state: object) -> dict[str, Any]:
    """Returns the items of a checked JSON object that are fields of a dataclass, without those of later releases."""
    items = cast("Mapping[str, Any]", state)
    return {field.name: items[field.name] for field in dataclasses.fields(kind) if field.name in items}


def checked_fields(value: object, kind: type, what: str) -> dict[str, Any]:
    """Checks a JSON object against the fields of a dataclass, as `checked_json`; returns those that it has."""
    return known_fields(kind, checked_json(value, kind, what))


def checked_json(value: object, kind: type[T], what: str, *, finite: bool = True) -> T:
    """Returns a JSON value of a declared type.

    Args:
      value: The value.
      kind: The declaration.
      what: What the value is, for messages.
      finite: Whether numbers must be finite.

    Raises:
      InputError: When it has another type, is nested more than 100 levels deep, or has a number that is not finite or
        does not fit in 64 bits.
    """
    require_shallow(value, what)
    for problem in _Check(finite).problems(value, kind, ""):
        raise InputError(f"{what}: {problem}.")
    return cast("T", value)


@dataclasses.dataclass(frozen=True)
class _Check:
    finite: bool

    def problems(self, value: object, kind: Any, field: str) -> Iterator[str]:
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if kind in (object, Any) or (value is None and type(None) in parts):
            return
        if origin in (typing.Union, types.UnionType):
            of_parts = [list(self.problems(value, part, field)) for part in parts if part is not type(None)]
            yield from min(of_parts, key=len)
        elif _is_object(kind) and isinstance(value, dict):
            yield from self._of_fields(value, kind, field)
        elif origin in _OBJECTS and isinstance(value, dict):
            for name, item in value.items():
                yield from self.problems(item, parts[1], _joined(field, name))
        elif origin in _LISTS and isinstance(value, (list, tuple)):
            yield from self._of_items(value, origin, parts, field)
        elif not self._is_plain(value, kind):
            yield f"{field or 'its value'}: expected {_name_of(kind)}, not {_shown(value)}"

    def _of_items(self, value: Sequence[object], origin: Any, parts: tuple[Any, ...], field: str) -> Iterator[str]:
        kinds = parts if origin is tuple and parts[-1] is not ... else parts[:1] * len(value)
        if len(kinds) != len(value):
            yield f"{field}: expected {len(kinds)} values, not {len(value)}"
        for index, (item, kind) in enumerate(zip(value, kinds, strict=False)):
            yield from self.problems(item, kind, f"{field}[{index}]")

    def _of_fields(self, value: dict[str, object], kind: Any, field: str) -> Iterator[str]:
        for name in sorted(_required(kind) - value.keys()):
            yield f"{_joined(field, name)} is missing"
        for name, declared in _fields_of(kind).items():
            if name in value:
                yield from self.problems(value[name], declared, _joined(field, name))

    def _is_plain(self, value: object, kind: type) -> bool:
        """Whether a value is of a plain type; an integer must fit in 64 bits."""
        if kind not in (int, float):
            return kind in (str, bool) and isinstance(value, kind)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if isinstance(value, int):
            return INT64.includes(value)
        return kind is float and (not self.finite or math.isfinite(value))


def _is_object(kind: Any) -> bool:
    return typing.is_typeddict(kind) or dataclasses.is_dataclass(kind)


@functools.cache
def _required(kind: Any) -> frozenset[str]:
    if typing.is_typeddict(kind):
        return frozenset(kind.__required_keys__)
    missing = dataclasses.MISSING
    return frozenset(
        field.name for field in dataclasses.fields(kind) if field.default is missing is field.default_factory
    )


@functools.cache
def _fields_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _name_of(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if _is_object(kind) or origin in _OBJECTS:
        return "an object"
    return "a list" if origin in _LISTS else _NAMES[kind]


def _joined(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"
