"""Applies a Transform graph to batches of serialized tf.Examples, as the Transform component does.

graph = TransformGraph("pipeline/Transform/transform_graph/5")
columns = graph.columns(records)  # {feature: an Arrow array of lists}
graph.encoded(columns)  # serialized tf.Examples, for signatures that take transformed ones
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from ..compat.tensorflow_transform import tensor_to_arrow_converter
from ..errors import InputError
from ..runtime.logs.exceptions import one_line_message


class TransformGraph:
    """A loaded Transform graph.

    Args:
      folder: The Transform graph's folder.
    """

    def __init__(self, folder: str) -> None:
        output = tft.TFTransformOutput(folder)
        layer, spec = output.transform_features_layer(), output.raw_feature_spec()
        schema = output.transformed_metadata.schema
        self._converter = tensor_to_arrow_converter(schema)
        self._encoder = RecordBatchToExamplesEncoder(schema)
        self._transform = tf.function(
            lambda records: layer(tf.io.parse_example(records, spec)),
            input_signature=[tf.TensorSpec([None], tf.string)],
        )

    def columns(self, records: Sequence[bytes]) -> dict[str, pa.Array]:
        """Returns the transformed features of raw examples as Arrow arrays of lists.

        Raises:
          InputError: If the graph fails on them, or its outputs have different numbers of rows.
        """
        try:
            batch = self._converter.convert(self._transform(tf.constant(records, tf.string)))
        except (tf.errors.InvalidArgumentError, pa.ArrowInvalid, ValueError) as error:
            raise InputError(f"the Transform graph fails on an example: {one_line_message(error)}") from error
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    def encoded(self, columns: Mapping[str, pa.Array]) -> list[bytes]:
        """Returns columns from `columns` as serialized tf.Examples."""
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        serialized: list[bytes] = self._encoder.encode(batch)
        return serialized
