"""Multi-threaded decoding of tf.Examples into Arrow record batches, in the order of the records.

Uses tfx_bsl's C++ decoder, which releases the GIL, so a few batches are decoded ahead in a thread pool. Each thread has
its own decoder, because a decoder keeps the columns under construction as state.

Usage:

    options = TensorFlowDatasetOptions(512, num_epochs=1, shuffle=False)
    for batch in arrow_batches(find_files(["eval/*.gz"]), options, schema):
        batch.column("fare")      # an Arrow array of lists
"""

from __future__ import annotations

import collections
import concurrent.futures
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import tensorflow as tf

from ...errors import InputError
from ..message_text import join_names
from .framing import check_tf_records
from .record_dataset import RecordFiles, record_batches
from .refused_records import first_refused

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.coders import example_coder
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_THREADS = 8


def arrow_batches(
    files: RecordFiles, options: TensorFlowDatasetOptions, schema: schema_pb2.Schema | None
) -> Iterator[pa.RecordBatch]:
    """Yields the same batches as `tfx_bsl.tfxio.TFExampleRecord.RecordBatches`.

    Args:
      files: The TFRecord files.
      options: How to read them.
      schema: Determines the columns; without a schema, each batch has the columns that occur in its examples.

    Raises:
      InputError: If a file is damaged, or a record does not match the schema; the message names file, record and byte
        offset.
    """
    own = threading.local()

    def decode(batch: np.ndarray) -> pa.RecordBatch:
        if not hasattr(own, "decoder"):
            own.decoder = decoder_of(schema)
        return own.decoder.DecodeBatch(batch)

    records = record_batches(files, options).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()
    try:
        yield from _in_threads(decode, records)
    except tf.errors.DataLossError:
        check_tf_records(files.paths)
        raise
    except RuntimeError as error:  # raised by tfx_bsl's decoder
        refused = first_refused(files.paths, lambda records: decoder_of(schema).DecodeBatch(records))
        raise refused or InputError(
            f"{join_names(files.patterns)}: the records do not have the same features: {error}"
        ) from error


def decoder_of(schema: schema_pb2.Schema | None) -> example_coder.ExamplesToRecordBatchDecoder:
    """Returns tfx_bsl's decoder for a schema; without a schema, it infers the columns from each batch."""
    from tfx_bsl.coders import example_coder

    return example_coder.ExamplesToRecordBatchDecoder(None if schema is None else schema.SerializeToString())


def _in_threads(function: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
    """Ordered parallel `map(function, items)` with one thread per core, at most `_MOST_THREADS`."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    executor = concurrent.futures.ThreadPoolExecutor(threads)
    ahead: collections.deque[concurrent.futures.Future[Result]] = collections.deque()
    try:
        for item in items:
            ahead.append(executor.submit(function, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)
