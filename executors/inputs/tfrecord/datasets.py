"""Reads TFRecord files as tf.data datasets and Arrow record batches, as tfx_bsl does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...examples_format import PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE, ExamplesFormat
from ..bad_records import policy
from ..message_text import closest_names
from ..parse_errors import track_parser
from .example_batches import arrow_batches, decoder_of
from .record_dataset import find_files
from .record_dataset import record_batches as batches_of_records
from .record_parsers import DataViewParser, ExampleParser, RecordParser, SequenceExampleParser
from .scan import ParseTrial, scan

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

_READER = "data_accessor"  # its name in `bad_records.readers` of run.json


def tf_dataset(
    examples: ExamplesFormat,
    file_pattern: list[str],
    options: TensorFlowDatasetOptions,
    schema: schema_pb2.Schema | None = None,
) -> tf.data.Dataset:
    """Returns batches of tensors; see `InputFormat.factories`."""
    parser = _parser(examples, file_pattern, schema)
    label = options.label_key
    if label is not None and label not in parser.tensor_names:
        raise ValueError(
            f"label_key {label!r} is not among the tensors; they are "
            f"{closest_names(list(parser.tensor_names), near=label)}."
        )
    files = find_files(file_pattern)
    if (bad := policy(_READER)) is not None:
        accepts = ParseTrial(parser.parse) if hasattr(parser, "parse") else None
        files = dataclasses.replace(files, left_out=scan(files.paths, bad, accepts, repr((examples, schema))))
    if hasattr(parser, "parse"):
        track_parser(files.paths, parser.parse)
    records = batches_of_records(files, options)
    dataset = parser(records, options.parser_num_threads, not options.sloppy_ordering)
    if label is not None:
        dataset = dataset.map(lambda batch: (batch, batch.pop(label)))
    return dataset.prefetch(options.prefetch_buffer_size)


def record_batches(
    examples: ExamplesFormat,
    file_pattern: list[str],
    options: RecordBatchesOptions,
    schema: schema_pb2.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    """Returns Arrow record batches; see `InputFormat.factories`."""
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

    if examples.payload != TF_EXAMPLE:
        raise NotImplementedError(
            f"{file_pattern}: {examples.payload} can only be read as tf.data, as in tfx_bsl. Use tf_dataset_factory."
        )
    files = find_files(file_pattern)
    if (bad := policy(_READER)) is not None:

        def accepts(records: Sequence[bytes]) -> object:
            return decoder_of(schema).DecodeBatch(records)  # a decoder is unusable after it has rejected a record

        files = dataclasses.replace(files, left_out=scan(files.paths, bad, accepts, repr(("Arrow", schema))))
    return arrow_batches(files, TensorFlowDatasetOptions(*options), schema)


def _parser(examples: ExamplesFormat, file_pattern: list[str], schema: schema_pb2.Schema | None) -> RecordParser:
    if examples.payload == TF_EXAMPLE:
        return ExampleParser(schema)
    if examples.payload == SEQUENCE_EXAMPLE:
        return SequenceExampleParser(schema)
    if not examples.data_view:
        raise ValueError(f"{file_pattern}: records of {PROTO} need a DataView to decode them, but none is attached.")
    return DataViewParser(examples.data_view)
