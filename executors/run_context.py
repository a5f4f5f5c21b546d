"""Context-local state of the run that this process executes, for code that gets no arguments from the trainer.

A training module calls `report_progress`, reads `fn_args.data_accessor` or calls `fit`; the behavior of these calls
depends on the run. Each feature defines a class for its part of the state, and looks the state up by that class:

    with run_context.extended(BadRecords(limit=10)):
        run_fn(fn_args)

    run_context.part(BadRecords)     # in a reader, in any thread; None outside a run
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class RunContext:
    """The parts of a run's state, keyed by class. The mapping is immutable; the parts themselves may be mutable."""

    parts: Mapping[type, object | None] = dataclasses.field(default_factory=dict)

    def part(self, kind: type[T]) -> T | None:
        """Returns the part of the given class, or None."""
        found = self.parts.get(kind)
        return found if isinstance(found, kind) else None


class _Current:
    """The context of each thread. Threads without one, such as those of tf.data, use the last entered context."""

    def __init__(self) -> None:
        self._of_thread: contextvars.ContextVar[RunContext | None] = contextvars.ContextVar("run", default=None)
        # Entered contexts of all threads by `id`, in order of entry. No lock, because the process may fork.
        self._entered: dict[int, RunContext] = {}

    def get(self) -> RunContext:
        if (own := self._of_thread.get()) is not None:
            return own
        entered = list(self._entered.values())
        return entered[-1] if entered else RunContext()

    @contextlib.contextmanager
    def entered(self, context: RunContext) -> Iterator[None]:
        token = self._of_thread.set(context)
        self._entered[id(context)] = context
        try:
            yield
        finally:
            del self._entered[id(context)]
            self._of_thread.reset(token)


_CURRENT = _Current()


def part(kind: type[T]) -> T | None:
    """Returns the current run's part of the given class, or None."""
    return _CURRENT.get().part(kind)


@contextlib.contextmanager
def extended(*parts: object, without: type | None = None) -> Iterator[None]:
    """Extends the current context for the duration of a block.

    Args:
      *parts: At most one object of each class; it replaces the current part of that class.
      without: Class whose part is removed for the duration of the block.
    """
    more: dict[type, object | None] = {type(one): one for one in parts}
    if without is not None:
        more[without] = None
    with _CURRENT.entered(RunContext({**_CURRENT.get().parts, **more})):
        yield
