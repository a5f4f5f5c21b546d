"""Waits for files, with `poll`: `select` accepts no file descriptors above 1023."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Protocol


class _HasFileNumber(Protocol):
    def fileno(self) -> int: ...


def readable(files: Sequence[int | _HasFileNumber], timeout: float | None) -> list[int]:
    """Returns the descriptors of the files that are readable or at their end; [] after `timeout` seconds."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [number for number, _ in poll.poll(None if timeout is None else max(0.0, timeout) * 1000)]


def is_writable(file: int) -> bool:
    """Returns whether a write to a file does not block."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(0))
