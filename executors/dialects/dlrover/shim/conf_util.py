"""Merges conf classes into one configuration by priority.

Usage, as in a conf and a model file:

    class Defaults(ConfigurationManagerInterface):
        priority = 20                     # smaller numbers take precedence
        train_set = {"batch_size": 64, "epoch": 10}

    conf = get_conf("train_conf.TrainConf")
    conf.get("train_set").batch_size      # from TrainConf, or 64
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from ....errors import did_you_mean
from .log_util import default_logger
from .reflect_util import get_class


class ConfDict(dict[str, Any]):
    """A dict with attribute access to its keys, including nested dicts. Keys with dots are not split."""

    @classmethod
    def of(cls, value: object) -> object:
        """Converts a dict, including nested ones, to a ConfDict; returns other values unchanged."""
        if type(value) is not dict:
            return value
        return cls({key: cls.of(inner) for key, inner in value.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            hint = did_you_mean(name, [str(key) for key in self])
            raise AttributeError(f"there is no {name!r} among {', '.join(map(str, self))}.{hint}") from None


class Configuration:
    """The merged values of the conf classes. It is a singleton: `Configuration()` always returns the same object."""

    inner_dict: dict[str, object]
    _only: Configuration | None = None

    def __new__(cls, inner_dict: dict[str, object] | None = None) -> Configuration:
        """Returns the singleton."""
        if cls._only is None:
            cls._only = super().__new__(cls)
            object.__setattr__(cls._only, "inner_dict", {})
        return cls._only

    def __init__(self, inner_dict: dict[str, object] | None = None) -> None:
        """Replaces all values, unless `inner_dict` is None."""
        if inner_dict is not None:
            object.__setattr__(self, "inner_dict", inner_dict)

    def get(self, key: str, default: object = None) -> Any:
        """Returns a value. Dicts are returned as a ConfDict; changing it changes the configuration."""
        if key not in self.inner_dict:
            return ConfDict.of(default)
        value = self.inner_dict[key] = ConfDict.of(self.inner_dict[key])
        return value

    def put(self, key: str, value: object) -> None:
        """Sets a value."""
        self.inner_dict[key] = value

    def to_dict(self) -> dict[str, object]:
        """Returns all values by name; changing them changes the configuration."""
        return self.inner_dict

    def from_dict(self, dt: Mapping[str, object]) -> None:
        """Updates the configuration with values by name."""
        self.inner_dict.update(dt)

    def clear(self) -> None:
        """Removes all values."""
        self.inner_dict.clear()

    def __contains__(self, key: str) -> bool:
        return key in self.inner_dict

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __setitem__(self, key: str, value: object) -> None:
        self.inner_dict[key] = value

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):  # requested by copy and pickle
            raise AttributeError(key)
        return self.get(key)

    def __setattr__(self, key: str, value: object) -> None:
        self.inner_dict.setdefault(key, value)  # as in DLRover, does not overwrite values of a conf

    def __str__(self) -> str:
        return str(self.inner_dict)

    def __reduce__(self) -> tuple[type[Configuration], tuple[dict[str, object]]]:
        return type(self), (self.inner_dict,)


class ConfigurationManagerMeta(type):
    """Metaclass that registers its classes and merges them into a configuration."""

    _all_conf_by_name: ClassVar[dict[str, type[Any]]] = {}
    _final_attrs: ClassVar[dict[str, object]] = {}
    _override_order: ClassVar[list[str]] = []
    _default_priority: ClassVar[int] = 1 << 30

    def __new__(mcs, name: str, bases: tuple[type, ...], attrs: dict[str, object]) -> ConfigurationManagerMeta:
        """Creates a class and registers it."""
        made = super().__new__(mcs, name, bases, attrs)
        if name != "ConfigurationManagerInterface":
            mcs.register(made)
        return made

    @classmethod
    def register(mcs, clz: type[Any], priority: int | None = None) -> None:
        """Registers a class to be merged; it replaces a registered class with the same name.

        Args:
          clz: The class; its `build()` is called, if it has one.
          priority: Smaller numbers take precedence. None for the class's own `priority`; a class without one takes
            precedence over earlier registered classes without one.
        """
        if priority is not None:
            clz.priority = priority
        if not hasattr(clz, "priority"):
            clz.priority = mcs._default_priority
            mcs._default_priority -= 1
        if hasattr(clz, "build"):
            clz.build()
        earlier = mcs._all_conf_by_name.get(clz.__name__)
        if earlier is not None and earlier.__module__ != clz.__module__:  # a conf is imported more than once
            default_logger.info("The conf class %s replaces that of %s.", clz.__name__, earlier.__module__)
        mcs._all_conf_by_name[clz.__name__] = clz

    @classmethod
    def merge_configs(mcs) -> Configuration:
        """Merges the registered classes by priority; dict values with the same name are merged recursively.

        Returns:
          The singleton configuration, whose previous values are replaced.
        """
        ordered = sorted(mcs._all_conf_by_name.items(), key=lambda item: -int(item[1].priority))
        merged: dict[str, object] = {}
        for _, clz in ordered:
            merged = _merged(merged, clz.to_dict() if hasattr(clz, "to_dict") else _values_of(clz))
        mcs._final_attrs, mcs._override_order = merged, [name for name, _ in ordered]
        return Configuration(dict(merged))


class ConfigurationManagerInterface(metaclass=ConfigurationManagerMeta):
    """Base class of conf classes that are merged."""


def get_conf(py_conf: type[Any] | str | None = None) -> Configuration:
    """Returns the values of a conf class, merged with the registered ones.

    Args:
      py_conf: The class or its dotted name; None for only the registered classes.

    Raises:
      ModuleError: When there is no class of that name.
    """
    conf = get_class(py_conf) if isinstance(py_conf, str) else py_conf
    if conf is not None:
        if callable(getattr(conf, "build", None)) and not isinstance(conf, ConfigurationManagerMeta):
            conf.build()  # registration has called that of the others
        ConfigurationManagerMeta("py_conf", (ConfigurationManagerInterface,), _values_of(conf))
    return ConfigurationManagerMeta.merge_configs()


def _values_of(conf: object) -> dict[str, object]:
    """Returns a class's attributes, including inherited ones, without functions and dunder names."""
    members = inspect.getmembers(conf, lambda value: not inspect.isroutine(value))
    return {name: value for name, value in members if not name.startswith("__")}


def _merged(lower: Mapping[str, object], upper: Mapping[str, Any]) -> dict[str, object]:
    """Merges two dicts recursively; values of the second one take precedence."""
    merged = ConfDict(lower)
    for key, value in upper.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else ConfDict.of(value)
    return merged
