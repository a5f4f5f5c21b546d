"""Dataset and record-batch factories for every TFX payload format, compatible with TFX's `DataAccessor`.

`DataAccessor` has the same fields as TFX's, so modules that call `fn_args.data_accessor.tf_dataset_factory` run
unchanged, and `isinstance` with TFX's class is True. The output is identical to that of tfx_bsl's readers, including
the order of the examples, but Apache Beam is never imported. `tfrecord/record_dataset.py` reads the records,
`readers/record_parsers.py` parses them into tensors, and `example_batches.py` decodes them into Arrow record batches.
`parquet/datasets.py` reads Parquet, for which tfx_bsl has no tf.data reader. These modules are imported when a factory
is called.

Usage:

    accessor = DataAccessor.for_format(ExamplesFormat())
    dataset = accessor.tf_dataset_factory(patterns, TensorFlowDatasetOptions(batch_size=64), schema)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..compat.tfx_instance import TfxInstance, own_class
from ..examples_format import PARQUET, PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE, ExamplesFormat
from .bad_records import policy
from .message_text import closest_names
from .parse_errors import track_parser

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.coders.tf_graph_record_decoder import LoadedDecoder
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions
    from tfx_bsl.types.common_types import TensorType

    from .readers.record_parsers import RecordParser


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


def _tf_dataset(
    examples: ExamplesFormat,
    file_pattern: list[str],
    options: TensorFlowDatasetOptions,
    schema: schema_pb2.Schema | None = None,
) -> tf.data.Dataset:
    if examples.payload == PARQUET:
        from .parquet import datasets

        return datasets.tf_dataset(file_pattern, options, schema)
    from .tfrecord.record_dataset import ReadOptions, find_files, record_batches

    parser = _parser(examples, file_pattern, schema)
    label = options.label_key
    if label is not None and label not in parser.tensor_names:
        raise ValueError(
            f"label_key {label!r} is not among the tensors; they are "
            f"{closest_names(list(parser.tensor_names), near=label)}."
        )
    files = find_files(file_pattern)
    if (bad := policy("data_accessor")) is not None:
        from .tfrecord.scan import ParseTrial, scan

        accepts = ParseTrial(parser.parse) if hasattr(parser, "parse") else None
        files = dataclasses.replace(files, left_out=scan(files.paths, bad, accepts, repr((examples, schema))))
    if hasattr(parser, "parse"):
        track_parser(files.paths, parser.parse)
    records = record_batches(files, ReadOptions.of(options))
    dataset = parser(records, options.parser_num_threads, not options.sloppy_ordering)
    if label is not None:
        dataset = dataset.map(lambda batch: (batch, batch.pop(label)))
    return dataset.prefetch(options.prefetch_buffer_size)


def _record_batches(
    examples: ExamplesFormat,
    file_pattern: list[str],
    options: RecordBatchesOptions,
    schema: schema_pb2.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    if examples.payload == PARQUET:
        from .parquet import datasets

        return datasets.record_batches(file_pattern, options, schema)
    if examples.payload != TF_EXAMPLE:
        raise NotImplementedError(
            f"{file_pattern}: {examples.payload} can only be read as tf.data, as in tfx_bsl. Use tf_dataset_factory."
        )
    from .example_batches import arrow_batches, decoder_of
    from .tfrecord.record_dataset import ReadOptions, find_files

    files = find_files(file_pattern)
    if (bad := policy("data_accessor")) is not None:
        from .tfrecord.scan import scan

        def accepts(records: Sequence[bytes]) -> object:
            return decoder_of(schema).DecodeBatch(records)  # a decoder is unusable after it has rejected a record

        files = dataclasses.replace(files, left_out=scan(files.paths, bad, accepts, repr(("Arrow", schema))))
    return arrow_batches(files, ReadOptions.of(options), schema)


def _parser(examples: ExamplesFormat, file_pattern: list[str], schema: schema_pb2.Schema | None) -> RecordParser:
    from .readers import record_parsers

    if examples.payload == TF_EXAMPLE:
        return record_parsers.ExampleParser(schema)
    if examples.payload == SEQUENCE_EXAMPLE:
        return record_parsers.SequenceExampleParser(schema)
    if not examples.data_view:
        raise ValueError(f"{file_pattern}: records of {PROTO} need a DataView to decode them, but none is attached.")
    return record_parsers.DataViewParser(examples.data_view)


class _DataViewDecoder:
    """Decodes records with a DataView, which it loads at the first call."""

    def __init__(self, data_view: str) -> None:
        self._data_view = data_view

    def __call__(self, records: tf.Tensor) -> dict[str, TensorType]:
        decoded: dict[str, TensorType] = self._decoder.decode_record(records)
        return decoded

    @functools.cached_property
    def _decoder(self) -> LoadedDecoder:
        from .readers.record_parsers import load_decoder

        return load_decoder(self._data_view)

    def __reduce__(self) -> tuple[Any, ...]:
        return _DataViewDecoder, (self._data_view,)
