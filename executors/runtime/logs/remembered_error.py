"""Keeps an exception that Beam replaces by another with the same text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_remembered: list[Exception] = []


@contextlib.contextmanager
def remember_error() -> Iterator[None]:
    """Keeps the exception that leaves the block, for `pop_remembered_error`.

    Beam replaces exceptions by others with the same text; code that runs a pipeline in this process gets the original
    here.
    """
    try:
        yield
    except Exception as error:
        _remembered[:] = [error]
        raise


def pop_remembered_error() -> Exception | None:
    """Returns and forgets the exception that last left a `remember_error` block; None without one."""
    return _remembered.pop() if _remembered else None
