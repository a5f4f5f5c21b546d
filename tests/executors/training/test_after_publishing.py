"""After its model is published, a run succeeds whatever fails: the analysis, report, tracking, record, cleaning up."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from generic_trainer import FnArgs, TrainingOptions, train
from generic_trainer.executors.checkpoints.directory import CheckpointFolder
from generic_trainer.executors.features.display import run as display
from generic_trainer.executors.features.error_analysis.run import ErrorAnalysis
from generic_trainer.executors.features.mlflow import tracked_run
from generic_trainer.executors.features.report import run as report
from generic_trainer.executors.monitoring import run_record
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.runtime.files.lock import FileLock
from generic_trainer.executors.saved_models import staging
from generic_trainer.pipelines.local.outcome import Outcome

HERE = TrainingOptions(isolate=False)


class Unexpected(Exception):
    """An exception that no code expects."""


@contextlib.contextmanager
def fails_at_end(*arguments: object, **options: object) -> Iterator[None]:
    yield
    raise Unexpected


def fails(*arguments: object, **options: object) -> None:
    raise Unexpected


def fails_after_success(record: RunRecord) -> None:
    if record.status == run_record.SUCCEEDED:
        raise Unexpected


def fails_the_second_time() -> Callable[[FileLock], None]:
    """Returns a function that fails for the lock held during the run; another one is released before the training."""
    release, released = FileLock.release, []

    def fail(lock: FileLock) -> None:
        release(lock)
        released.append(lock)
        if len(released) > 1:
            raise Unexpected

    return fail


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (staging, "_delete", fails),
        (ErrorAnalysis, "published", fails),
        (CheckpointFolder, "delete_finished", fails),
        (RunRecord, "_write", fails_after_success),
        (FileLock, "release", fails_the_second_time()),
        (report, "report_on_exit", fails_at_end),
        (tracked_run, "tracked", fails_at_end),
        (display, "notebook_log_filter", fails_at_end),
    ],
    ids=["staging", "analysis", "checkpoints", "record", "lock", "report", "tracking", "logs"],
)
def test_a_published_model_is_a_success_whatever_fails_then(
    owner: Any, name: str, replacement: Any, tiny_module: str, fn_args: FnArgs, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(owner, name, replacement)
    options = dataclasses.replace(HERE, track="mlflow" if owner is tracked_run else "none")
    record = train(tiny_module, fn_args, options)
    assert record.status == run_record.SUCCEEDED
    assert pathlib.Path(str(fn_args.serving_model_dir), "saved_model.pb").exists()
    assert "Unexpected" in caplog.text
    if owner is not RunRecord:
        assert run_record.status_of(str(fn_args.model_run_dir)) == run_record.SUCCEEDED


def test_the_report_is_written_here_if_its_process_ends_without_a_result(
    tiny_module: str, fn_args: FnArgs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(report, "_TIMEOUT", 0.0)
    assert train(tiny_module, fn_args).status == run_record.SUCCEEDED
    assert pathlib.Path(str(fn_args.model_run_dir), "report.html").exists()
    assert "Could not write the report" not in caplog.text


@pytest.mark.parametrize("name", ["logs_of_pipeline", "module_output", "live_display", "_print_outcome"])
def test_a_pipeline_that_has_pushed_its_model_is_a_success_whatever_fails_then(
    name: str, taxi_csv: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    pushed = Outcome(None, None, pushed_model="model", blessed=True, metadata="", metrics={}, cached=())
    command = importlib.import_module("generic_trainer.cli.run")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(command, "_run_pipeline", lambda *arguments: pushed)
    monkeypatch.setattr(command, name, fails if name == "_print_outcome" else fails_at_end)
    line = ["--data", str(taxi_csv), "--module-file", "taxi.py", "--pipeline-root", str(tmp_path), "--no-check"]
    done = CliRunner().invoke(command.run, line)
    assert done.exit_code == 0, done.output
    assert "The model was published, but a later step failed: Unexpected" in caplog.text
