"""The environment variables of one run; `os.environ` belongs to the whole process, and so to all runs in its threads.

with extended_environment({"MLFLOW_RUN_ID": run}):       # of this thread's run; `os.environ` stays unchanged
    subprocess.Popen(…, env=inherited_environment())
with applied_environment({"MLFLOW_RUN_ID": run}):        # for a worker in this process
    …
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import types
from collections.abc import Iterator, Mapping, MutableMapping


class _RunEnvironment:
    """Variables of the run in each thread, and those that a worker in this process has in `os.environ`."""

    def __init__(self) -> None:
        self._of_thread = contextvars.ContextVar[Mapping[str, str]]("variables", default=types.MappingProxyType({}))
        self._applied: Mapping[str, str | None] = {}  # the values that they replace
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()  # a thread that does not exist in the fork may have held it

    def inherited(self) -> dict[str, str]:
        """Returns the environment of a process that this thread starts: this process's, and the variables of the run.

        It lacks what `applied_environment` has set in another thread.
        """
        with self._lock:
            variables = os.environ.copy()
            _set(variables, self._applied)
        return {**variables, **self._of_thread.get()}

    @contextlib.contextmanager
    def extended(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Adds variables to `inherited_environment` for the duration of a block, in this thread."""
        token = self._of_thread.set({**self._of_thread.get(), **variables})
        try:
            yield
        finally:
            self._of_thread.reset(token)

    @contextlib.contextmanager
    def applied(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Sets the run's variables and the given ones in `os.environ`; restores the previous values after the block."""
        with self.extended(variables):
            everything = self._of_thread.get()
            with self._lock:
                outer, before = self._applied, {name: os.environ.get(name) for name in everything}
                self._applied = {**before, **outer}
                os.environ.update(everything)
            try:
                yield
            finally:
                with self._lock:
                    _set(os.environ, before)
                    self._applied = outer


def _set(environment: MutableMapping[str, str], values: Mapping[str, str | None]) -> None:
    """Sets variables, or removes those without a value."""
    for name, value in values.items():
        environment.pop(name, None)
        environment.update({} if value is None else {name: value})


_VARIABLES = _RunEnvironment()
inherited_environment = _VARIABLES.inherited
extended_environment = _VARIABLES.extended
applied_environment = _VARIABLES.applied
