"""What holds after a pipeline was ended while TFX writes its metadata, and a pipeline that is."""

from __future__ import annotations

import os
import signal
from typing import Any

from fault_job import PipelineJob
from promises import CODES, MEMORY, starve

COMPLETE = 3


def trainers(job: PipelineJob) -> list[Any]:
    """Returns the Trainer's executions in ML Metadata."""
    from generic_trainer.pipelines.history.metadata_store import open_store

    store = open_store(str(job.out / "metadata.sqlite"))
    return store.get_executions_by_type("generic_trainer.components.trainer.Trainer")


def completed(job: PipelineJob) -> int:
    return [one.last_known_state for one in trainers(job)].count(COMPLETE)


def require_whole(job: PipelineJob) -> None:
    """Nothing looks like a model that is none, every model in metadata is there, and nothing runs."""
    for folder in job.out.glob("Trainer/model/*/Format-Serving"):
        assert (folder / "saved_model.pb").exists()
        assert (folder / "variables" / "variables.index").exists()
    job.require_nothing_running()


def hold_in_metadata(job: PipelineJob, *arguments: str) -> int:
    """Starts a run and holds it where the Trainer's execution is about to be committed."""
    job.start(*arguments, phase="report")  # the model is there; TFX does not know of it yet
    job.await_held()
    job.control.arm("unlink", "/metadata.sqlite-journal")
    job.control.release()
    held = job.await_held()
    assert job.running is not None
    assert held == job.running.pid
    return held


def suffer_in_metadata(job: PipelineJob, kind: signal.Signals | str) -> str:
    """Ends a pipeline there; returns what it said."""
    before, pushed = completed(job), sorted(os.listdir(job.out / "serving"))
    held = hold_in_metadata(job, "--no-cache")
    if kind == MEMORY:
        starve(held)
    else:
        assert isinstance(kind, signal.Signals)
        os.kill(held, kind)
    job.control.release()
    ended = job.end()
    # gRPC, by which Beam speaks to itself, aborts where it gets no memory.
    assert ended.code in ((0, 1, -signal.SIGABRT) if kind == MEMORY else (CODES[kind],)), ended.errors
    require_whole(job)
    assert completed(job) in (before, before + 1)
    assert set(pushed) <= set(os.listdir(job.out / "serving"))
    return ended.last_line


def require_pipeline_recovered(job: PipelineJob) -> None:
    """The next run goes through, and pushes a model."""
    ended = job.run("--no-cache")
    assert ended.code == 0, ended.errors
    require_whole(job)
    assert completed(job) >= 1
    assert max(os.listdir(job.out / "serving")) in ended.output
