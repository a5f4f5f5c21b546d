"""Private names of TensorFlow Transform 1.15 to 1.21."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .patching import replaced

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio.tensor_to_arrow import TensorsToRecordBatchConverter

_GRAPH_APPLIERS = (
    ("tensorflow_transform.saved.saved_transform_io_v2", "SavedModelLoader", "apply_transform_model"),
    ("tensorflow_transform.output_wrapper", "TFTransformOutput", "_transform_raw_features_compat_v1"),
)


@contextlib.contextmanager
def transform_graphs_reported(report: Callable[[], None]) -> Iterator[None]:
    """Calls `report` each time a Transform graph is applied to tensors, for the duration of a block.

    `transform_features_layer` and `transform_raw_features` are public, but traced functions call these directly. Only
    modules that are imported when the block begins are patched.
    """

    def apply(original: Callable[..., object], *args: object, **options: object) -> object:
        report()
        return original(*args, **options)

    with contextlib.ExitStack() as stack:
        for module, owner, name in _GRAPH_APPLIERS:
            if module in sys.modules:
                stack.enter_context(replaced(getattr(sys.modules[module], owner), name, apply))
        yield


def tensor_to_arrow_converter(schema: schema_pb2.Schema) -> TensorsToRecordBatchConverter:
    """Returns a converter from a batch of transformed tensors to Arrow, as used by the Transform step before writing.

    Its `convert` method takes {feature: tensor}. TFT's public API only does this within a Beam pipeline.
    """
    from tensorflow_transform import impl_helper

    return impl_helper.make_tensor_to_arrow_converter(schema)
