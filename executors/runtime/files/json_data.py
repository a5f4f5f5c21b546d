"""The JSON form of dataclasses: between processes, in `run.json` and in other files.

    @dataclasses.dataclass(frozen=True)
    class Damage(JsonData):
        path: str
        sizes: tuple[int, ...] = ()

    Damage("ckpt-7", (1, 2)).to_json()    # {"path": "ckpt-7", "sizes": [1, 2]}
    Damage.from_json({"path": "ckpt-7", "newer": []}, "run.json")    # fields may be missing or new
    Damage.from_json({"path": 12}, "run.json")    # InputError: run.json: path: expected a text, not 12

A field is a dataclass, a TypedDict or a class with `to_json` and `from_json`, or consists of `dict[str, …]`, `list[…]`,
`tuple[…]`, `… | None`, `str`, `bool`, `int`, `float` and `object`. A mapping of tuples has rows in JSON:
`{(0, 1): 5.0}` is `[[0, 1, 5.0]]`. The known items of an `Annotated[dict[str, Any], Part]` have the types of `Part`'s
fields.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

from absl import logging

from ...errors import InputError
from ...number_range import INT64
from . import file_io
from .plain_values import parsed_json, require_shallow

T = TypeVar("T")
_MAX_BYTES = 64 << 20  # parsing takes a second, and a gigabyte of memory; records have about 10 kB
_NAMES = {str: "a text", bool: "true or false", int: "an integer", float: "a number"}
_OBJECTS = (dict, Mapping)
_LISTS = (list, tuple, Sequence)
_SHOWN = 40  # characters of a value in a message


class JsonData:
    """Base of dataclasses that have a JSON form."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values, for `from_json`."""
        fields = dataclasses.fields(cast("Any", self))
        return {field.name: _to_json(getattr(self, field.name)) for field in fields}

    @classmethod
    def from_json(cls: type[T], state: object, what: str = "") -> T:
        """Rebuilds an object from JSON values, also of another release: fields may be missing or new.

        Args:
          state: The JSON values.
          what: What they are, for messages.

        Raises:
          InputError: If a field without a default is missing, or a field has another type.
        """
        return from_json(cls, state, what or cls.__name__)


def _to_json(value: object) -> object:
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value):
        return JsonData.to_json(cast("JsonData", value))
    if isinstance(value, Mapping):
        if value and all(isinstance(key, tuple) for key in value):
            return [[*key, _to_json(item)] for key, item in value.items()]
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return value


def read_json(path: str, kind: type[T], what: str, *, finite: bool = True) -> T:
    """Reads a JSON file whose content must be of a declared type.

    Args:
      path: The file.
      kind: The type.
      what: What the file is, for messages, such as "The run record".
      finite: Whether numbers must be finite.

    Raises:
      InputError: When it is too large, is not JSON, or has another type; names the file and the field.
      OSError: When it cannot be read, or is no regular file.
    """
    shown = f"{what} {path}"
    if (size := file_io.size_of(path)) > _MAX_BYTES:
        raise InputError(f"{shown} has {size:,} bytes, more than the {_MAX_BYTES:,} that are read.")
    return from_json(kind, parsed_json(file_io.read_bytes(path), shown), shown, finite=finite)


def read_or_skip(path: str, kind: type[T], what: str, *, finite: bool = True) -> T | None:
    """Reads as `read_json`; returns None if there is no such file, or, with a warning, if it is not readable."""
    try:
        return read_json(path, kind, what, finite=finite) if file_io.exists(path) else None
    except (InputError, OSError) as error:
        logging.warning("Skipped a file: %s", error)
        return None


def from_json(kind: type[T], value: object, what: str, *, finite: bool = True) -> T:
    """Returns a JSON value as a declared type.

    Args:
      kind: The type.
      value: The value.
      what: What the value is, for messages.
      finite: Whether numbers must be finite.

    Raises:
      InputError: When it has another type, is nested more than 100 levels deep, or has a number that is not finite or
        does not fit in 64 bits.
    """
    require_shallow(value, what)
    try:
        return cast("T", _Reader(finite).read(value, kind, ""))
    except _Mismatch as problem:
        raise InputError(f"{what}: {problem}.") from None


class _Mismatch(Exception):
    """A value that is not of its declared type."""


@dataclasses.dataclass(frozen=True)
class _Reader:
    finite: bool

    def read(self, value: Any, kind: Any, field: str) -> Any:
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if kind in (object, Any) or (value is None and type(None) in parts):
            return value
        if origin is Annotated:
            return self._read_annotated(value, parts, field)
        if origin in (typing.Union, types.UnionType):
            return self._read_first([part for part in parts if part is not type(None)], value, field)
        if hasattr(kind, "from_json") and not issubclass(kind, JsonData) and isinstance(value, dict):
            return kind.from_json(value)
        if _is_object(kind) and isinstance(value, dict):
            return self._read_fields(value, kind, field)
        if origin in _OBJECTS and typing.get_origin(parts[0]) is tuple:
            row = tuple.__class_getitem__((*typing.get_args(parts[0]), parts[1]))
            return {tuple(key): item for *key, item in self.read(value or [], list.__class_getitem__(row), field)}
        if origin in _OBJECTS and isinstance(value, dict):
            return {name: self.read(item, parts[1], _joined(field, name)) for name, item in value.items()}
        if origin in _LISTS and isinstance(value, (list, tuple)):
            kinds = parts if origin is tuple and parts[-1] is not ... else parts[:1] * len(value)
            items = self._read_items(value, kinds, field)
            return tuple(items) if origin is tuple else items
        if not self._is_plain(value, kind):
            raise _Mismatch(f"{field or 'its value'}: expected {_name_of(kind)}, not {_shown(value)}")
        return value

    def _read_annotated(self, value: object, parts: Sequence[Any], field: str) -> object:
        if isinstance(value, dict):
            self._read_known(value, parts[1], field)
        return self.read(value, parts[0], field)

    def _read_first(self, kinds: Sequence[Any], value: object, field: str) -> object:
        for kind in kinds[:-1]:
            with contextlib.suppress(_Mismatch):
                return self.read(value, kind, field)
        return self.read(value, kinds[-1], field)

    def _read_items(self, value: Sequence[object], kinds: tuple[Any, ...], field: str) -> list[Any]:
        if len(kinds) != len(value):
            raise _Mismatch(f"{field}: expected {len(kinds)} values, not {len(value)}")
        pairs = zip(value, kinds, strict=True)
        return [self.read(item, kind, f"{field}[{index}]") for index, (item, kind) in enumerate(pairs)]

    def _read_fields(self, value: dict[str, object], kind: Any, field: str) -> object:
        for name in sorted(_required(kind) - value.keys()):
            raise _Mismatch(f"{_joined(field, name)} is missing")
        known = self._read_known(value, kind, field)
        try:
            return {**value, **known} if typing.is_typeddict(kind) else kind(**known)
        except InputError as error:
            raise _Mismatch(f"{field or 'its value'}: {str(error).rstrip('.')}") from error

    def _read_known(self, value: dict[str, object], kind: Any, field: str) -> dict[str, Any]:
        present = {name: declared for name, declared in _fields_of(kind).items() if name in value}
        return {name: self.read(value[name], declared, _joined(field, name)) for name, declared in present.items()}

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
    hints = typing.get_type_hints(kind, include_extras=True)
    return hints if typing.is_typeddict(kind) else {field.name: hints[field.name] for field in dataclasses.fields(kind)}


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
