"""A training to put faults into; what it is made of is in files of its own, which other programs use as well."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))
pytest.register_assert_rewrite("fault_job", "promises", "pipeline_promises")

from fault_job import Job, PipelineJob, compiled  # noqa: E402


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
