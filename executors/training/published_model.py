"""Notes on an interrupt of a command that a model had already been published."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ..runtime.logs.exceptions import add_note
from ..runtime.process.termination import raise_if_ended


@contextlib.contextmanager
def note_published_model(place: Callable[[], str]) -> Iterator[None]:
    """Notes on an interrupt of the block where the model had already been published.

    Args:
      place: Returns the path of the published model; "" if the run has not published it yet.
    """
    try:
        yield
        raise_if_ended()  # a signal whose exception was lost
    except (KeyboardInterrupt, SystemExit) as error:
        if model := place():
            add_note(error, f"the model had been published to {model}.")
        raise
