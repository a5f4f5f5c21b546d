"""Remembers the signal that asks a command to end, and raises it until the command ends.

    raise_on_signals([signal.SIGTERM], Terminated)   # in the main thread of a command
    …
    raise_if_ended()                                 # in any thread, before a step that must not follow a signal

The handler raises wherever the main thread is. Python drops an exception that leaves a weakref callback, `__del__` or a
ctypes callback, and libraries drop it in a bare `except`. `raise_again_if_lost` raises it again; the thread of
`deadline.py` calls it until the command has ended.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType

from ..logs.exceptions import chain


class Terminated(SystemExit):
    """A signal asked the command to end. The stack unwinds: subprocesses are ended, staging directories removed.

    Args:
      number: The signal number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name

    def __str__(self) -> str:
        return f"ended by {self.name}"


class _Termination:
    """The first signal that asked this process to end, and the exception that it has raised."""

    def __init__(self) -> None:
        self._number = 0
        self._exception: Callable[[int], BaseException] = Terminated
        self._raised: list[BaseException] = []  # threads append, and raise the first one
        self._is_over = False

    def raise_on_signals(self, numbers: Iterable[int], exception: Callable[[int], BaseException]) -> None:
        """Makes signals raise an exception in the main thread, where this is called.

        Args:
          numbers: The signals. SIGTERM, which `raise_again_if_lost` sends, must be one of them.
          exception: Returns the exception for the number of the first signal.
        """
        self._exception, self._is_over = exception, False
        for number in numbers:
            signal.signal(number, self._handle)
        report = sys.unraisablehook
        sys.unraisablehook = lambda lost: None if lost.exc_value in self._raised else report(lost)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.note(number)
        # A second signal does not interrupt the cleanup; a second Ctrl-C shortens it.
        if not self._is_over and (number == signal.SIGINT or not self._raised or self._is_lost()):
            self.raise_if_ended()

    def note(self, number: int) -> None:
        """Remembers a signal, for `raise_if_ended`, before the main thread runs its handler."""
        self._number = self._number or number

    def raise_if_ended(self) -> None:
        """Raises the remembered signal's exception, if there is one; in any thread."""
        if self._number:
            self._raised.append(self._exception(self._number))
            raise self._raised[0]

    def raised(self) -> BaseException | None:
        """Returns the exception that the first signal has raised, which libraries may have replaced by another one."""
        return self._raised[0] if self._raised else None

    def _is_lost(self) -> bool:
        return bool(self._raised) and not is_handled(self._raised[0])

    def raise_again_if_lost(self) -> None:
        """Raises the exception again in the main thread if that neither ends nor handles it; from any thread."""
        if not self._is_over and self._is_lost() and (main := threading.main_thread().ident) is not None:
            signal.pthread_kill(main, signal.SIGTERM)

    def end(self) -> None:
        """Stops raising: the command is over, and only its exit code remains to be returned."""
        self._is_over = True


def is_handled(error: BaseException) -> bool:
    """Whether the main thread is in an `except` or `finally` block that handles an exception, or one raised there."""
    handled: object = sys._current_exceptions().get(threading.main_thread().ident or 0)
    if isinstance(handled, tuple):  # before Python 3.12
        handled = handled[1]
    return isinstance(handled, BaseException) and any(other is error for other in chain(handled))


_termination = _Termination()
raise_on_signals = _termination.raise_on_signals
note = _termination.note
raise_if_ended = _termination.raise_if_ended
raise_again_if_lost = _termination.raise_again_if_lost
raised = _termination.raised
end = _termination.end
