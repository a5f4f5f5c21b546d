"""The interface of features of a run: what they do around its phases, in the process that calls `train`.

    class Slack(RunCallback):
        @contextlib.contextmanager
        def run(self, run: Run) -> Iterator[None]:
            with posted_errors():
                yield
            post(f"{run.module} was published to {run.fn_args.serving_model_dir}")

A package registers its callbacks by entry point, in the group `generic_trainer.run_callbacks`; `train(callbacks=…)`
adds others for one run.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .. import plugins
from ..runtime.logs.exceptions import add_note
from .after_publishing import warned_after_publishing

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord
    from .run_state import Run

GROUP = "generic_trainer.run_callbacks"
# The phases, in this order. SETUP surrounds all others, RUN all after INPUTS, RECORD all after RUN. ATTEMPT is each
# start of the worker, in TRAINING and in EVALUATOR.
SETUP, INPUTS, RUN, RECORD, TRAINING, ATTEMPT = "setup", "inputs", "run", "record", "training", "attempt"
EVALUATOR, CHECK, PUBLISH, PUBLISHED = "evaluator", "check", "publish", "published"
_TIMED = (INPUTS, TRAINING, EVALUATOR, CHECK, PUBLISH)
Context = contextlib.AbstractContextManager[object]


class RunCallback:
    """What a feature does around the phases of a run; one object for each run.

    A subclass overrides the methods of the phases that it uses. Each returns a context: what precedes the `yield` runs
    before the phase, the rest after it. An exception in the phase passes through the contexts, so that each sees it.
    One that a context raises ends the run; after the model was published, it is only logged as a warning.

    Attributes:
      order: Contexts of a lower order surround those of a higher one.
      parts: What the record has beside its fields, with the values before this callback sets them in `record.parts`.
      publishes: Whether the model counts as published only when this context of `run` has ended.
    """

    order: ClassVar[int] = 50
    parts: ClassVar[Mapping[str, object]] = {}
    publishes: ClassVar[bool] = False

    def setup(self, run: Run) -> Context:
        """Surrounds everything; may replace `run.fn_args`."""
        return contextlib.nullcontext()

    def inputs(self, run: Run) -> Context:
        """Surrounds the search for the module and the inputs. Nothing is written yet, as an input may be invalid."""
        return contextlib.nullcontext()

    def run(self, run: Run) -> Context:
        """Surrounds the rest of the run, before the model run folder is written to."""
        return contextlib.nullcontext()

    def record(self, run: Run) -> Context:
        """Surrounds the rest of the run; the record is written inside, at the beginning and at the end.

        It also surrounds the record of a pipeline step that failed before `inputs`.
        """
        return contextlib.nullcontext()

    def training(self, run: Run) -> Context:
        """Surrounds the training."""
        return contextlib.nullcontext()

    def attempt(self, run: Run) -> Context:
        """Surrounds each start of the worker; may add to `run.variables` and `run.on_start`."""
        return contextlib.nullcontext()

    def evaluator(self, run: Run) -> Context:
        """Surrounds the wait for a cluster's evaluator, in its chief."""
        return contextlib.nullcontext()

    def check(self, run: Run) -> Context:
        """Surrounds the check of the model; may add to `run.check_parts`, and read `run.reports` afterwards."""
        return contextlib.nullcontext()

    def publish(self, run: Run) -> Context:
        """Surrounds the publication of the model."""
        return contextlib.nullcontext()

    def published(self, run: Run) -> Context:
        """Runs when the model is published."""
        return contextlib.nullcontext()

    def merge(self, part: Any, run: Run) -> None:
        """Records the result of the `WorkerCallback` that is registered under the same name; by default nothing."""


class Callbacks:
    """The callbacks of a run, and what they add to its record."""

    def __init__(self, record: RunRecord, callbacks: Sequence[RunCallback] = ()) -> None:
        installed = cast("Mapping[str, type[RunCallback]]", plugins.load(GROUP))
        self._installed = {name: callback() for name, callback in installed.items()}
        every = [*self._installed.values(), *callbacks]
        self._callbacks = sorted(every, key=lambda callback: callback.order)
        for callback in self._callbacks:
            record.declare(callback.parts)

    @contextlib.contextmanager
    def __call__(self, phase: str, run: Run) -> Iterator[None]:
        """Surrounds a phase with the contexts of all callbacks, and records how long it takes."""
        with contextlib.ExitStack() as contexts:
            for callback in self._callbacks:
                context = functools.partial(getattr(callback, phase), run)
                contexts.enter_context(context() if callback.publishes else _WarningOncePublished(context, run))
            if phase in _TIMED:
                contexts.enter_context(run.timed(phase))
            yield

    def merge(self, parts: Mapping[str, Any], run: Run) -> None:
        """Passes the results of the worker's callbacks to those of the same names; records the others as they are."""
        for name, part in parts.items():
            if name in self._installed:
                try:
                    self._installed[name].merge(part, run)
                except Exception as error:
                    add_note(error, f"Raised by the run callback {name!r} for the result of its worker callback.")
                    raise
            elif part is not None:
                run.record.parts[name] = part


class _WarningOncePublished(contextlib.AbstractContextManager[None]):
    """Logs the exceptions of a context, but not those of its block, as warnings once the model is published."""

    def __init__(self, context: Callable[[], Context], run: Run) -> None:
        self._make, self._run = context, run
        self._context: Context | None = None

    def __enter__(self) -> None:
        with warned_after_publishing(lambda: self._run.is_published):
            context = self._make()
            context.__enter__()
            self._context = context

    def __exit__(self, *raised: Any) -> bool | None:
        with warned_after_publishing(lambda: self._run.is_published and raised[1] is None):
            if self._context is not None:
                return self._context.__exit__(*raised)
        return None
