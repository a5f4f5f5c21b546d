"""An Apache Airflow DAG of the taxi pipeline of `generic-trainer run`, one task per step; a template to copy and adapt.

TFX's AirflowDagRunner builds the DAG, with Airflow 2 or 3 and Python below 3.13. The tasks of a run need a shared file
system, and a metadata database if they run on several workers: `metadata="mysql://…"`.

Airflow parses a DAG file repeatedly. The environment variables GENERIC_TRAINER_DATA and GENERIC_TRAINER_PIPELINE_ROOT
set the locations of data and outputs.
"""

from __future__ import annotations

import datetime
import os

from generic_trainer import TrainingOptions
from generic_trainer.pipelines.airflow_runner import AirflowDagRunner, AirflowPipelineConfig
from generic_trainer.pipelines.local import LocalPipeline, create_pipeline

TAXI = LocalPipeline(
    data=os.environ.get("GENERIC_TRAINER_DATA", "/data/taxi"),
    module_file="generic_trainer.module_files.taxi_keras",
    pipeline_root=os.environ.get("GENERIC_TRAINER_PIPELINE_ROOT", "/data/pipelines/taxi"),
    label="big_tip",
    training=TrainingOptions(seed=1),
)

DAG = AirflowDagRunner(
    AirflowPipelineConfig(
        {
            "schedule": None,  # triggered manually; "@daily" to run at midnight
            "start_date": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
            "catchup": False,
            "default_args": {"retries": 2},
        }
    )
).run(create_pipeline(TAXI))
