"""Dataset and record-batch factories for every TFX payload format, compatible with TFX's `DataAccessor`.

`DataAccessor` has the same fields as TFX's, so modules that call `fn_args.data_accessor.tf_dataset_factory` run
unchanged, and `isinstance` with TFX's class is True. The output is identical to that of tfx_bsl's readers, including
the order of the examples, but Apache Beam is never imported. The format that has the payload format reads the files; it
is imported when a factory is called.

Usage:

    accessor = DataAccessor.for_format(ExamplesFormat())
    dataset = accessor.tf_dataset_factory(patterns, TensorFlowDatasetOptions(batch_size=64), schema)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..compat.tfx_instance import TfxInstance, own_class
from ..examples_format import PROTO, ExamplesFormat
from .input_format import format_of_payload

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf
    from tfx_bsl.coders.tf_graph_record_decoder import LoadedDecoder
    from tfx_bsl.types.common_types import TensorType


class _Factories(NamedTuple):
    tf_dataset_factory: Callable[..., tf.data.Dataset]
    record_batch_factory: Callable[..., Iterator[pa.RecordBatch]]
    data_view_decode_fn: Callable[[tf.Tensor], dict[str, TensorType]] | None


class DataAccessor(TfxInstance, _Factories):
    """Factories that read examples of any payload format; a drop-in replacement for TFX's `DataAccessor`.

    Attributes:
      tf_dataset_factory: (patterns, TensorFlowDatasetOptions, schema) -> tf.data.Dataset of dicts of
        batched tensors, or of (dict, label) pairs if `options.label_key` is set.
      record_batch_factory: (patterns, RecordBatchesOptions, schema) -> iterator of Arrow record batches.
      data_view_decode_fn: Decodes a vector of serialized records into a dict of tensors; None without a DataView.
    """

    __slots__ = ()
    _tfx_name = "DataAccessor"

    def __reduce__(self) -> tuple[Any, ...]:
        return own_class(self), tuple(self)

    @classmethod
    def for_format(cls, examples: ExamplesFormat) -> DataAccessor:
        """Builds the factories for one format. Reads no data and imports no reader until a factory is called.

        Args:
          examples: The payload format.
        """
        decode = None
        if examples.payload == PROTO and examples.data_view:
            decode = _DataViewDecoder(examples.data_view)
        return cls(functools.partial(_tf_dataset, examples), functools.partial(_record_batches, examples), decode)


def _tf_dataset(examples: ExamplesFormat, *arguments: Any, **keywords: Any) -> tf.data.Dataset:
    return format_of_payload(examples.payload).factories(examples)[0](*arguments, **keywords)


def _record_batches(examples: ExamplesFormat, *arguments: Any, **keywords: Any) -> Iterator[pa.RecordBatch]:
    return format_of_payload(examples.payload).factories(examples)[1](*arguments, **keywords)


class _DataViewDecoder:
    """Decodes records with a DataView, which it loads at the first call."""

    def __init__(self, data_view: str) -> None:
        self._data_view = data_view

    def __call__(self, records: tf.Tensor) -> dict[str, TensorType]:
        decoded: dict[str, TensorType] = self._decoder.decode_record(records)
        return decoded

    @functools.cached_property
    def _decoder(self) -> LoadedDecoder:
        from .tfrecord.record_parsers import load_decoder

        return load_decoder(self._data_view)

    def __reduce__(self) -> tuple[Any, ...]:
        return _DataViewDecoder, (self._data_view,)
