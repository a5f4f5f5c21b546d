"""The first error that a module logs: it may catch its exceptions and only log them.

with first_logged_error() as logged:
    result = module.tuner_fn(fn_args)
print(logged.text)  # "ERROR IN tuner_fn: 'NoneType' object is not subscriptable"
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from .exceptions import one_line_message


class FirstError(logging.Handler):
    """Keeps the first error that is logged.

    Attributes:
      text: Its message, and its exception if it has one; "" if no error was logged.
    """

    def __init__(self, describe: Callable[[BaseException], str]) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self._describe = describe

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the record unless an earlier one is kept."""
        raised = record.exc_info[1] if record.exc_info else None
        parts = [record.getMessage(), self._describe(raised) if raised else ""]
        self.text = self.text or ": ".join(filter(None, parts))


@contextlib.contextmanager
def first_logged_error(describe: Callable[[BaseException], str] = one_line_message) -> Iterator[FirstError]:
    """Yields the first error that is logged in the block.

    Args:
      describe: Returns the text of an exception.
    """
    handler = FirstError(describe)
    loggers = logging.getLogger(), logging.getLogger("absl")  # absl may not propagate
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
