"""Guarantees for pipelines that are interrupted while TFX writes metadata, and the injection of that fault."""

from __future__ import annotations

import os
import signal
from typing import Any

from fault_job import PipelineJob
from guarantees import CODES, MEMORY, limit_memory

COMPLETE = 3


def trainers(job: PipelineJob) -> list[Any]:
    """Returns the Trainer's executions in ML Metadata."""
    from generic_trainer.pipelines.history.metadata_store import open_store

    store = open_store(str(job.out / "metadata.sqlite"))
    return store.get_executions_by_type("generic_trainer.components.trainer.Trainer")


def completed(job: PipelineJob) -> int:
    return [one.last_known_state for one in trainers(job)].count(COMPLETE)


def require_whole(job: PipelineJob) -> None:
    """Asserts that all models are complete, and that no processes remain."""
    for folder in job.out.glob("Trainer/model/*/Format-Serving"):
        assert (folder / "saved_model.pb").exists()
        assert (folder / "variables" / "variables.index").exists()
    job.require_nothing_running()


def hold_in_metadata(job: PipelineJob, *arguments: str) -> int:
    """Starts a run and pauses it right before the Trainer's execution is committed."""
    job.start(*arguments, phase="report")  # the model is written, but not yet recorded by TFX
    job.await_held()
    job.control.arm("unlink", "/metadata.sqlite-journal")
    job.control.release()
    held = job.await_held()
    assert job.running is not None
    assert held == job.running.pid
    return held


def run_pipeline_with_fault(job: PipelineJob, kind: signal.Signals | str) -> str:
    """Interrupts a pipeline at that point; returns the last line of its output."""
    before, pushed = completed(job), sorted(os.listdir(job.out / "serving"))
    held = hold_in_metadata(job, "--no-cache")
    if kind == MEMORY:
        limit_memory(held)
    else:
        assert isinstance(kind, signal.Signals)
        os.kill(held, kind)
    job.control.release()
    ended = job.end()
    # gRPC, which Beam uses between its workers, aborts if it cannot allocate memory.
    assert ended.code in ((0, 1, -signal.SIGABRT) if kind == MEMORY else (CODES[kind],)), ended.errors
    require_whole(job)
    assert completed(job) in (before, before + 1)
    assert set(pushed) <= set(os.listdir(job.out / "serving"))
    return ended.last_line


def require_pipeline_recovered(job: PipelineJob) -> None:
    """Asserts that the next run succeeds and pushes a model."""
    ended = job.run("--no-cache")
    assert ended.code == 0, ended.errors
    require_whole(job)
    assert completed(job) >= 1
    assert max(os.listdir(job.out / "serving")) in ended.output
