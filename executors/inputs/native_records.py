"""TFRecords and lines of text, by tf.data's own readers as far as these tell what is wrong with a file.

Usage:

    dataset = tf_record_dataset(["a.tfrecord", "b.gz"])
    dataset = line_dataset(["a.txt", "b.txt.gz"], ReaderErrors())
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .. import file_io
from ..errors import InputError
from .reader_errors import ReaderErrors
from .record_files import is_gzipped

_RECORDS_AT_ONCE = 4096


def tf_record_dataset(paths: Sequence[str]) -> tf.data.Dataset:
    """Returns the records of all files, in the files' order; gzipped files may be among them."""
    parts = [  # the reader takes files of one compression at a time
        tf.data.TFRecordDataset(list(group), "GZIP" if gzipped else "")
        for gzipped, group in itertools.groupby(paths, key=is_gzipped)
    ]
    dataset = parts[0]
    for part in parts[1:]:
        dataset = dataset.concatenate(part)
    return dataset


def check_tf_records(paths: Sequence[str]) -> None:
    """Reads files to the end; called when tf.data has met a damaged one, since it does not say which.

    Raises:
      InputError: When one is damaged.
    """
    for path in paths:
        try:
            for _ in tf_record_dataset([path]).batch(_RECORDS_AT_ONCE):
                pass
        except tf.errors.DataLossError as error:
            what = error.message.partition("}} ")[2].partition(" [Op:")[0]  # "corrupted record at 198", the byte
            raise InputError(f"{path}: the TFRecord file is damaged or cut off: {what or error.message}.") from error


def line_dataset(paths: Sequence[str], errors: ReaderErrors) -> tf.data.Dataset:
    """Returns the lines of all files, without their ends.

    Gzipped files are not left to TextLineDataset: of one that is cut off it gives what is left, and no error.
    """
    if any(map(is_gzipped, paths)):
        return errors.dataset(lambda: _lines(paths), tf.TensorSpec([None], tf.string))
    return tf.data.TextLineDataset(list(paths))


def _lines(paths: Sequence[str]) -> Iterator[Any]:
    for path in paths:
        with file_io.file_system(path).open(path, mode="rb") as raw:
            lines = iter(gzip.GzipFile(fileobj=raw) if is_gzipped(path) else raw)
            try:
                while some := [_without_end(line) for line in itertools.islice(lines, _RECORDS_AT_ONCE)]:
                    yield np.array(some, object)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise InputError(f"{path} is gzipped, and cut off or damaged: {error}") from error


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")
