"""Displays the progress of pipeline steps that read their examples with Beam, such as StatisticsGen and Transform.

    with progress_of_steps(lambda: "StatisticsGen"):
        …                          # the step's executor runs a Beam pipeline

The work of a step is the number of bytes that its Beam pipeline reads, each file as often as the pipeline reads it. In
other processes of Beam and with other runners than the in-process one nothing is counted, and nothing displayed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from .. import run_context
from ..compat.beam import CountBytes, reads_counted
from ..runtime.work import Work
from .display import watched_work


@contextlib.contextmanager
def progress_of_steps(name: Callable[[], str]) -> Iterator[None]:
    """Displays the progress of each step in the block; a no-op inside another such block.

    Args:
      name: Returns the name of the running step.
    """
    if run_context.part(_Displayed):
        yield
        return

    @contextlib.contextmanager
    def watch(size: int) -> Iterator[CountBytes]:
        with watched_work(name(), Work(size)) as work:
            yield work.advance

    with run_context.extended(_Displayed()), reads_counted(watch):
        yield


class _Displayed:
    """Marker in the run context: the progress of steps is displayed."""
