"""Every fault in every phase, each followed by a run that must go through; prints what each said, as a table.

python tests/faults/matrix.py            # about five minutes; the tests beside it do some of each
python tests/faults/matrix.py publish "export after fit"    # some phases
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

from fault_job import PHASES, FitJob, Job, PipelineJob, compiled
from fit_promises import PHASES_AFTER_FIT, require_recovered_after_fit, suffer_after_fit
from pipeline_promises import require_pipeline_recovered, suffer_in_metadata
from promises import MEMORY, Fault, require_recovered, suffer

KINDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, MEMORY)
METADATA = "metadata"
AFTER_FIT = " after fit"
_PATH = re.compile(r"(/[\w.-]+)+/")


@dataclasses.dataclass(frozen=True)
class Row:
    """A phase: what runs, into which fault, and what must hold for the run after it."""

    job: Callable[[pathlib.Path, pathlib.Path], Any]
    suffer: Callable[[Any, Any], str]
    require_recovered: Callable[[Any], None]

    @classmethod
    def of(cls, phase: str) -> Row:
        """Returns the row of a phase by its name."""
        if phase == METADATA:
            return cls(PipelineJob, suffer_in_metadata, require_pipeline_recovered)
        if phase.endswith(AFTER_FIT):
            name = phase.removesuffix(AFTER_FIT)
            return cls(FitJob, lambda job, kind: suffer_after_fit(job, Fault(name, kind)), require_recovered_after_fit)
        return cls(Job, lambda job, kind: suffer(job, Fault(phase, kind)), require_recovered)


def main() -> int:
    """Runs the phases that are named, or all of them; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    phases = sys.argv[1:] or [*PHASES, METADATA, *(f"{phase}{AFTER_FIT}" for phase in PHASES_AFTER_FIT)]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shim = compiled(folder)
        print("| phase | fault | what it says |\n| --- | --- | --- |")
        for phase in phases:
            row = Row.of(phase)
            job = row.job(folder / phase.replace(" ", "-"), shim)
            row.require_recovered(job)
            for kind in KINDS:
                try:
                    said = row.suffer(job, kind)
                    row.require_recovered(job)
                except Exception:
                    said = f"FAILED: {traceback.format_exc()}"
                    failed += 1
                finally:
                    job.stop()
                print(f"| {phase} | {getattr(kind, 'name', kind)} | {_PATH.sub('…/', said)} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
