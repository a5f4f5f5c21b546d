"""The interface of features in the training process: what they do around the module.

    class Flops(WorkerCallback):
        @contextlib.contextmanager
        def around(self) -> Iterator[None]:
            with observed_by(self._counter):
                yield

        def result(self, returned: object) -> object:
            return {"flops": self._counter.flops}

A package registers its classes by entry point, in the group `generic_trainer.worker_callbacks`. The result goes to the
`RunCallback` that is registered under the same name. The fork server imports the registered modules in advance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .. import plugins

if TYPE_CHECKING:
    from ..dialects.base import Dialect
    from ..engines.training_request import TrainingRequest

GROUP = "generic_trainer.worker_callbacks"
Context = contextlib.AbstractContextManager[object]


class WorkerCallback:
    """What a feature does in the training process; one object for each training, made before the module is imported.

    Attributes:
      order: Contexts of a lower order surround those of a higher one.
      request: The training.
      dialect: The module's dialect; set before `around` is called.
    """

    order: ClassVar[int] = 50
    dialect: Dialect

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request

    def loading(self) -> Context:
        """Returns a context for the import of the module and the call of `run_fn`."""
        return contextlib.nullcontext()

    def around(self) -> Context:
        """Returns a context for the call of `run_fn`."""
        return contextlib.nullcontext()

    def result(self, returned: object) -> object:
        """Returns what the calling process shall know, as JSON values.

        Args:
          returned: What `run_fn` has returned.
        """


class WorkerCallbacks:
    """The registered callbacks of a training."""

    def __init__(self, request: TrainingRequest) -> None:
        installed = cast("Mapping[str, type[WorkerCallback]]", plugins.load(GROUP))
        by_order = sorted(installed.items(), key=lambda item: item[1].order)
        self._callbacks = {name: callback(request) for name, callback in by_order}

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Surrounds the import of the module and the call of `run_fn`."""
        with contextlib.ExitStack() as contexts:
            for callback in self._callbacks.values():
                contexts.enter_context(callback.loading())
            yield

    @contextlib.contextmanager
    def around(self, dialect: Dialect) -> Iterator[None]:
        """Surrounds the call of the `run_fn` that a dialect has made."""
        with contextlib.ExitStack() as contexts:
            for callback in self._callbacks.values():
                callback.dialect = dialect
                contexts.enter_context(callback.around())
            yield

    def results(self, returned: object) -> dict[str, Any]:
        """Returns the results of all callbacks by name."""
        return {name: callback.result(returned) for name, callback in self._callbacks.items()}
