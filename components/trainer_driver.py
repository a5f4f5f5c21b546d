"""The Trainer's driver, which records the location of the ML Metadata store in the pipeline root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from absl import logging
from tfx.dsl.components.base import base_driver
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.proto.orchestration import driver_output_pb2

from ..executors.compat.tfx import connection_config_of
from ..executors.runtime.files.artifact_layout import root_of_artifact
from ..executors.training import metadata_pointer

if TYPE_CHECKING:
    from tfx.orchestration import metadata
    from tfx.orchestration.portable import data_types


class TrainerDriver(base_driver.BaseDriver, portable_driver.BaseDriver):  # type: ignore[misc]
    """Records the metadata store before the cache lookup, so also for cached and failed steps.

    Kubeflow Pipelines does not run drivers.
    """

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)
        self._connection_config = connection_config_of(metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Records the metadata store without changing the execution; logs errors as warnings."""
        [model_run] = execution_info.output_dict["model_run"]
        root = root_of_artifact(model_run.uri)
        try:
            _record_store(root, metadata_pointer.url_of(self._connection_config), execution_info.pipeline_info.id)
        except Exception as error:
            logging.warning("%s: the location of the metadata store was not recorded: %s", root, error)
        return driver_output_pb2.DriverOutput()


def _record_store(root: str, url: str, pipeline: str) -> None:
    if url and url != os.path.join(os.path.abspath(root), "metadata.sqlite"):  # default location
        metadata_pointer.add_store(metadata_pointer.PipelineStore(url, pipeline, root))
