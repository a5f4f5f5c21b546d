"""TFRecord files: of tf.Examples, or of other records with another payload format."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...errors import InputError
from ...examples_format import PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE, ExamplesFormat
from ..bad_records import policy
from ..gzipped_files import is_gzipped, opened, position
from ..input_format import COPIED_BYTES, FIRST_RECORDS, Batch, Copied, Factories, InputFormat, chunks, formats
from .framing import begins_record, frames, intact_records, read_frames


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
        try:
            with opened(path) as file:
                for first, records in chunks(intact_records(path, read_frames(file, path)), size):
                    yield Batch(path, first, len(records), records=records, position=position(file))
        except InputError as error:
            endings = ", ".join(sorted(ending for form in formats().values() for ending in form.endings))
            raise InputError(f"{error} (Files of other formats must have names that end in {endings}.)") from error

    examples = batches

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """See `InputFormat`."""
        import tensorflow as tf

        count = size = 0
        first: list[bytes] = []
        # tf.data would initialize TensorFlow's runtime before the module configures it.
        with tf.io.TFRecordWriter(target, "GZIP" if is_gzipped(path) else "") as writer:
            for record in intact_records(path, frames(path), policy(self.name)):
                writer.write(record)
                first += [record] if len(first) < FIRST_RECORDS else []
                count, size = count + 1, size + len(record)
                if limit is not None and (count >= limit or size >= COPIED_BYTES):
                    break
        return count, first

    def factories(self, examples: ExamplesFormat) -> Factories:
        """See `InputFormat`."""
        from . import datasets

        return functools.partial(datasets.tf_dataset, examples), functools.partial(datasets.record_batches, examples)
