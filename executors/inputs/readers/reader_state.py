"""Whether a Python reader may be called by several threads: whether it keeps nothing between calls that one can see.

Usage:

    reads_in_parallel(reader, lambda: reader.read_data_by_index_range(0, 64))
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import random
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

_LOOKED_INTO = 1000  # items of a container, when it is looked at for changes
_DEEPEST = 4

_SIMPLE = (str, bytes, bytearray, int, float, complex, bool, type(None), range, slice, np.generic)
_PLAIN_MODULES = ("datetime", "decimal", "fractions", "pathlib", "re", "uuid")
_TABLES = ("DataFrame", "Series", "Table", "RecordBatch", "ChunkedArray")
_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)

_ELSEWHERE = (types.ModuleType, types.BuiltinFunctionType, type, logging.Logger)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))


def reads_in_parallel(reader: Any, read: Callable[[], Any]) -> bool:
    """Reads once, and returns whether several threads may read: whether that left no trace and can leave none.

    An attribute `thread_safe` of the reader, True or False, decides. Else the reader must hold plain data only: text,
    numbers, containers and tables of these, no files, connections or generators, whose state nobody sees. Reading
    must not have changed any of it, nor drawn from the global generators of Python or NumPy. The same holds for what
    the reader's methods name in their module or around them, such as a generator with a seed.
    """
    declared = getattr(reader, "thread_safe", None)
    if isinstance(declared, bool):
        read()
        return declared
    seen = _Surroundings(reader)  # kept while reading, so that no new object can have the identity of an old one
    before = seen.picture()
    read()
    return before is not None and before == _Surroundings(reader).picture()


class _Surroundings:
    """The values that a reader's methods can see: its attributes, its classes', and what they name outside.

    Of other modules and classes, and of functions in other modules, it is taken that they keep nothing between calls. A
    lock outside of the reader says that somebody has thought of threads.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._values: dict[Any, Any] = {}
        self._functions: set[types.FunctionType] = set()
        self._classes = {cls: vars(cls) for cls in type(reader).__mro__}
        for name, value in list(getattr(reader, "__dict__", {"?": object()}).items()):
            self._add(("attribute", name), value)
            if isinstance(value, _LOCKS):
                self._values["attribute", name] = value
        self._add_named(["read_range", "read_data_by_index_range"], self._classes)

    def picture(self) -> Any:
        """Returns something that is equal as long as nothing changes; None if some value is more than plain data."""
        if not all(map(_is_plain, self._values.values())):
            return None
        numpys: Any = np.random.get_state()
        drawn = (random.getstate(), numpys[1].tobytes(), *numpys[2:])
        return {key: _picture(value) for key, value in self._values.items()}, drawn

    def _add(self, key: Any, value: Any) -> None:
        owner = getattr(value, "__self__", None)  # of a method
        if owner is not None and owner is not self._reader:
            self._add((key, "owner"), owner)
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(function, types.FunctionType):
            self._add_function(function)
        elif not isinstance(value, (*_ELSEWHERE, *_LOCKS)):
            self._values[key] = value

    def _add_function(self, function: types.FunctionType) -> None:
        if function in self._functions:
            return
        self._functions.add(function)
        self._values[function, "defaults"] = function.__defaults__
        self._values[function, "named defaults"] = function.__kwdefaults__
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # of a cell that is still empty
                self._add((function, name), cell.cell_contents)
        module = function.__module__
        of_module = {
            name: value
            for name, value in list(function.__globals__.items())
            if not isinstance(value, types.FunctionType) or value.__module__ == module
        }
        self._add_named(_names(function.__code__), {module: of_module, **self._classes})

    def _add_named(self, names: Iterable[str], places: Mapping[Any, Mapping[str, Any]]) -> None:
        for name in names:
            for label, place in places.items():
                if name in place and not name.startswith("__"):
                    self._add((label, name), place[name])


def _names(code: types.CodeType) -> set[str]:
    """Returns the global names and attributes that a function uses, also in the functions inside it."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Returns whether a value is data that stays as it is while it is read."""
    if isinstance(value, _CONTAINERS) or (isinstance(value, np.ndarray) and value.dtype == object):
        return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in _items(value))
    module = type(value).__module__.partition(".")[0]
    is_table = module in ("pandas", "pyarrow") and type(value).__name__ in _TABLES
    return isinstance(value, (*_SIMPLE, np.ndarray)) or module in _PLAIN_MODULES or is_table


def _picture(value: Any) -> Any:
    """Returns something that is equal as long as a plain value is; of a big one only which it is, and its length."""
    if isinstance(value, _CONTAINERS):
        which = None if isinstance(value, tuple) else id(value)  # the pairs of a dict are new ones each time
        return type(value), which, len(value), [_picture(item) for item in _items(value)]
    if isinstance(value, np.ndarray):
        return id(value), value.shape, value.tobytes() if value.size <= _LOOKED_INTO else None
    return (type(value), value) if isinstance(value, _SIMPLE) else id(value)


def _items(value: Any) -> list[Any]:
    """Returns what is in a container; of a big one the first items."""
    items = value.items() if isinstance(value, dict) else value.ravel() if isinstance(value, np.ndarray) else value
    return list(itertools.islice(items, _LOOKED_INTO))
