"""A DAG for Apache Airflow: the taxi pipeline of `generic-trainer run`, each step a task. Copy it and make it yours.

TFX's own runner makes the DAG, with the extra `tfx[airflow]`: Airflow 2, Python below 3.13. The tasks of a run share a
file system, and the metadata's database if several workers take them: `metadata="mysql://…"`.

Airflow reads a DAG's file again and again. With GENERIC_TRAINER_DATA and GENERIC_TRAINER_PIPELINE_ROOT it is told where
the data and the outputs are.
"""

from __future__ import annotations

import datetime
import os

from tfx.orchestration.airflow.airflow_dag_runner import AirflowDagRunner, AirflowPipelineConfig

from generic_trainer import TrainingOptions
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
            "schedule": None,  # started by hand; "@daily" for every night
            "start_date": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
            "catchup": False,
            "default_args": {"retries": 2},
        }
    )
).run(create_pipeline(TAXI))
