"""Every fault in every phase, each followed by a run that must go through; prints what each said, as a table.

python tests/faults/matrix.py            # about five minutes; the tests beside it do some of each
python tests/faults/matrix.py publish    # some phases
"""

from __future__ import annotations

import os
import pathlib
import re
import signal
import sys
import tempfile
import traceback

from fault_job import PHASES, Job, PipelineJob, compiled
from pipeline_promises import require_pipeline_recovered, suffer_in_metadata
from promises import MEMORY, Fault, require_recovered, suffer

KINDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, MEMORY)
METADATA = "metadata"
_PATH = re.compile(r"(/[\w.-]+)+/")


def main() -> int:
    """Runs the phases that are named, or all of them; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    phases = sys.argv[1:] or [*PHASES, METADATA]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shim = compiled(folder)
        print("| phase | fault | what it says |\n| --- | --- | --- |")
        for phase in phases:
            job = (PipelineJob if phase == METADATA else Job)(folder / phase, shim)
            recovered = require_pipeline_recovered if phase == METADATA else require_recovered
            recovered(job)
            for kind in KINDS:
                try:
                    said = suffer_in_metadata(job, kind) if phase == METADATA else suffer(job, Fault(phase, kind))
                    recovered(job)
                except Exception:
                    said = f"FAILED: {traceback.format_exc()}"
                    failed += 1
                finally:
                    job.stop()
                print(f"| {phase} | {getattr(kind, 'name', kind)} | {_PATH.sub('…/', said)} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
