"""Summarizes a failure inside the TFX or Beam code of a step in one line; the full traceback goes to the log."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ...executors.errors import StepError, TrainerError
from ...executors.runtime.logs.exceptions import RemoteTraceback, has_user_frame, message_of, one_line_message
from ...executors.runtime.logs.setup import parse_step
from ...executors.runtime.process import surroundings
from ...executors.runtime.process.termination import raise_if_ended

_STEP_CODE = re.compile(r"[/\\]tfx[/\\]components[/\\]|[/\\]tensorflow_(transform|data_validation|model_analysis)[/\\]")
_BEAM_SUFFIX = re.compile(r"\s*\[while running '[^']*'\]")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning)\b")
_MAX_LENGTH = 500  # characters


class _StepTracker(logging.Handler):
    """Log handler that keeps the name of the most recently started step; none starts after a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.running = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Updates `running` if the record announces the start of a step."""
        if (found := parse_step(record)) is not None and found[1]:
            raise_if_ended()
            self.running = found[0]


@contextmanager
def track_steps() -> Iterator[_StepTracker]:
    """Tracks the running step for the duration of the block; yields an object with its name in `running`."""
    handler = _StepTracker()
    logging.getLogger().addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger().removeHandler(handler)


def one_line_error(error: Exception, step: str) -> StepError | None:
    """Returns a one-line StepError for a failure inside a TFX step, and logs the full traceback.

    None for a TrainerError, an exception from the user's code, and a failure outside the code of a TFX step.

    Args:
      error: The exception raised by the step, or by Beam for it.
      step: Name of the running step; "" if none has started.
    """
    if not step or isinstance(error, TrainerError) or isinstance(error.__cause__, RemoteTraceback):
        return None
    if has_user_frame(error):
        return None
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if not _STEP_CODE.search(text):
        return None
    logging.getLogger(__name__).error("The step %s failed.\n%s", step, text, extra={"kept_only": True})
    hint = surroundings.memory_hint(error)
    return StepError(
        f"The step {step} failed: {_one_line_message(error)} {hint}{hint and ' '}See the log for the full traceback."
    )


def _one_line_message(error: Exception) -> str:
    """Returns an error's message in one line; the innermost exception if Beam embedded a traceback in the message."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    message = _BEAM_SUFFIX.sub("", message_of(error))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    quoted = [line for line in lines if _EXCEPTION.match(line)]
    if "Traceback (most recent call last)" in message and quoted:
        summary = quoted[-1]
    else:
        summary = f"{type(error).__name__}: {_BEAM_SUFFIX.sub('', one_line_message(error))}"
    return f"{summary[:_MAX_LENGTH].rstrip('.')}."
