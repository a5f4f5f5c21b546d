"""TFX's AirflowDagRunner, on Airflow 2 and 3.

from generic_trainer.pipelines.airflow_runner import AirflowDagRunner, AirflowPipelineConfig
"""

from __future__ import annotations

from ..executors.compat.airflow import restore_python_operator

restore_python_operator()

from tfx.orchestration.airflow.airflow_dag_runner import (  # noqa: E402 (needs the restored module)
    AirflowDagRunner,
    AirflowPipelineConfig,
)

__all__ = ["AirflowDagRunner", "AirflowPipelineConfig"]
