"""The observers of a run: features that monitor or change the calls by which a module trains.

There is one list of observers for all frameworks. `keras/interception.py` and `estimator/interception.py` define the
calls that can be observed, as subclasses of `Observer` and `ObservedCall`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .. import run_context

C = TypeVar("C", bound="ObservedCall")
Kind = TypeVar("Kind", bound="Observer")


class ObservedCall:
    """A call of a patched method.

    Attributes:
      original: The original method; its first argument is the object.
      arguments: The call's arguments by name. Observers may change them before calling `proceed`.
      is_nested: Whether another call that was counted with `in_progress` has not returned yet.
    """

    def __init__(self, original: Callable[..., object], bound: inspect.BoundArguments, is_nested: bool) -> None:
        self.original = original
        self.bound = bound
        self.arguments: dict[str, Any] = bound.arguments
        self.is_nested = is_nested

    @classmethod
    def of(
        cls: type[C], original: Callable[..., object], args: Sequence[object], options: Mapping[str, object]
    ) -> C | None:
        """Binds the arguments of a call; returns None if the run has no observers or the arguments are invalid."""
        known = _known()
        if not known.observers:
            return None
        try:
            bound = inspect.signature(original).bind(*args, **options)
        except TypeError:
            return None
        return cls(original, bound, is_nested=bool(known.running))

    def run(self) -> object:
        """Calls the original method."""
        return self.original(*self.bound.args, **self.bound.kwargs)

    @contextlib.contextmanager
    def in_progress(self) -> Iterator[None]:
        """Makes other calls in the block nested ones."""
        running = _known().running
        running.append(self)
        try:
            yield
        finally:
            running.remove(self)


class Observer:
    """Base class of the observers of each framework."""

    @staticmethod
    def interception() -> contextlib.AbstractContextManager[None]:
        """Patches the framework for the duration of a block, so that its calls reach the observers."""
        raise NotImplementedError


@contextlib.contextmanager
def observed_by(observer: Kind) -> Iterator[Kind]:
    """Adds an observer for the duration of a block, inside the observers that are already active.

    A framework is patched when its first observer is added. An observer may derive from the classes of several
    frameworks.
    """
    known = _known()
    classes = [one for one in type(observer).__mro__ if issubclass(one, Observer) and one is not Observer]
    interceptions = {one.interception for one in classes} - known.interceptions
    extended = dataclasses.replace(
        known,
        observers=(*known.observers, observer),
        interceptions=known.interceptions | interceptions,
    )
    with contextlib.ExitStack() as stack:
        for interception in interceptions:
            stack.enter_context(interception())
        stack.enter_context(run_context.extended(extended))
        yield observer


def observers_of(kind: type[Kind]) -> list[Kind]:
    """Returns the run's observers of a class, outermost first."""
    return [observer for observer in _known().observers if isinstance(observer, kind)]


def call_through(methods: Sequence[Callable[[C, Callable[[], Any]], Any]], call: C) -> object:
    """Calls the observers' methods like middleware: each calls the next one with `proceed`, the last the original."""
    proceed = call.run
    for method in reversed(methods):
        proceed = functools.partial(method, call, proceed)
    return proceed()


@dataclasses.dataclass(frozen=True)
class _Observers:
    """The observers of a run, outermost first.

    Attributes:
      observers: The observers of all frameworks.
      interceptions: The patches that are active.
      running: The calls in progress.
    """

    observers: tuple[Observer, ...] = ()
    interceptions: frozenset[Callable[[], contextlib.AbstractContextManager[None]]] = frozenset()
    running: list[ObservedCall] = dataclasses.field(default_factory=list)


def _known() -> _Observers:
    return run_context.part(_Observers) or _Observers()
