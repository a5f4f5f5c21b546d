"""Private names of TensorFlow Transform 1.15 to 1.21."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio.tensor_to_arrow import TensorsToRecordBatchConverter

_GRAPH_APPLIERS = (
    ("tensorflow_transform.saved.saved_transform_io_v2", "SavedModelLoader", "apply_transform_model"),
    ("tensorflow_transform.output_wrapper", "TFTransformOutput", "_transform_raw_features_compat_v1"),
)


def graph_appliers() -> list[tuple[object, str]]:
    """Returns the hook points that apply a Transform graph to tensors, for the modules that are imported.

    `transform_features_layer` and `transform_raw_features` are public, but traced functions call these directly.
    """
    found = ((sys.modules.get(module), owner, name) for module, owner, name in _GRAPH_APPLIERS)
    return [(getattr(module, owner), name) for module, owner, name in found if module is not None]


def tensor_to_arrow_converter(schema: schema_pb2.Schema) -> TensorsToRecordBatchConverter:
    """Returns a converter from a batch of transformed tensors to Arrow, as used by the Transform step before writing.

    Its `convert` method takes {feature: tensor}. TFT's public API only does this within a Beam pipeline.
    """
    from tensorflow_transform import impl_helper

    return impl_helper.make_tensor_to_arrow_converter(schema)
