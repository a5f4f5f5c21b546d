"""Applies a Transform graph to batches of serialized tf.Examples, as the Transform component does.

Usage:

    graph = TransformGraph("pipeline/Transform/transform_graph/5")
    columns = graph.columns(records)  # {feature: an Arrow array of lists}
    graph.encoded(columns)  # serialized tf.Examples, for signatures that take transformed ones
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
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
        schema = output.transformed_metadata.schema
        self._converter = tensor_to_arrow_converter(schema)
        self._encoder = RecordBatchToExamplesEncoder(schema)
        spec = output.raw_feature_spec()
        if tf.executing_eagerly():
            layer = output.transform_features_layer()
            self._transform = tf.function(
                lambda records: layer(tf.io.parse_example(records, spec)),
                input_signature=[tf.TensorSpec([None], tf.string)],
            )
        else:  # a module that `check` runs may have disabled eager execution
            with tf.Graph().as_default():
                records = tf.compat.v1.placeholder(tf.string, [None])
                transformed = output.transform_raw_features(tf.io.parse_example(records, spec))
                session = tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"GPU": 0}))
                session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
                self._transform = session.make_callable(dict(transformed), [records])

    def columns(self, records: Sequence[bytes]) -> dict[str, pa.Array]:
        """Returns the transformed features of raw examples as Arrow arrays of lists.

        Raises:
          InputError: If the graph fails on them, or its outputs have different numbers of rows.
        """
        try:
            batch = self._converter.convert(self._transform(np.array(records, object)))
        except (tf.errors.InvalidArgumentError, pa.ArrowInvalid, ValueError) as error:
            raise InputError(f"the Transform graph fails on an example: {one_line_message(error)}") from error
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    def encoded(self, columns: Mapping[str, pa.Array]) -> list[bytes]:
        """Returns columns from `columns` as serialized tf.Examples."""
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        serialized: list[bytes] = self._encoder.encode(batch)
        return serialized
