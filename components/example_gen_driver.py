"""The driver of ExampleGens: a digest of the data's content decides whether examples of an earlier run are reused.

TFX's driver compares the number, total size and modification times of the files. A file whose content changed but whose
size and time did not, as `cp -p`, `rsync -t` and archives leave it, counts as unchanged there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tfx.components.example_gen import driver, utils
from tfx.components.example_gen.import_example_gen import component
from tfx.proto import example_gen_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from ..executors.runtime.files import file_io
from ..executors.runtime.files.artifact_layout import root_of_artifact
from ..executors.runtime.files.content_digests import combined, digests_in

if TYPE_CHECKING:
    from tfx.orchestration import data_types
    from tfx.orchestration.portable import data_types as portable
    from tfx.proto.orchestration import driver_output_pb2


class ContentDriver(driver.FileBasedDriver):
    """TFX's driver with another fingerprint. Kubeflow Pipelines has a driver of its own."""

    _root = ""

    def run(self, execution_info: portable.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Resolves the span, version and fingerprint of the data, as TFX's driver does."""
        [examples] = execution_info.output_dict[standard_component_specs.EXAMPLES_KEY]
        self._root = root_of_artifact(examples.uri)
        return super().run(execution_info)

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Returns the execution properties with a fingerprint of the content of all splits."""
        resolved = super().resolve_exec_properties(exec_properties, pipeline_info, component_info)
        root = self._root or pipeline_info.pipeline_root  # the latter in an InteractiveContext
        resolved[utils.FINGERPRINT_PROPERTY_NAME] = fingerprint_of(resolved, root)
        return dict(resolved)


class ImportExampleGen(component.ImportExampleGen):
    """TFX's component with another driver; see there for its arguments."""

    DRIVER_CLASS = ContentDriver


def fingerprint_of(exec_properties: dict[str, Any], root: str) -> str:
    """Returns a line for each split, with a digest of its files in the order in which they are read."""
    config, digests = example_gen_pb2.Input(), digests_in(root)
    proto_utils.json_to_proto(exec_properties[standard_component_specs.INPUT_CONFIG_KEY], config)
    base = exec_properties[standard_component_specs.INPUT_BASE_KEY]
    parts = []
    for split in config.splits:
        files = [path for path in file_io.glob(os.path.join(base, split.pattern)) if not file_io.isdir(path)]
        parts.append(f"{split.name}:{combined(digests.of(files).values())}")
    digests.save()
    return "\n".join(parts)
