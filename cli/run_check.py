"""The preflight check of `run`, in a subprocess while this process runs the steps before training.

check = start(options, modules, tunes)    # pipeline options
with check.stops_on_failure():
    …                                     # the steps before training
findings = check.require_passed()         # {"train_examples": "raw"}: values for the pipeline's options
…
check.record()                            # records in the pipeline's root that this request has passed
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import click
from absl import logging

from ..executors.engines import child_process
from ..executors.errors import InputError, ModelCheckError, TrainingProcessError
from ..executors.evaluation.overrides import options_except_label
from ..executors.evaluation.plan import EvaluationPlan
from ..executors.fn_args import FnArgs
from ..executors.modules.pipeline_modules import PipelineModules
from ..executors.monitoring import display
from ..executors.preflight import stamp
from ..executors.preflight.request import CheckRequest
from ..executors.preflight.verdicts import NOT_REACHED, PASSED, WARNING, Report, Verdict
from ..executors.runtime.files import file_io
from ..executors.runtime.logs.exceptions import rebuild
from ..executors.runtime.process.forwarding import LastText
from ..executors.runtime.process.termination import is_handled
from ..pipelines.definition.options import PipelineKeywords
from ..pipelines.definition.pipeline_root import ROOT_MARKER
from .verdict_format import format_verdict

_WORKER = "generic_trainer.executors.preflight.check"
# Interrupts the main thread; sent by and to this process only. No platform ends a job with it.
_SIGNAL = signal.SIGURG
_POLL_SECONDS = 0.1
_ERRORS = {1: TrainingProcessError, 2: InputError, 3: ModelCheckError}


def start(options: PipelineKeywords, modules: PipelineModules, tunes: bool) -> BackgroundCheck:
    """Starts the check of a pipeline in the background.

    Args:
      options: The pipeline's options (those of `PipelineOptions`).
      modules: The pipeline's modules; their files must exist until the check has ended.
      tunes: Whether the pipeline searches for hyper-parameters with `tuner_fn`.
    """
    return BackgroundCheck(_request(options, modules, tunes), os.path.abspath(options["pipeline_root"]))


def recorded_findings(options: PipelineKeywords, modules: PipelineModules, tunes: bool) -> dict[str, object] | None:
    """Returns the findings of a passed check of the same options in the same root; None without one."""
    root = os.path.abspath(options["pipeline_root"])
    return stamp.findings(root, stamp.fingerprint(_request(options, modules, tunes), root))


class _Interrupt(BaseException):
    """Raised in the main thread when a check has failed."""


class BackgroundCheck:
    """A check that runs in a subprocess and a background thread.

    Attributes:
      known_findings: The findings of a check of the same request that passed in this root, which is not repeated; None
        if there is none.
    """

    def __init__(self, request: CheckRequest, root: str) -> None:
        self._root = root
        self._digest = stamp.fingerprint(request, root)
        self._state = request.to_json()
        self._report: Report | None = None
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._interrupts = False
        self._interrupt = _Interrupt()
        self._main_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.known_findings = stamp.findings(root, self._digest)
        if self.known_findings is None:
            self._thread.start()

    @contextlib.contextmanager
    def stops_on_failure(self) -> Iterator[None]:
        """Interrupts the block when the check fails, and raises the check's error; only for the main thread.

        If the block raises an exception, the check's error takes precedence, because it explains the cause.
        """
        before = signal.signal(_SIGNAL, self._raise_interrupt)
        try:
            try:
                self._set_interrupts(True)
                if self._has_failed():
                    raise self._interrupt
                yield
            finally:
                self._set_interrupts(False)
        except (_Interrupt, Exception) as error:
            self._thread.join()
            if not self._has_failed():
                raise
            logging.debug("The steps before training ended with %r.", error)
        finally:
            signal.signal(_SIGNAL, before)
        if self._has_failed():
            self.require_passed()

    def _set_interrupts(self, wanted: bool) -> None:
        with self._lock:
            self._interrupts = wanted

    def _raise_interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not is_handled(self._interrupt):
            raise self._interrupt

    def _interrupts_main_thread(self) -> bool:
        """Interrupts the main thread, unless it already handles that; returns whether it is in the block."""
        with self._lock:
            if self._interrupts and not is_handled(self._interrupt):
                signal.pthread_kill(self._main_thread, _SIGNAL)
            return self._interrupts

    def _has_failed(self) -> bool:
        return self._error is not None or (self._report is not None and self._report.first_failure is not None)

    def require_passed(self) -> dict[str, object]:
        """Waits for the check to end, and logs its result.

        Returns:
          The check's findings by the names of `PipelineOptions`; see `Report.findings`.

        Raises:
          TrainerError: When a check of files, options or the model failed.
          Exception: An exception of the user's module.
        """
        if self.known_findings is not None:
            return self.known_findings
        with display.current().phase("Checking module and data"):
            self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._report is not None
        if (failed := self._report.first_failure) is not None:
            error = _make_error(failed)
            for verdict in self._report.verdicts:
                is_raised = verdict.text in str(error) and verdict.remedy in str(error)  # the last line has both
                if verdict.status not in (PASSED, NOT_REACHED) and not is_raised:
                    click.echo("\n".join(format_verdict(verdict)), err=True)
            logging.error("The run would fail at %s (use --no-check to run it anyway).", failed.item)
            raise error
        for verdict in self._report.verdicts:
            if verdict.status == WARNING:
                advice = f". {verdict.remedy}" if verdict.remedy else ""
                logging.warning("Check: %s: %s%s", verdict.item, verdict.text, advice)
        estimate = self._report.get("estimate")
        more = f": {estimate.text}" if estimate and estimate.status == PASSED else ""
        logging.info("The check passed in %.0f s%s", self._report.seconds, more)
        if plan := self._report.findings.get("evaluation_plan"):
            logging.info("Evaluation: %s", EvaluationPlan.from_json(plan).line())
        return self._report.findings

    def record(self) -> None:
        """Records in the pipeline's root that the check has passed, with its findings."""
        try:
            if self._report and self._report.passed and file_io.exists(os.path.join(self._root, ROOT_MARKER)):
                stamp.note(self._root, self._digest, self._report.findings)
        except OSError as error:  # must not fail the pipeline, nor hide its error
            logging.warning("The next run checks again, because the check could not be recorded. %s", error)

    def _run(self) -> None:
        try:
            found = child_process.run(_WORKER, self._state, what="checking", output=LastText())
            self._report = Report.from_json(found)
        except Exception as error:
            self._error = error
        while self._has_failed() and self._interrupts_main_thread():  # again if a library swallowed the exception
            time.sleep(_POLL_SECONDS)


