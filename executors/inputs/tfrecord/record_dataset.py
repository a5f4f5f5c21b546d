"""TFRecord files as a `tf.data` dataset of serialized records: TFX's order of records, read several times as fast.

tfx_bsl interleaves its files record by record, and each record wakes up a thread, for the buffer between the readers
and the rest holds a handful. Here it holds hundreds, and tf.data's bookkeeping for each element is off. The
operations are the same ones otherwise, with the same seeds: without shuffling, or with a `shuffle_seed`, the records
come in the very order of TFX. Shuffled without one, they come from the files a few dozen at a time instead of one by
one, into the same shuffle of the same size, which is large against that.

Usage:

    records = record_batches(find_files(["train/*.gz"]), ReadOptions(batch_size=512, num_epochs=1, shuffle=False))
    for batch in records:     # string tensors of shape [512]; the last one may be shorter
        ...
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from ...distributed.tf_config import task_from_environment
from ...errors import InputError
from ..readers.record_files import head_of, is_gzipped, unzipped_head
from ..recordio.snappy_framing import masked_crc32c
from .framing import HEAD, lost
from .scan import without_left_out

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

_BUFFER_BYTES = 256 * 1024  # what tf.data.TFRecordDataset reads at once, too
# Records that the readers may be ahead by, all of them together. On two cores, 512 a reader take 0.46 s for 240,000
# records, 64 take 0.50 s, 16 take 0.76 s, and the two that are tf.data's default take 1.84 s.
_RECORDS_AHEAD = 1024
_LEAST_AHEAD = 32
_LOOKED_AT = 256  # files whose first bytes are looked at, before anything is read
# Records of one file that go into the shuffle together if its order is anybody's; at most this part of its buffer.
# For 240,000 records this takes reading, shuffling and batching from 0.9 s of one core to 0.65 s.
_CHUNK = 64
_CHUNKS_IN_BUFFER = 64


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How to read; the fields are those of tfx_bsl's `TensorFlowDatasetOptions` that concern reading.

    Attributes:
      batch_size: Records in a batch.
      drop_final_batch: Whether to leave out a last batch that is smaller.
      num_epochs: How often to read the files; None for ever, which implies `drop_final_batch`.
      shuffle: Whether to shuffle the files, and then the records.
      shuffle_buffer_size: Records to choose the next one from.
      shuffle_seed: Makes the order the same in each run; it still differs from epoch to epoch.
      reader_num_threads: Files to read at the same time; -1 for one a core.
      sloppy_ordering: Whether records may come in whichever order they are read.
    """

    batch_size: int
    drop_final_batch: bool = False
    num_epochs: int | None = None
    shuffle: bool = True
    shuffle_buffer_size: int = 10_000
    shuffle_seed: int | None = None
    reader_num_threads: int | None = tf.data.AUTOTUNE
    sloppy_ordering: bool = False

    @classmethod
    def of(cls, options: TensorFlowDatasetOptions | RecordBatchesOptions) -> ReadOptions:
        """Takes what concerns reading from a `TensorFlowDatasetOptions` or a `RecordBatchesOptions`."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: getattr(options, name) for name in names if hasattr(options, name)})


@dataclasses.dataclass(frozen=True)
class RecordFiles:
    """TFRecord files that belong together.

    Attributes:
      patterns: What they were found by.
      paths: The files, in the order in which tf.data lists them.
      compression: "GZIP" if their names end in .gz, else "".
      left_out: Numbers of records to leave out, by file; as of `scan.scan`.
    """

    patterns: tuple[str, ...]
    paths: tuple[str, ...]
    compression: str
    left_out: Mapping[str, frozenset[int]] = dataclasses.field(default_factory=dict)


def find_files(file_pattern: str | Sequence[str], is_read: bool = True) -> RecordFiles:
    """Finds the files of some patterns, and tells by their names how they are compressed.

    Args:
      file_pattern: A pattern, or several.
      is_read: Whether to look at what they begin with, too.

    Raises:
      ValueError: When no file matches, or when only some of the files' names end in ".gz".
      InputError: As of `check_form`.
    """
    patterns = [file_pattern] if isinstance(file_pattern, str) else list(file_pattern)
    paths = sorted(tf.io.gfile.glob(patterns))
    if not paths:
        raise ValueError(f"no TFRecord file matches {', '.join(patterns)}.")
    gzipped = [path for path in paths if path.endswith(".gz")]
    if gzipped and len(gzipped) < len(paths):
        plain = next(path for path in paths if not path.endswith(".gz"))
        raise ValueError(
            f"{', '.join(patterns)}: the names of all files must end in .gz, or none, as that says whether they are "
            f"compressed; {gzipped[0]} does and {plain} does not."
        )
    for path in paths[:_LOOKED_AT] if is_read else ():
        check_form(path)
    return RecordFiles(tuple(patterns), tuple(paths), "GZIP" if gzipped else "")


def check_form(path: str) -> None:
    """Looks at the first bytes of a file, which may be empty.

    Raises:
      InputError: When it is no TFRecord file, or is not compressed as its name says.
    """
    head, named = head_of(path, HEAD.size), path.endswith(".gz")
    if head and is_gzipped(path) != named:
        raise InputError(
            f"{path} is {'not ' if named else ''}gzipped, and its name {'ends' if named else 'does not end'} in .gz: "
            "data_accessor goes by the name. Rename it."
        )
    head = unzipped_head(path) if named and head else head
    if len(head) == HEAD.size and masked_crc32c(head[:8]) != HEAD.unpack(head)[1]:
        raise lost(path, 0, 0, head)


def record_batches(files: RecordFiles, options: ReadOptions) -> tf.data.Dataset:
    """Returns batches of serialized records, as `tfx_bsl.tfxio.dataset_util.make_tf_record_dataset` does.

    Batches go on over the end of an epoch. The dataset's options turn tf.data's autotuning off, for it costs more
    than it gives when the elements are single records, and ending an iterator waits for it: up to a minute. What
    comes later in the pipeline and asks for AUTOTUNE gets as many threads as there are cores, up to 16. A
    `dataset.with_options` of one's own turns it on again.

    Args:
      files: Which files.
      options: How to read them.
    """
    paths = tf.data.Dataset.list_files(list(files.patterns), shuffle=options.shuffle, seed=options.shuffle_seed)
    # `apply` makes it a dataset of tf.compat.v1, with its methods, where these are what tf.data makes.
    dataset = paths.apply(lambda paths: _interleaved(paths, files, options))
    dataset = dataset.with_options(pipeline_options(options, len(files.paths)))
    if options.shuffle:
        dataset = dataset.shuffle(options.shuffle_buffer_size, options.shuffle_seed)
    if options.num_epochs != 1:
        dataset = dataset.repeat(options.num_epochs)
    drop_final_batch = options.drop_final_batch or options.num_epochs is None
    return dataset.batch(options.batch_size, drop_remainder=drop_final_batch)


def _interleaved(paths: tf.data.Dataset, files: RecordFiles, options: ReadOptions) -> tf.data.Dataset:
    """`paths.interleave(TFRecordDataset, num_parallel_calls=…)`, with a larger buffer than that gives it."""
    chunk, compression = _chunk(options), files.compression

    def whole(path: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path, compression, _BUFFER_BYTES)

    def good(path: tf.Tensor) -> tf.data.Dataset:
        return without_left_out(whole, path, files.left_out) if files.left_out else whole(path)

    def read(path: tf.Tensor) -> tf.Tensor:
        if files.left_out:
            records = tf.data.experimental.to_variant(good(path))
        else:
            records = tf.raw_ops.TFRecordDataset(
                filenames=path, compression_type=compression, buffer_size=_BUFFER_BYTES
            )
        if chunk == 1:
            return records
        return tf.data.experimental.to_variant(tf.data.experimental.from_variant(records, record).batch(chunk))

    if not options.reader_num_threads:
        return paths.interleave(good)
    record = tf.TensorSpec([], tf.string)
    element = record if chunk == 1 else tf.TensorSpec([None], tf.string)
    function = tf.function(read, autograph=False).get_concrete_function(record)
    readers = number_of_readers(options.reader_num_threads)
    dataset = tf.data.experimental.from_variant(
        tf.raw_ops.ParallelInterleaveDatasetV4(
            input_dataset=tf.data.experimental.to_variant(paths),
            other_arguments=function.captured_inputs,
            cycle_length=tf.data.AUTOTUNE,
            block_length=1,
            buffer_output_elements=max(2, max(_LEAST_AHEAD, _RECORDS_AHEAD // readers) // chunk),
            prefetch_input_elements=tf.data.AUTOTUNE,
            num_parallel_calls=readers if options.reader_num_threads > 0 else tf.data.AUTOTUNE,
            f=function,
            output_types=[tf.string],
            output_shapes=[element.shape],
            deterministic="false" if options.sloppy_ordering else "true",
        ),
        element,
    )
    dataset.reads_by = function  # the op knows it by its name only, and it lives as long as somebody holds it
    return dataset if chunk == 1 else dataset.unbatch()


def _chunk(options: ReadOptions) -> int:
    """Returns how many records of a file are to come one after another: one, where the order is TFX's."""
    if not options.shuffle or options.shuffle_seed is not None:
        return 1
    return max(1, min(_CHUNK, options.shuffle_buffer_size // _CHUNKS_IN_BUFFER))


def number_of_readers(wanted: int) -> int:
    """Returns how many files tf.data reads at the same time: no more than cores, for it refuses that."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if wanted < 0 else min(wanted, cores)


def pipeline_options(options: ReadOptions, files: int) -> tf.data.Options:
    """Returns what a dataset of some files is to be run with; see `record_batches`.

    Several workers that share a dataset each take some of its files. Where there are fewer files than workers, which
    TensorFlow refuses, each reads all of them and takes its part of the batches.
    """
    pipeline = tf.data.Options()
    task = task_from_environment()
    if task is not None and files < task.num_workers:
        pipeline.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    pipeline.deterministic = not options.sloppy_ordering
    pipeline.autotune.enabled = False
    return pipeline
