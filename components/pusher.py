"""TFX's Pusher, for models that are new: one that is served already is not pushed a second time.

TFX runs a Pusher whenever its inputs are other artifacts, as after an Evaluator that compared an unchanged model with a
new baseline, and does not run it, from the cache, when the model was deleted from the serving folder. Here the folder's
content decides: the driver compares it with the model before TFX looks into its cache, the executor before it copies.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import logging
from google.protobuf import json_format
from tfx.components.pusher import component, executor
from tfx.dsl.components.base import base_driver, executor_spec
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.proto import pusher_pb2
from tfx.proto.orchestration import driver_output_pb2

from ..executors.runtime.files import file_io
from ..executors.runtime.logs.exceptions import remembered
from ..executors.saved_models.pushed_models import already_pushed, push

if TYPE_CHECKING:
    from tfx import types
    from tfx.orchestration import metadata
    from tfx.orchestration.portable import data_types

ALREADY_PUSHED = "already_pushed"  # property of the PushedModel, and what the driver adds to the cache's key


class PusherExecutor(executor.Executor):
    """Pushes a blessed model, unless the newest version in the folder is that model."""

    @remembered()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model and describes it on the PushedModel artifact, as TFX's executor does.

        Args:
          input_dict: model, and model_blessing where there is an Evaluator.
          output_dict: pushed_model. Its `pushed_destination` is the version's folder, whether it was there or is new.
          exec_properties: push_destination, whose `filesystem.base_directory` holds the versions.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        [pushed] = output_dict["pushed_model"]
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            return
        model, folder = self.GetModelPath(input_dict), _folder_of(exec_properties)
        there = already_pushed(model, folder)
        place = there or push(model, folder)
        file_io.copytree(model, pushed.uri)  # TFX's archive of what was pushed
        self._MarkPushed(pushed, pushed_destination=place, pushed_version=os.path.basename(place))
        pushed.set_int_custom_property(ALREADY_PUSHED, int(there is not None))
        logging.info("Already pushed: %s" if there else "Model pushed to %s", place)


class PusherDriver(base_driver.BaseDriver, portable_driver.BaseDriver):  # type: ignore[misc]
    """Makes the serving folder's state a part of the cache's key. Kubeflow Pipelines runs no drivers."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Adds to the cache key the version that already is the model, or else a random value."""
        model = PusherExecutor().GetModelPath(execution_info.input_dict)
        there = already_pushed(model, _folder_of(execution_info.exec_properties))
        output = driver_output_pb2.DriverOutput()
        output.exec_properties[ALREADY_PUSHED].string_value = there or f"no: {uuid.uuid4().hex}"
        return output


class Pusher(component.Pusher):
    """`tfx.components.Pusher` to a folder, for new models only."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(PusherExecutor)
    DRIVER_CLASS = PusherDriver


def _folder_of(exec_properties: Mapping[str, str]) -> str:
    destination = json_format.Parse(exec_properties["push_destination"], pusher_pb2.PushDestination())
    return str(destination.filesystem.base_directory)
