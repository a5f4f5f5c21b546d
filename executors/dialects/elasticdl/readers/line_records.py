"""Reads the lines of text files as records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from ....inputs.gzipped_files import is_gzipped, opened
from ....inputs.readers.reader_errors import ReaderErrors
from ....inputs.text_format import check_text

_LINES_AT_ONCE = 4096


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
            while some := list(itertools.islice(file, _LINES_AT_ONCE)):
                yield np.array([line.removesuffix(b"\n").removesuffix(b"\r") for line in some], object)
