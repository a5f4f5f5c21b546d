"""Failures in TFX's own steps are reported in one line with the step's name; the log contains the full text."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable

import pytest

from generic_trainer.executors.errors import StepError
from generic_trainer.pipelines.local import LocalPipeline, run_pipeline


def test_a_failure_inside_a_step_of_tfx_names_the_step_in_one_line(
    module: Callable[..., str], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    data = tmp_path / "data"
    data.mkdir()
    (data / "data.tfrecord").write_bytes(b"no record")
    path = module("def run_fn(fn_args): ...")
    with pytest.raises(StepError) as raised:
        run_pipeline(LocalPipeline(str(data), path, str(tmp_path / "root")))
    message = str(raised.value)
    assert message.startswith("The step ImportExampleGen failed: ")
    assert "Not a valid TFRecord" in message
    assert len(message.splitlines()) == 1
    assert raised.value.exit_code == 1
    [kept] = [record for record in caplog.records if getattr(record, "kept_only", False)]
    assert "Traceback" in kept.getMessage()
