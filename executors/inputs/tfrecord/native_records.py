"""Datasets of TFRecords and text lines that use tf.data's readers, except where these would miss a damaged file.

Usage:

    dataset = tf_record_dataset(["a.tfrecord", "b.gz"])
    dataset = line_dataset(["a.txt", "b.txt.gz"], ReaderErrors())
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from ..bad_records import policy
from ..gzipped_files import is_gzipped, opened
from ..readers.reader_errors import ReaderErrors
from ..readers.record_files import TF_RECORD, check_text
from .framing import find_damage, frames, handle_damage
from .scan import good_blocks

_RECORDS_AT_ONCE = 4096


def tf_record_dataset(paths: Sequence[str], left_out: Mapping[str, frozenset[int]] | None = None) -> tf.data.Dataset:
    """Returns a dataset of the serialized records of all files, in the order of the files.

    Args:
      paths: TFRecord files, each gzipped or not.
      left_out: {file: numbers of records to skip}, as returned by `scan.scan`.
    """
    bad = left_out or {}
    parts = []
    # A tf.data.TFRecordDataset has one compression type for all of its files.
    for (gzipped, is_bad), group in itertools.groupby(paths, key=lambda path: (is_gzipped(path), path in bad)):
        files = list(group)
        parts.append(_good_records(files, bad) if is_bad else tf.data.TFRecordDataset(files, "GZIP" if gzipped else ""))
    dataset = parts[0]
    for part in parts[1:]:
        dataset = dataset.concatenate(part)
    return dataset


def _good_records(paths: Sequence[str], left_out: Mapping[str, frozenset[int]]) -> tf.data.Dataset:
    def blocks() -> Iterator[np.ndarray]:
        for path in paths:
            yield from good_blocks(path, left_out[path])

    return tf.data.Dataset.from_generator(blocks, output_signature=tf.TensorSpec([None], tf.string)).unbatch()


def first_tf_records(paths: Sequence[str], count: int) -> list[bytes]:
    """Returns the first records of some files.

    Args:
      paths: TFRecord files, each gzipped or not.
      count: Maximum number of records.

    Raises:
      InputError: If a file is damaged. If bad records are skipped, only for damage that makes it impossible to find
        the next record.
    """
    return list(itertools.islice(_intact_records(paths), count))


def _intact_records(paths: Sequence[str]) -> Iterator[bytes]:
    bad = policy(TF_RECORD)
    for path in paths:
        for frame in frames(path):
            if frame.record is not None:
                yield frame.record
            elif bad is None:
                handle_damage(path, frame, bad)


def check_tf_records(paths: Sequence[str]) -> None:
    """Reads files completely to find the damaged one; called after a tf.data error, which does not name the file.

    Raises:
      InputError: If a file is damaged.
    """
    if (error := find_damage(paths)) is not None:
        raise error


def line_dataset(paths: Sequence[str], errors: ReaderErrors) -> tf.data.Dataset:
    """Returns a dataset of the lines of all files, without line terminators.

    If a file is gzipped, the files are read in Python: TextLineDataset would read a truncated gzip file without an
    error.

    Args:
      paths: Text files, each gzipped or not.
      errors: Keeps the exception of the Python reader, to re-raise it.

    Raises:
      InputError: If a file is not text.
    """
    for path in paths:
        check_text(path)
    if any(map(is_gzipped, paths)):
        return errors.dataset(lambda: _lines(paths), tf.TensorSpec([None], tf.string))
    return tf.data.TextLineDataset(list(paths))


def _lines(paths: Sequence[str]) -> Iterator[np.ndarray]:
    for path in paths:
        with opened(path) as file:
            while some := [_without_end(line) for line in itertools.islice(file, _RECORDS_AT_ONCE)]:
                yield np.array(some, object)


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")
