"""Injects every fault in every phase, each followed by a run that must succeed; prints the outcomes as a table.

python tests/faults/matrix.py            # about five minutes; the tests in this folder cover a part of it
python tests/faults/matrix.py publish "export after fit"    # some phases
python tests/faults/matrix.py interrupts    # every signal in every phase, on one machine, with TF_CONFIG and on Ray
python tests/faults/matrix.py steps    # every signal in every step of `run`
python tests/faults/matrix.py lost-tasks    # every task of clusters, at three moments, with the seconds of real jobs
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

from cluster_job import ClusterJob
from fault_job import PHASES, FitJob, Job, PipelineJob, compiled
from fit_guarantees import PHASES_AFTER_FIT, require_recovered_after_fit, run_fit_with_fault
from guarantees import MEMORY, Fault, require_recovered, run_with_fault
from interrupts import CASES, SAVED, InterruptedJob, require_nothing_lost, require_resumed
from lost_tasks import CASES as LOSSES
from lost_tasks import require_named
from pipeline_guarantees import require_pipeline_recovered, run_pipeline_with_fault
from pipeline_interrupts import CASES as STEP_CASES
from pipeline_interrupts import WholePipelineJob, require_ended, require_pushed

KINDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, MEMORY)
METADATA, INTERRUPTS, STEPS, LOST_TASKS = "metadata", "interrupts", "steps", "lost-tasks"
ROUND_SECONDS = 5.0  # `task_watch.ROUND_SECONDS`
AFTER_FIT = " after fit"
_PATH = re.compile(r"(/[\w.-]+)+/")


@dataclasses.dataclass(frozen=True)
class Row:
    """A phase: the job, the injection of a fault, and the guarantees for the next run."""

    job: Callable[[pathlib.Path, pathlib.Path], Any]
    run_with_fault: Callable[[Any, Any], str]
    require_recovered: Callable[[Any], None]

    @classmethod
    def of(cls, phase: str) -> Row:
        """Returns the row of a phase by its name."""
        if phase == METADATA:
            return cls(PipelineJob, run_pipeline_with_fault, require_pipeline_recovered)
        if phase.endswith(AFTER_FIT):
            name = phase.removesuffix(AFTER_FIT)
            return cls(
                FitJob, lambda job, kind: run_fit_with_fault(job, Fault(name, kind)), require_recovered_after_fit
            )
        return cls(Job, lambda job, kind: run_with_fault(job, Fault(phase, kind)), require_recovered)


def print_interrupts() -> int:
    """Sends every signal in every phase, and prints what is kept; returns the exit code."""
    failed = 0
    print("| runs | phase | signal | exit code | model | last line | the next run |\n" + "| --- " * 7 + "|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shim = compiled(folder)
        for case in CASES:
            job = InterruptedJob(folder / str(case), shim, case.engine)
            try:
                ended = require_nothing_lost(job, case)
                kept = "published" if case.publishes else "kept" if case.phase in SAVED or case.resumes else "none"
                require_resumed(job, case)
                after = "publishes it" if case.resumes else "trains"
                cells = [str(ended.code), kept, _PATH.sub("…/", ended.last_line), after]
            except Exception:
                cells = [f"FAILED: {traceback.format_exc()}"]
                failed += 1
            finally:
                job.stop()
            print(f"| {' | '.join([case.engine, case.phase, case.number.name, *cells])} |", flush=True)
    return int(failed > 0)


def print_steps() -> int:
    """Sends every signal in every step of a pipeline, and prints what is pushed; returns the exit code."""
    failed = 0
    print("| step | signal | exception | exit code | seconds | last line |\n" + "| --- " * 6 + "|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = WholePipelineJob(folder / "job", compiled(folder))
        for case in STEP_CASES:
            try:
                ended = require_ended(job, case)
                cells = [str(ended.code), f"{job.seconds_since_signal():.1f}", _PATH.sub("…/", ended.last_line)]
            except Exception:
                cells = [f"FAILED: {traceback.format_exc()}"]
                failed += 1
            finally:
                job.stop()
            how = "dropped" if case.is_dropped else "raised"
            print(f"| {' | '.join([case.step, case.number.name, how, *cells])} |", flush=True)
        require_pushed(job)
    return int(failed > 0)


def print_lost_tasks() -> int:
    """Kills each task of clusters, and prints when and how the others ended; returns the exit code."""
    failed = 0
    print("| job | killed | moment | task: seconds, exit code | last line |\n" + "| --- " * 5 + "|")
    with tempfile.TemporaryDirectory() as name:
        for case in LOSSES:
            job = ClusterJob(pathlib.Path(name) / str(case), case.kind, ROUND_SECONDS, case.steps)
            try:
                others = {task: ended for task, ended in require_named(case, job).items() if task != case.task}
                times = ", ".join(f"{task}: {ended.seconds:.0f} s, {ended.code}" for task, ended in others.items())
                cells = [times, next(iter(others.values())).last_line]
            except Exception:
                cells = ["", f"FAILED: {traceback.format_exc()}"]
                failed += 1
            finally:
                job.stop()
            how = case.task if case.how == "kill" else f"{case.task}'s training"
            print(f"| {' | '.join([case.kind, how, case.moment, *cells])} |", flush=True)
    return int(failed > 0)


def main() -> int:
    """Runs the given or all phases; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore both
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if sys.argv[1:] == [INTERRUPTS]:
        return print_interrupts()
    if sys.argv[1:] == [STEPS]:
        return print_steps()
    if sys.argv[1:] == [LOST_TASKS]:
        return print_lost_tasks()
    phases = sys.argv[1:] or [*PHASES, METADATA, *(f"{phase}{AFTER_FIT}" for phase in PHASES_AFTER_FIT)]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shim = compiled(folder)
        print("| phase | fault | last line of the output |\n| --- | --- | --- |")
        for phase in phases:
            row = Row.of(phase)
            job = row.job(folder / phase.replace(" ", "-"), shim)
            row.require_recovered(job)
            for kind in KINDS:
                try:
                    last_line = row.run_with_fault(job, kind)
                    row.require_recovered(job)
                except Exception:
                    last_line = f"FAILED: {traceback.format_exc()}"
                    failed += 1
                finally:
                    job.stop()
                print(f"| {phase} | {getattr(kind, 'name', kind)} | {_PATH.sub('…/', last_line)} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