def _request(options: PipelineKeywords, modules: PipelineModules, tunes: bool) -> CheckRequest:
    training = options["training"]
    fn_args = FnArgs(
        train_files=[],
        eval_files=[],
        train_steps=options["train_steps"] or None,
        eval_steps=options["eval_steps"] or None,
        schema_path=options["schema"] or None,
        custom_config=options["custom_config"],
        seed=training.seed,
    )
    return CheckRequest(
        options["module_file"],
        fn_args,
        training,
        data=options["data"],
        label="" if options["eval_config"] else options["label"],
        evaluation=options_except_label(options),
        base_model=options["baseline_model"] if options["warm_start"] else "",
        hyperparameters=options["hyperparameters"],
        transform_module=options["transform_module"],
        tuner_module=options["tuner_module"],
        tunes=tunes,
        train_examples=options["train_examples"],
        schema_shapes=options["schema_shapes"],
        modules=modules,
    )


def _make_error(verdict: Verdict) -> BaseException:
    """Returns the exception for a failed verdict: the module's exception if there is one, else a TrainerError."""
    if verdict.error is not None:
        return rebuild(verdict.error)
    parts = (part if part.endswith(".") else f"{part}." for part in (verdict.text, verdict.remedy) if part)
    return _ERRORS.get(verdict.exit_code, InputError)(" ".join(parts))
