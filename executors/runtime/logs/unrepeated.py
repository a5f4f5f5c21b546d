"""Shows each warning of a command once, although it reads the same files several times.

with unrepeated_warnings():
    runs = find_run(first), find_run(second)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from absl import logging as absl_logging


@contextlib.contextmanager
def unrepeated_warnings() -> Iterator[None]:
    """Drops warnings with the text of an earlier one of the block."""
    shown: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        before = len(shown)
        shown.add(record.getMessage())
        return len(shown) > before

    logger = absl_logging.get_absl_logger()
    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)
