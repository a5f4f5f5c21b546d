"""One attempt at a training: runs the worker process that loads and tries the module, in a separate folder."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ..dialects.restart import with_restarts
from ..engines import child_process
from ..modules.keras_version import KerasChoice
from ..runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..runtime.process.forwarding import LastText
from .adaptation import Outcome, Settings
from .events import EventReader, crash_verdict
from .raw_process import RawData
from .request import CheckRequest
from .verdicts import ALWAYS, WARNING, Report, Verdict

if TYPE_CHECKING:
    from .raw_data import Prepared
    from .worker import Found

_WORKER = f"{__name__.rpartition('.')[0]}.worker"


class ExaminationRequest(TypedDict):
    """Request to the worker process, as JSON values.

    Attributes:
      check: A `CheckRequest`; without `modules` if the training module cannot be run.
      keras: The module's `KerasChoice`; None without modules.
      folder: Folder for all output.
      events: File for verdicts and progress; see `events`.
      raw: File that exists once the raw data are prepared; "" without raw data.
      failed: Items that have failed before.
    """

    check: dict[str, object]
    keras: Any
    folder: str
    events: str
    raw: str
    failed: list[str]


@dataclasses.dataclass(frozen=True)
class Trial:
    """The result of an attempt.

    Attributes:
      outcome: Failure and facts that decide about further attempts.
      found: Return value of the worker process; {} if it failed.
      request: The request, with this attempt's settings and folders.
      folder: Folder with all output of the attempt.
      environment: Environment variables of the worker process.
    """

    outcome: Outcome
    found: Found
    request: CheckRequest
    folder: str
    environment: dict[str, str]


class Attempt:
    """One attempt at a training.

    Args:
      request: The run to check.
      settings: Kind of examples, schema and Keras version to try.
      folder: Folder for all output; created.
      report: The verdicts so far.
      add: Adds a verdict to the report.
      output: Captures the output of the worker process.
    """

    def __init__(
        self,
        request: CheckRequest,
        settings: Settings,
        folder: str,
        report: Report,
        add: Callable[[Verdict], None],
        output: LastText,
    ) -> None:
        self._request = dataclasses.replace(
            request,
            fn_args=copy.copy(request.fn_args),
            train_examples=settings.train_examples,
            schema_shapes=settings.schema_shapes,
        )
        self._folder = folder
        self._report = report
        self._add = add
        self._output = output
        self._set_outputs()

    def run(self, keras: KerasChoice | None, environment: dict[str, str], raw: RawData | None) -> Trial:
        """Runs the worker process; adds its verdicts as they arrive.

        Args:
          keras: The module's Keras version; None if the module cannot be run.
          environment: Environment variables of the worker process; gets those that the module turns out to need.
          raw: The process that prepares raw data; None without raw data.
        """
        state: ExaminationRequest = {
            "check": self._request.to_json(),
            "keras": None,
            "folder": self._folder,
            "events": os.path.join(self._folder, "events"),
            "raw": raw.done if raw else "",
            "failed": [verdict.item for verdict in self._report.failures],
        }
        events = EventReader(state["events"], raw.events if raw else "", self._add, self._request.limit)

        def start(choice: KerasChoice | None) -> Found:
            if choice:
                state["keras"] = dataclasses.asdict(choice)
                environment.update(choice.environment())
            returned = child_process.run(
                _WORKER,
                state,
                environment=environment,
                until=events.check_timeout,
                what="checking",
                forked=True,
                output=self._output,
            )
            return cast("Found", returned)

        try:
            evidence = with_restarts(keras, self._request.options, start) if keras else start(None)
        except Exception as error:  # the process itself failed: exceptions of the module arrive as verdicts
            evidence = {}
            events.read()
            self._add(crash_verdict(events.stage, error, self._output))
        events.read()
        if events.has_timed_out:
            verdict = self._timeout_verdict(events)
            if self._report.get(verdict.item) is None:
                self._add(verdict)
        prepared: Prepared = raw.prepared() if raw else {}
        outcome = Outcome(self._report.first_failure, events.reads, prepared.get("kinds", {}))
        return Trial(outcome, evidence, self._request, self._folder, environment)

    def _set_outputs(self) -> None:
        """Redirects all output folders to the attempt's folder, with the layout of a pipeline root."""
        fn_args, output = self._request.fn_args, os.path.join(self._folder, "Trainer")
        fn_args.serving_model_dir = os.path.join(output, "model", "1", SERVING_DIRS[0])
        fn_args.eval_model_dir = os.path.join(output, "model", "1", EVAL_DIR)
        fn_args.model_run_dir = os.path.join(output, "model_run", "1")
        fn_args.checkpoint_dir = os.path.join(fn_args.model_run_dir, "checkpoints")
        for folder in (os.path.dirname(fn_args.serving_model_dir), fn_args.model_run_dir):
            os.makedirs(folder)

    def _timeout_verdict(self, events: EventReader) -> Verdict:
        """Returns the verdict on a stage that exceeded the limit, with the progress so far."""
        progress = events.progress
        item = progress.get("phase", "model") if events.stage == "trial" else events.stage
        if item == "data" and self._report.get("data") is not None:
            item = "transform"
        if self._report.get(item) is not None:  # it had ended, and the next item had not begun
            item = next((one for one in ALWAYS if self._report.get(one) is None), item)
        limit = f"stopped after {self._request.limit:g} s (--limit)"
        if events.stage != "trial":
            return Verdict(item, WARNING, f"{limit}, before it was complete")
        steps = progress.get("steps", 0)
        done = f"{steps} training step{'s' * (steps != 1)} completed" if steps else "no training step was observed"
        if losses := progress.get("losses"):
            done += f", loss {losses[-1]:.4g}"
        return Verdict(
            item,
            WARNING,
            f"{limit}: {done}. The check cannot shorten this training; the phases after it were not tried.",
            remedy="Increase --limit; a loop of your own can end at fn_args.train_steps, which a check reduces.",
            details=progress,
        )
