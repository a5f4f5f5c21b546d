"""Spares an Estimator's session what `run` does anew at each step, though each step asks for the same.

    estimator.train(input_fn, hooks=[SessionCallsHook()])

`tf.compat.v1.Session.run` looks up what it is asked for, and passes options there and back, which for a small model
takes a third of the step. `Session.make_callable` does that once. So a session is given a `run` that keeps such a
callable for each set of fetches. What feeds values, or wants a trace, goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import tensorflow.compat.v1 as tf

_KEPT = 32  # sets of fetches: a step's, those of hooks every so many steps; more would be new ones each time


class SessionCallsHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Shortens the calls of a training's session."""

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Gives the session its `run`, unless its class has one of its own, as a debugger's has."""
        del coord
        if type(session).run is tf.Session.run:
            session.run = _Run(session)


class _Run:
    """The method `run` of a session."""

    def __init__(self, session: tf.Session) -> None:
        self._session = session
        self._run = session.run
        self._kept: dict[Hashable, tuple[object, Callable[[], object]]] = {}

    def __call__(
        self,
        fetches: object,
        feed_dict: Mapping[tf.Tensor, object] | None = None,
        options: tf.RunOptions | None = None,
        run_metadata: tf.RunMetadata | None = None,
    ) -> object:
        """Does what `tf.compat.v1.Session.run` does."""
        if feed_dict or (options is not None and options.ByteSize()) or self._session._closed:
            return self._run(fetches, feed_dict, options, run_metadata)
        key = _key(fetches)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) == _KEPT:
                return self._run(fetches, feed_dict, options, run_metadata)
            # The fetches are kept as well: the key has their identities, which are theirs as long as they live.
            kept = self._kept[key] = fetches, self._session.make_callable(fetches)
        return self._session._do_call(kept[1])  # which says where in the module a failed operation was made


def _key(fetches: object) -> Hashable:
    """Returns what tells fetches apart: their structure, and which tensors and operations are in it."""
    if isinstance(fetches, dict):
        return type(fetches), tuple((id(name), _key(fetch)) for name, fetch in fetches.items())
    if isinstance(fetches, (list, tuple)):
        return type(fetches), tuple(map(_key, fetches))
    return fetches if isinstance(fetches, str) else id(fetches)
