"""Fixtures with jobs for fault injection; their code is in separate files, which `matrix.py` uses, too."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))
pytest.register_assert_rewrite(
    "fault_job", "guarantees", "interrupts", "lost_tasks", "pipeline_guarantees", "pipeline_interrupts"
)

from fault_job import Job, PipelineJob, compiled  # noqa: E402
from storage_faults import Commands, Faults  # noqa: E402


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return compiled(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def job(tmp_path: pathlib.Path, shim: pathlib.Path) -> Iterator[Job]:
    job = Job(tmp_path / "job", shim)
    yield job
    job.stop()


@pytest.fixture
def pipeline_job(tmp_path: pathlib.Path, shim: pathlib.Path) -> Iterator[PipelineJob]:
    job = PipelineJob(tmp_path / "job", shim)
    yield job
    job.stop()


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def environment(faults: Faults) -> dict[str, str]:
    """The environment of `commands`."""
    return faults.environment()


@pytest.fixture(scope="module")
def commands(environment: dict[str, str]) -> Iterator[Commands]:
    with Commands(environment) as commands:
        yield commands
