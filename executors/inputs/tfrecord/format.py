"""TFRecord files: of tf.Examples, or of other records with another payload format."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator

from ...errors import InputError
from ...examples_format import PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE, ExamplesFormat
from ..bad_records import policy
from ..gzipped_files import is_gzipped
from ..input_format import COPIED_BYTES, FIRST_RECORDS, Batch, Copied, Factories, InputFormat, formats
from .framing import FRAME_BYTES, begins_record, find_damage, frames, handle_damage

_SAMPLE_BYTES = 1 << 20  # to estimate the compression ratio of a file


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
                if limit is not None and (count >= limit or size >= COPIED_BYTES):
                    break
        return count, first

    def factories(self, examples: ExamplesFormat) -> Factories:
        """See `InputFormat`."""
        from . import datasets

        return functools.partial(datasets.tf_dataset, examples), functools.partial(datasets.record_batches, examples)
