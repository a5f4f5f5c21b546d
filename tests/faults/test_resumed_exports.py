"""After an interrupt between the last step and publishing, the next run exports the trained model without training.

The module has Keras fits without callbacks of the trainer. Exports that raise and models that fail the check are in
`tests/executors/features/resume/test_completed_fits.py`; `matrix.py` has every fault in every phase.
"""

from __future__ import annotations

import pathlib
import signal

import pytest
from fault_job import FitJob
from fit_guarantees import require_recovered_after_fit, run_fit_with_fault
from guarantees import Fault

FAULTS = (
    Fault("export", signal.SIGKILL),
    Fault("export", signal.SIGINT),
    Fault("check", signal.SIGKILL),
    Fault("check", signal.SIGTERM),
    Fault("publish", signal.SIGKILL),
)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_completed_fit_is_not_repeated(tmp_path: pathlib.Path, shim: pathlib.Path) -> None:
    job = FitJob(tmp_path / "job", shim)
    try:
        for fault in FAULTS:
            run_fit_with_fault(job, fault)
        require_recovered_after_fit(job)
        require_recovered_after_fit(job)  # trains, because the previous run had published
    finally:
        job.stop()
