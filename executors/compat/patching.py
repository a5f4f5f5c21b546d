"""Temporary patches of other libraries' functions; private names are in the module of each library."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def replaced(owner: object, name: str, instead: Callable[..., object]) -> Iterator[None]:
    """Replaces a function for the duration of a block.

    Args:
      owner: The class, module or object that has the function.
      name: The function's name.
      instead: The replacement. It is called with the original function as first argument, then the call's arguments.
    """
    original = getattr(owner, name)
    before = vars(owner).get(name)

    @functools.wraps(original)
    def called(*args: object, **options: object) -> object:
        return instead(original, *args, **options)

    setattr(owner, name, staticmethod(called) if isinstance(before, staticmethod) else called)
    try:
        yield
    finally:
        if before is not None:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
