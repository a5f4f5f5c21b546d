"""The data of an ElasticDL job: the records of a split, what the model file's `feed` returns for them, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ...errors import InputError, ModuleError
from ...inputs.parse_errors import track_feed
from ...inputs.readers.record_files import CSV
from ...runtime.logs.exceptions import add_note
from .parts import PREDICTION, Parts
from .readers.custom_reader import open_custom
from .readers.open_records import open_records
from .readers.reader_params import parse_reader_params
from .readers.record_search import describe_failure, lines_note
from .readers.records import Records


def open_split(parts: Parts, origin: str | Sequence[str], what: str) -> Records:
    """Opens the records of a split with the file's own reader, or the one for their format.

    Args:
      parts: The model file.
      origin: Files, patterns, or what the file's own reader takes.
      what: Name of the option, for errors.

    Raises:
      InputError: When there are none.
    """
    if not origin:
        raise InputError(f"{what} is not set.")
    params = parse_reader_params(parts.options.data_reader_params)
    reader = parts.custom_data_reader()
    if reader is None:
        return open_records(origin, params)
    options = parts.options
    data_origin = origin if isinstance(origin, str) or len(origin) > 1 else origin[0]
    task_size = options.records_per_task or options.minibatch_size * options.num_minibatches_per_task
    made = reader(data_origin, **{"records_per_task": task_size, **params})
    return open_custom(made, str(data_origin))


def batches(parts: Parts, records: Records, mode: str, size: int = 0) -> tf.data.Dataset:
    """Returns the output of `feed` in batches of `size`, or of `minibatch_size` if `size` is 0."""
    return batched(feed_records(parts, records, mode), size or parts.options.minibatch_size)


def feed_records(parts: Parts, records: Records, mode: str) -> tf.data.Dataset:
    """Returns the unbatched dataset that `feed` returns for the records."""

    def feed(dataset: tf.data.Dataset) -> tf.data.Dataset:
        try:
            return parts.feed(dataset, mode, records.metadata)
        except Exception as error:
            if note := lines_note(records):
                add_note(error, note)
            raise

    track_feed(f"{mode}: {records.origin}", lambda: describe_failure(records, feed))
    dataset = feed(records.dataset())
    if mode != PREDICTION and not (isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) == 2):
        raise ModuleError(
            f"{parts.module.__file__}: feed must return (features, labels) in {mode}; it returned "
            f"{dataset.element_spec}."
        )
    return dataset


def batched(dataset: tf.data.Dataset, size: int) -> tf.data.Dataset:
    """Returns a dataset in global batches of `size` records; the last one may be shorter."""
    return dataset.batch(size).prefetch(tf.data.AUTOTUNE).with_options(pipeline_options())


def pipeline_options() -> tf.data.Options:
    """Returns tf.data's options for a pipeline of single records."""
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = True  # feeds map single records, sequentially
    options.autotune.enabled = False  # its overhead per record is as large as these maps themselves
    # Shard each batch: with sharding by file, the workers' records would differ from those of a single worker.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options


def first_batch(data: tf.data.Dataset, records: Records) -> Any:
    """Returns the first batch of a dataset of `records`; raises an InputError if there is none."""
    batch = next(iter(data.take(1)), None)
    if batch is None:
        raise InputError(f"{records.origin}: there are no records{' below the header' * (records.kind == CSV)}.")
    return batch
