"""TFRecord files: of tf.Examples, or of other records with another payload format."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...errors import InputError
from ...examples_format import PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE, ExamplesFormat
from ..bad_records import policy
from ..gzipped_files import is_gzipped
from ..input_format import FIRST_RECORDS, Batch, Copied, InputFormat, formats
from ..message_text import closest_names
from ..parse_errors import track_parser
from .framing import FRAME_BYTES, begins_record, find_damage, frames, handle_damage

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

    from .record_parsers import RecordParser

_READER = "data_accessor"  # its name in `bad_records.readers` of run.json
_SAMPLE_BYTES = 1 << 20  # to estimate the compression ratio of a file
_MOST_BYTES = 16 << 20  # maximum copied of each file


class TFRecord(InputFormat):
    """TFRecord files, each gzipped or not; `data_accessor` requires names that end in .gz for gzipped ones."""

    name = "TFRecord"
    endings = (".tfrecord", ".tfrecords")
    payloads = (TF_EXAMPLE, SEQUENCE_EXAMPLE, PROTO)

    def matches(self, head: bytes) -> bool:
        """Whether the bytes begin with the length of a record and its checksum."""
        return begins_record(head)

    def batches(self, path: str, size: int) -> Iterator[Batch]:
        """See `InputFormat`."""
        import tensorflow as tf

        gzipped = is_gzipped(path)
        done, position, ratio = 0, 0.0, 1.0
        try:
            for records in tf.data.TFRecordDataset(path, "GZIP" if gzipped else "").batch(size):
                array = records.numpy().tolist()
                if gzipped and not done:
                    sample = b"".join(array)[:_SAMPLE_BYTES]
                    ratio = len(zlib.compress(sample)) / max(len(sample), 1)
                position += ratio * sum(len(record) + FRAME_BYTES for record in array)
                yield Batch(path, done + 1, len(array), records=array, position=position)
                done += len(array)
        except tf.errors.DataLossError as error:
            what = find_damage([path]) or f"{path} is damaged after record {done}: {error.message}."
            endings = ", ".join(sorted(ending for form in formats().values() for ending in form.endings))
            raise InputError(f"{what} (Files of other formats must have names that end in {endings}.)") from error

    examples = batches

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """See `InputFormat`."""
        import tensorflow as tf

        count = size = 0
        first: list[bytes] = []
        # tf.data would initialize TensorFlow's runtime before the module configures it.
        with tf.io.TFRecordWriter(target, "GZIP" if is_gzipped(path) else "") as writer:
            for frame in frames(path):
                if frame.record is None:
                    handle_damage(path, frame, policy(self.name))
                    continue
                writer.write(frame.record)
                first += [frame.record] if len(first) < FIRST_RECORDS else []
                count, size = count + 1, size + len(frame.record)
                if limit is not None and (count >= limit or size >= _MOST_BYTES):
                    break
        return Copied(count, first)

    def tf_dataset(
        self,
        examples: ExamplesFormat,
        file_pattern: list[str],
        options: TensorFlowDatasetOptions,
        schema: schema_pb2.Schema | None,
    ) -> tf.data.Dataset:
        """See `InputFormat`."""
        from .record_dataset import ReadOptions, find_files, record_batches
        from .scan import ParseTrial, scan

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
        records = record_batches(files, ReadOptions.of(options))
        dataset = parser(records, options.parser_num_threads, not options.sloppy_ordering)
        if label is not None:
            dataset = dataset.map(lambda batch: (batch, batch.pop(label)))
        return dataset.prefetch(options.prefetch_buffer_size)

    def record_batches(
        self,
        examples: ExamplesFormat,
        file_pattern: list[str],
        options: RecordBatchesOptions,
        schema: schema_pb2.Schema | None,
    ) -> Iterator[pa.RecordBatch]:
        """See `InputFormat`."""
        if examples.payload != TF_EXAMPLE:
            raise NotImplementedError(
                f"{file_pattern}: {examples.payload} can only be read as tf.data, as in tfx_bsl. Use "
                "tf_dataset_factory."
            )
        from .example_batches import arrow_batches, decoder_of
        from .record_dataset import ReadOptions, find_files
        from .scan import scan

        files = find_files(file_pattern)
        if (bad := policy(_READER)) is not None:

            def accepts(records: Sequence[bytes]) -> object:
                return decoder_of(schema).DecodeBatch(records)  # a decoder is unusable after it has rejected a record

            files = dataclasses.replace(files, left_out=scan(files.paths, bad, accepts, repr(("Arrow", schema))))
        return arrow_batches(files, ReadOptions.of(options), schema)


def _parser(examples: ExamplesFormat, file_pattern: list[str], schema: schema_pb2.Schema | None) -> RecordParser:
    from . import record_parsers

    if examples.payload == TF_EXAMPLE:
        return record_parsers.ExampleParser(schema)
    if examples.payload == SEQUENCE_EXAMPLE:
        return record_parsers.SequenceExampleParser(schema)
    if not examples.data_view:
        raise ValueError(f"{file_pattern}: records of {PROTO} need a DataView to decode them, but none is attached.")
    return record_parsers.DataViewParser(examples.data_view)
