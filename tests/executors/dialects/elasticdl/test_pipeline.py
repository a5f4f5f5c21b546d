"""A model file of ElasticDL's as the training module of a whole pipeline."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from generic_trainer import TrainingOptions
from generic_trainer.pipelines.local import LocalPipeline, run_pipeline

MODULES = pathlib.Path(__file__).resolve().parents[4] / "module_files"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_model_file_is_trained_evaluated_and_pushed(digits: Any, tmp_path: pathlib.Path) -> None:
    outcome = run_pipeline(
        LocalPipeline(
            data=str(pathlib.Path(digits.schema).parent),
            module_file=str(MODULES / "digits_elasticdl.py"),
            pipeline_root=str(tmp_path / "root"),
            runner="local",
            schema=digits.schema,
            label="label",
            task="multiclass",
            custom_config={"num_epochs": 12, "minibatch_size": 32},
            training=TrainingOptions(seed=1),
        )
    )
    assert outcome.metrics["eval"]["sparse_categorical_accuracy"] > 0.9
    assert outcome.blessed
    assert pathlib.Path(str(outcome.pushed_model), "saved_model.pb").exists()
