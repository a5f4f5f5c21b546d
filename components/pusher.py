"""A drop-in for TFX's Pusher that skips a model that is already the newest version in the serving folder, and refuses
models whose answers depend on the batch.

TFX runs a Pusher whenever its input artifacts change, for example after an Evaluator compared an unchanged model with a
new baseline. It skips the Pusher on a cache hit even if the model was deleted from the serving folder. Here the
content of the serving folder decides: the driver compares it with the model before TFX's cache lookup, the executor
before it copies.
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
from tfx.utils import json_utils

from ..executors.runtime.files import file_io
from ..executors.runtime.logs.remembered_error import remember_error
from ..executors.saved_models.pushed_models import already_pushed, push
from .batch_dependent_models import ALLOW, refusal

if TYPE_CHECKING:
    from tfx import types
    from tfx.orchestration import metadata
    from tfx.orchestration.portable import data_types

ALREADY_PUSHED = "already_pushed"  # custom property of the PushedModel, and part of the cache key
NOT_PUSHED = "not_pushed"  # custom property of the PushedModel


class PusherExecutor(executor.Executor):
    """Pushes a blessed model whose answers do not depend on the batch, unless it is already the newest version."""

    @remember_error()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model and sets the properties of the PushedModel artifact, as TFX's executor does.

        Args:
          input_dict: `model`, and `model_blessing` if there is an Evaluator.
          output_dict: `pushed_model`. Its `pushed_destination` is the folder of the new or already existing version,
            its `not_pushed` the reason if the Pusher itself refuses the model.
          exec_properties: `push_destination`, whose `filesystem.base_directory` holds the versions; `custom_config`,
            whose `allow_batch_dependent` allows models whose answers depend on the batch.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        [pushed] = output_dict["pushed_model"]
        config = json_utils.loads(exec_properties.get("custom_config") or "null") or {}
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            return
        if reason := refusal(input_dict.get("model", ()), is_allowed=bool(config.get(ALLOW))):
            logging.warning("The model is not pushed: %s", reason)
            self._MarkNotPushed(pushed)
            pushed.set_string_custom_property(NOT_PUSHED, reason)
            return
        model, folder = self.GetModelPath(input_dict), _folder_of(exec_properties)
        existing = already_pushed(model, folder)
        destination = existing or push(model, folder)
        file_io.copytree(model, pushed.uri)  # TFX keeps a copy of the pushed model here
        self._MarkPushed(pushed, pushed_destination=destination, pushed_version=os.path.basename(destination))
        pushed.set_int_custom_property(ALREADY_PUSHED, int(existing is not None))
        logging.info("Already pushed: %s" if existing else "Model pushed to %s", destination)


class PusherDriver(base_driver.BaseDriver, portable_driver.BaseDriver):  # type: ignore[misc]
    """Adds the serving folder's state to the cache key. Kubeflow Pipelines does not run drivers."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Adds the folder of the already pushed version to the cache key, or a random value if there is none."""
        model = PusherExecutor().GetModelPath(execution_info.input_dict)
        existing = already_pushed(model, _folder_of(execution_info.exec_properties))
        output = driver_output_pb2.DriverOutput()
        output.exec_properties[ALREADY_PUSHED].string_value = existing or f"no: {uuid.uuid4().hex}"
        return output


class Pusher(component.Pusher):
    """`tfx.components.Pusher` to a file system destination, without pushing the same model twice."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(PusherExecutor)
    DRIVER_CLASS = PusherDriver

    def __init__(
        self,
        model: types.BaseChannel | None = None,
        model_blessing: types.BaseChannel | None = None,
        infra_blessing: types.BaseChannel | None = None,
        push_destination: pusher_pb2.PushDestination | None = None,
        custom_config: dict[str, object] | None = None,
        *,
        allow_batch_dependent: bool = False,
    ) -> None:
        """Constructs the component.

        Args:
          model: As the following ones, see TFX's Pusher.
          model_blessing: The Evaluator's blessing.
          infra_blessing: The InfraValidator's blessing.
          push_destination: The folder, in `filesystem.base_directory`.
          custom_config: Further settings.
          allow_batch_dependent: Whether to push a model whose answer for an example depends on the others of its batch.
        """
        config = {**(custom_config or {}), ALLOW: True} if allow_batch_dependent else custom_config
        super().__init__(model, model_blessing, infra_blessing, push_destination, config)


def _folder_of(exec_properties: Mapping[str, str]) -> str:
    destination = json_format.Parse(exec_properties["push_destination"], pusher_pb2.PushDestination())
    return str(destination.filesystem.base_directory)
