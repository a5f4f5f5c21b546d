"""A pipeline that is interrupted in its Trainer or during a metadata write, or is started twice."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

import pytest
from fault_job import PipelineJob
from interrupts import SIGNALS
from pipeline_guarantees import completed, hold_in_metadata, require_pipeline_recovered, require_whole
from pipeline_interrupts import CASES, WholePipelineJob, require_ended, require_pushed


@pytest.mark.thorough
@pytest.mark.slow
def test_a_pipeline_resumes_after_sigterm_and_after_a_kill_during_a_metadata_write(pipeline_job: PipelineJob) -> None:
    job = pipeline_job
    job.start(phase="first_step")
    job.await_held()
    second = subprocess.run(job.line(), env=job.environment, capture_output=True, text=True, check=False)
    assert second.returncode == 2, second.stderr
    assert f"{job.out}: another run is active in this folder" in second.stderr
    job.running.send_signal(signal.SIGTERM)
    job.control.release()
    ended = job.end()
    assert ended.code == 143, ended.errors
    assert "saved at" in ended.errors
    assert "generic-trainer: ended by SIGTERM; nothing was published." in ended.errors
    require_whole(job)
    assert not list(job.out.glob("Trainer/model/*/Format-Serving"))

    held = hold_in_metadata(job)
    os.kill(held, signal.SIGKILL)
    assert job.first_step_of(job.end()) == 2
    require_whole(job)
    assert completed(job) == 0

    require_pipeline_recovered(job)
    assert completed(job) == 1
    assert len(os.listdir(job.out / "serving")) == 1


@pytest.mark.slow
def test_nothing_is_pushed_after_a_signal_whose_exception_python_drops(pipeline_job: PipelineJob) -> None:
    ended = pipeline_job.dropped_in("Pusher", signal.SIGINT)
    assert ended.code == 130, ended.errors
    assert ended.last_line == "generic-trainer: interrupted; nothing was published."
    assert not (pipeline_job.out / "serving").exists() or os.listdir(pipeline_job.out / "serving") == []
    require_pipeline_recovered(pipeline_job)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_any_step_ends_the_pipeline(
    number: signal.Signals, tmp_path: pathlib.Path, shim: pathlib.Path
) -> None:
    job = WholePipelineJob(tmp_path / "job", shim)
    try:
        for case in CASES:
            if case.number == number:
                require_ended(job, case)
        require_pushed(job)
    finally:
        job.stop()
