"""Attempts at a training: each runs the worker process that loads and tries the module, in a separate folder."""

from __future__ import annotations

import copy
import dataclasses
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..dialects.needs import choose_keras
from ..dialects.restart import with_restarts
from ..engines import child_process
from ..errors import ProcessTimeoutError
from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..runtime.process.forwarding import LastText
from .adaptation import Outcome, Settings
from .events import EventReader, EventWriter, crash_verdict
from .request import CheckRequest, PartRequest
from .verdicts import ALWAYS, WARNING, Report, Verdict

if TYPE_CHECKING:
    from .worker import Found


@dataclasses.dataclass(frozen=True)
class Trial:
    """The result of an attempt.

    Attributes:
      outcome: Failure and facts that decide about further attempts.
      found: Return value of the worker process; {} if it failed.
      folder: Folder with all output of the attempt.
      environment: Environment variables of the worker process.
    """

    outcome: Outcome
    found: Found
    folder: str
    environment: Mapping[str, str]


class Trials:
    """Runs attempts with different settings; raw data are prepared once for each value of `schema_shapes`.

    Args:
      request: The run to check.
      keras: The Keras version of the training module; None if the module cannot be run.
      environment: Environment variables of all processes.
      folder: Folder for all output.
      output: Captures the output of the processes.
    """

    def __init__(
        self,
        request: CheckRequest,
        keras: KerasChoice | None,
        environment: Mapping[str, str],
        folder: str,
        output: LastText,
    ) -> None:
        self._request = request
        self._keras = keras
        self._environment = environment
        self._folder = folder
        self._output = output
        self._raw: dict[str, threading.Thread] = {}

    def run(self, settings: Settings, report: Report, add: Callable[[Verdict], None]) -> Trial:
        """Runs the worker process.

        Args:
          settings: Kind of examples, schema and Keras version to try.
          report: The verdicts so far.
          add: Adds a verdict to the report; called with those of the process as they arrive.
        """
        shapes, keras = settings.schema_shapes, self._keras
        folder = os.path.join(self._folder, f"{settings.train_examples}-{shapes}{settings.keras}")
        fn_args = _with_outputs_in(os.path.join(folder, "Trainer"), self._request.fn_args)
        check = dataclasses.replace(
            self._request, fn_args=fn_args, train_examples=settings.train_examples, schema_shapes=shapes
        )
        raw = self._raw_data(shapes) if check.data else ""
        request = PartRequest(check, folder, raw=raw, failed=tuple(verdict.item for verdict in report.failures))
        environment = dict(self._environment)
        events = EventReader([raw, folder] if raw else [folder], add, check.limit)

        def start(choice: KerasChoice | None) -> Found:
            environment.update(choice.environment() if choice else {})
            own = dataclasses.replace(request, keras=choice)
            returned = self._execute("worker", own, environment, until=events.check_timeout, what="checking")
            return cast("Found", returned)

        if keras and settings.keras:
            keras = dataclasses.replace(keras, version=settings.keras, reason="determined by a trial")
        try:
            evidence = with_restarts(keras, check.options, start) if keras else start(None)
        except Exception as error:  # the process itself failed: exceptions of the module arrive as verdicts
            evidence = {}
            events.read()
            add(crash_verdict(events.stage, error, self._output))
        events.read()
        if events.has_timed_out:
            verdict = timeout_verdict(events, report, check.limit)
            if report.get(verdict.item) is None:
                add(verdict)
        outcome = Outcome(report.first_failure, events.reads, (events.prepared or {}).get("kinds", {}))
        return Trial(outcome, evidence, folder, environment)

    def close(self) -> None:
        """Waits for the preparation of raw data."""
        for thread in self._raw.values():
            thread.join()

    def _raw_data(self, shapes: str) -> str:
        """Returns the folder of the raw data, whose preparation runs in parallel with the import of the module."""
        folder = os.path.join(self._folder, f"raw-{shapes}")
        if folder not in self._raw:
            environment, modules = dict(self._environment), self._request.modules
            if modules and modules.transform:
                keras = choose_keras(self._request.options.keras, modules.transform.files, beside=modules.files)
                environment |= keras.environment()
            request = PartRequest(dataclasses.replace(self._request, schema_shapes=shapes), folder)
            self._raw[folder] = threading.Thread(
                target=self._prepare_raw_data, args=(request, environment), daemon=True
            )
            self._raw[folder].start()
        return folder

    def _prepare_raw_data(self, request: PartRequest, environment: Mapping[str, str]) -> None:
        """Runs the process that prepares raw data; its last event is the result, {} after a failure."""
        events, limit, prepared = EventWriter(request.folder), request.check.limit, {}
        try:
            prepared = self._execute("raw_data", request, environment, timeout=limit, what="raw data")
        except ProcessTimeoutError:
            events.verdict(Verdict("data", WARNING, f"preparation was stopped after {limit:g} s (--limit)"))
        except Exception as error:  # the process itself failed: it reports errors of data and module as verdicts
            events.verdict(crash_verdict("data", error, self._output))
        events.write("prepared", prepared)

    def _execute(
        self, worker: str, request: PartRequest, environment: Mapping[str, str], **others: Any
    ) -> dict[str, Any]:
        return child_process.run(
            f"{__package__}.{worker}",
            request.to_json(),
            environment=environment,
            forked=True,
            output=self._output,
            **others,
        )


def _with_outputs_in(folder: str, fn_args: FnArgs) -> FnArgs:
    """Returns a copy of the arguments with outputs in a folder, in the layout of a pipeline root."""
    fn_args = copy.copy(fn_args)
    fn_args.serving_model_dir = os.path.join(folder, "model", "1", SERVING_DIRS[0])
    fn_args.eval_model_dir = os.path.join(folder, "model", "1", EVAL_DIR)
    fn_args.model_run_dir = os.path.join(folder, "model_run", "1")
    fn_args.checkpoint_dir = os.path.join(fn_args.model_run_dir, "checkpoints")
    for output in (os.path.dirname(fn_args.serving_model_dir), fn_args.model_run_dir):
        os.makedirs(output)
    return fn_args


def timeout_verdict(events: EventReader, report: Report, limit: float) -> Verdict:
    """Returns the verdict on a stage that exceeded the limit, with the progress so far."""
    progress = events.progress
    item = progress.get("phase", "model") if events.stage == "trial" else events.stage
    if item == "data" and report.get("data") is not None:
        item = "transform"
    if report.get(item) is not None:  # it had ended, and the next item had not begun
        item = next((name for name in ALWAYS if report.get(name) is None), item)
    stopped = f"stopped after {limit:g} s (--limit)"
    if events.stage != "trial":
        return Verdict(item, WARNING, f"{stopped}, before it was complete")
    steps = progress.get("steps", 0)
    done = f"{steps} training step{'s' * (steps != 1)} completed" if steps else "no training step was observed"
    if losses := progress.get("losses"):
        done += f", loss {losses[-1]:.4g}"
    return Verdict(
        item,
        WARNING,
        f"{stopped}: {done}. The check cannot shorten this training; the phases after it were not tried.",
        remedy="Increase --limit; a loop of your own can end at fn_args.train_steps, which a check reduces.",
        details=progress,
    )
