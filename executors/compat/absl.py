"""Private names of Abseil 1.0 to 2.3."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def flags_unparsed() -> Iterator[None]:
    """Marks Abseil's flags as not parsed for the duration of a block, as in a process that has just begun.

    The public `FLAGS.unparse_flags` also resets the values, which hold the settings of Abseil's logging.
    """
    from absl import flags, logging

    logging._warn_preinit_stderr = False  # all lines go to standard error here, before flags are parsed as well
    state = vars(flags.FLAGS)
    before = state["__flags_parsed"]
    state["__flags_parsed"] = False
    try:
        yield
    finally:
        state["__flags_parsed"] = before
