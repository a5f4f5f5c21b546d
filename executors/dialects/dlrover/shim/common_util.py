"""The public names of DLRover's `common_util`: the `singleton` decorator, `GlobalDict` and `DatasetArgs`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Instance = TypeVar("_Instance")


def singleton(constructor: Callable[_Parameters, _Instance]) -> Callable[_Parameters, _Instance]:
    """Decorates a constructor so that the first call creates an object, and all later calls return that object."""
    instances: list[_Instance] = []

    @functools.wraps(constructor, updated=())
    def get_instance(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Instance:
        if not instances:
            instances.append(constructor(*args, **kwargs))
        return instances[0]

    return get_instance


@singleton
class GlobalDict(dict[Any, Any]):
    """A dict of which there is one instance per process."""


class DatasetArgs:
    """Container for positional and keyword arguments.

    Attributes:
      args: The positional arguments.
      kwargs: The keyword arguments.
    """

    def __init__(self, args: object = None, kwargs: dict[str, object] | None = None) -> None:
        """Stores the arguments.

        Args:
          args: An iterable of positional arguments; a string or a non-iterable value is a single argument.
          kwargs: The keyword arguments.

        Raises:
          ValueError: When kwargs is not a dict.
        """
        if kwargs and not isinstance(kwargs, dict):
            raise ValueError(f"kwargs for DatasetArgs must be a dict, not {kwargs!r}.")
        is_single = isinstance(args, str) or not isinstance(args, Iterable)
        self.args = ((args,) if is_single else args) if args else ()
        self.kwargs = kwargs or {}


def should_failover(failover_level: int) -> bool:
    """Returns whether a failover level enables failover, which levels above 0 do."""
    return failover_level > 0
