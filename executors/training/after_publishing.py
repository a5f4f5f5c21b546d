"""Keeps what fails after a model was published from failing its run: the analysis, report, tracking, cleaning up.

with warned_after_publishing(lambda: record.status == SUCCEEDED), report_on_exit(record, folder):
    ...  # trains and publishes
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from absl import logging

from ..runtime.logs.exceptions import message_of


@contextlib.contextmanager
def warned_after_publishing(is_published: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Logs an exception of the block as a warning if the run has published its model; interrupts pass.

    Args:
      is_published: Returns whether the run has published its model when the exception is raised.
    """
    try:
        yield
    except Exception as error:
        if not is_published():
            raise
        message = f"{type(error).__name__}: {message_of(error)}"
        logging.warning("The model was published, but a later step failed: %s", message)
        logging.debug("Its traceback:", exc_info=error)
