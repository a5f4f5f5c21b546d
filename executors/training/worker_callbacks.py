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
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, cast

from .. import plugins

if TYPE_CHECKING:
    from ..dialects.base import Dialect
    from ..engines.training_request import TrainingRequest
    from ..fn_args import FnArgs

GROUP = "generic_trainer.worker_callbacks"
Context = contextlib.AbstractContextManager[object]


class WorkerCallback:
    """What a feature does in the training process; one object for each training, made before the module is imported.

    Attributes:
      order: Contexts of a lower order surround those of a higher one.
      request: The training.
      dialect: The module's dialect; set before `chosen` is called.
    """

    order: ClassVar[int] = 50
    dialect: Dialect

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request

    def loading(self) -> Context:
        """Returns a context for the import of the module and the call of `run_fn`."""
        return contextlib.nullcontext()

    def imported(self, module: ModuleType) -> None:
        """Called when the module is imported, before its dialect is chosen."""

    def chosen(self, name: str, evidence: str) -> None:
        """Called when the dialect is chosen, with its name and the reason, before it returns its `run_fn`."""

    def arguments(self, fn_args: FnArgs) -> FnArgs:
        """Returns the arguments of `run_fn`."""
        return fn_args

    def around(self) -> Context:
        """Returns a context for the call of `run_fn`."""
        return contextlib.nullcontext()

    def result(self, returned: object) -> object:
        """Returns what the calling process shall know, as JSON values.

        Args:
          returned: What `run_fn` has returned.
        """


def registered_callbacks(request: TrainingRequest) -> dict[str, WorkerCallback]:
    """Returns the callbacks that packages have registered, in their order."""
    installed = cast("Mapping[str, type[WorkerCallback]]", plugins.load(GROUP))
    by_order = sorted(installed.items(), key=lambda item: item[1].order)
    return {name: callback(request) for name, callback in by_order}


@contextlib.contextmanager
def nested(contexts: Iterable[Context]) -> Iterator[None]:
    """Enters contexts, each inside those before it."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
