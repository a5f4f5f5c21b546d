"""Context-local state of the run that this process executes, for code that gets no arguments from the trainer.

A training module calls `report_progress`, reads `fn_args.data_accessor` or calls `fit`; the behavior of these calls
depends on the run. Each service that they reach has a class for its part of the state, and looks it up by that class:

    with run_context.extended(BadRecords(limit=10)):
        run_fn(fn_args)

    run_context.part(BadRecords)     # None outside a run

A reader takes the context that it is built in along into the threads that read, such as those of tf.data:

    tf.data.Dataset.from_generator(run_context.bound(make_rows), …)

A thread that the module itself starts is in the context that was entered last.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
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
    """The context of each thread. A thread without one, which the module has started, uses the last entered context."""

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
    def set(self, context: RunContext) -> Iterator[None]:
        token = self._of_thread.set(context)
        try:
            yield
        finally:
            self._of_thread.reset(token)

    @contextlib.contextmanager
    def entered(self, context: RunContext) -> Iterator[None]:
        self._entered[id(context)] = context
        try:
            with self.set(context):
                yield
        finally:
            del self._entered[id(context)]


_CURRENT = _Current()


def part(kind: type[T]) -> T | None:
    """Returns the current run's part of the given class, or None."""
    return _CURRENT.get().part(kind)


def bound(make: Callable[P, Iterable[T]]) -> Callable[P, Iterator[T]]:
    """Returns a function whose iterators advance in the present context, whichever thread advances them."""
    context = RunContext(_CURRENT.get().parts)

    def made(*args: P.args, **options: P.kwargs) -> Iterator[T]:
        with _CURRENT.set(context):
            items = iter(make(*args, **options))
        while True:
            with _CURRENT.set(context):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    return made


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
