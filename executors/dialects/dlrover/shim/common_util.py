"""What DLRover's `common_util` holds for others: singletons, and arguments in a bundle."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Made = TypeVar("_Made")


def singleton(constructor: Callable[_Parameters, _Made]) -> Callable[_Parameters, _Made]:
    """Returns a constructor that makes one object, at its first call, and returns it ever after."""
    made: list[_Made] = []

    @functools.wraps(constructor, updated=())
    def only_one(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Made:
        if not made:
            made.append(constructor(*args, **kwargs))
        return made[0]

    return only_one


@singleton
class GlobalDict(dict[Any, Any]):
    """One dict for the whole process."""


class DatasetArgs:
    """Positional and named arguments, kept to be passed on.

    Attributes:
      args: The positional ones.
      kwargs: The named ones.
    """

    def __init__(self, args: object = None, kwargs: dict[str, object] | None = None) -> None:
        """Takes the arguments.

        Args:
          args: Several in a list or tuple; a string, or anything else, is one.
          kwargs: By name.

        Raises:
          ValueError: When kwargs is not a dict.
        """
        if kwargs and not isinstance(kwargs, dict):
            raise ValueError(f"kwargs for DatasetArgs must be a dict, not {kwargs!r}.")
        one = isinstance(args, str) or not isinstance(args, Iterable)
        self.args = ((args,) if one else args) if args else ()
        self.kwargs = kwargs or {}


def should_failover(failover_level: int) -> bool:
    """Returns whether a level of failover is one at which anything is done."""
    return failover_level > 0
