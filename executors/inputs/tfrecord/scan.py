"""Scans TFRecord files for the records that `on_bad_records` skips.

Each file is scanned completely once per process, before training: both checksums of every record are verified and, if
the reader has a parser, whether the record parses. Intact files are then read by TensorFlow's reader, which is fast but
stops at the first bad record of a file; files with bad records are read in Python.

Usage:

    left_out = scan(["a.tfrecord", "b.gz"], policy("TFRecord"))     # {"b.gz": {7, 100}}
    for block in good_blocks("b.gz", left_out["b.gz"]):
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import InputError
from ...runtime.files.content_digests import stamp_of
from ...runtime.logs.exceptions import one_line_message
from ..bad_records import BadRecords
from ..input_format import chunks
from ..message_text import shorten
from .framing import Frame, frames

Accepts = Callable[[Sequence[bytes]], object]  # raises one of REFUSALS if a record does not parse
REFUSALS = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, RuntimeError, ValueError)
AT_ONCE = 1024  # records, the batch size for parsers


def scan(
    paths: Iterable[str], bad: BadRecords | None, accepts: Accepts | None = None, key: str | None = None
) -> dict[str, frozenset[int]]:
    """Finds the records to skip.

    Args:
      paths: TFRecord files.
      bad: Collects the skipped records; None to skip none, in which case no file is read.
      accepts: Parses a batch of records, and raises one of REFUSALS if it cannot; None to verify checksums only.
      key: Identifies `accepts`. A file that was not modified is not scanned again with the same key.

    Returns:
      {file: numbers of its bad records, from 0}, for files that have some.

    Raises:
      TooManyBadRecordsError: If there are more bad records than the limit.
      InputError: If a file is damaged so that an unknown number of records would be lost.
    """
    if bad is None:
        return {}
    found = {}
    for path in paths:
        place = (path, key, stamp_of(path))
        if place not in bad.scanned:
            bad.scanned[place] = frozenset(_bad_numbers(path, bad, accepts))
        if bad.scanned[place]:
            found[path] = bad.scanned[place]
    return found


def good_blocks(path: str, left_out: frozenset[int]) -> Iterator[np.ndarray]:
    """Yields the records of a file as vectors of bytes, without those in `left_out`."""
    records = (frame.record for frame in frames(path) if frame.number not in left_out)
    for _, block in chunks(records, AT_ONCE):
        yield np.array(block, object)


def _bad_numbers(path: str, bad: BadRecords, accepts: Accepts | None) -> Iterator[int]:
    try:
        for _, block in chunks(frames(path), AT_ONCE):
            for frame, problem in _problems(block, accepts):
                bad.skip(path, f"byte {frame.place}", problem)
                yield frame.number
    except InputError as error:
        if type(error) is not InputError:
            raise
        raise InputError(
            f"{error} on_bad_records=skip:{bad.limit} skips single records, but the number of unreadable records is "
            "unknown."
        ) from error


def _problems(block: Sequence[Frame], accepts: Accepts | None) -> list[tuple[Frame, str]]:
    bad = [(frame, frame.problem) for frame in block if frame.record is None]
    if accepts is not None:
        whole = [frame for frame in block if frame.record is not None]
        bad += [(whole[index], problem) for index, problem in refused([frame.record for frame in whole], accepts)]
    return sorted(bad, key=lambda found: found[0].offset)


def refused(records: Sequence[Any], accepts: Accepts, first: int = 0) -> Iterator[tuple[int, str]]:
    """Yields (index, error text) of the records that do not parse, by bisection since most blocks have none."""
    if not len(records):
        return
    try:
        accepts(records)
    except REFUSALS as error:
        if len(records) == 1:
            yield first, shorten(one_line_message(error))
            return
        middle = len(records) // 2
        yield from refused(records[:middle], accepts, first)
        yield from refused(records[middle:], accepts, first + middle)


class ParseTrial:
    """Tests whether records parse, in a separate graph on the CPU because a module may have disabled eager execution.

    Args:
      parse: Parses a string vector of serialized records into a structure of tensors.
    """

    def __init__(self, parse: Callable[[tf.Tensor], object]) -> None:
        graph = tf.Graph()
        with graph.as_default():
            records = tf.compat.v1.placeholder(tf.string, [None])
            parsed = [tf.identity(tensor) for tensor in tf.nest.flatten(parse(records), expand_composites=True)]
        self._session = tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(device_count={"GPU": 0}))
        self._call = self._session.make_callable(parsed, [records])

    def __call__(self, records: Sequence[bytes]) -> object:
        """Parses a batch of records.

        Raises:
          InvalidArgumentError: If a record does not parse.
        """
        return self._call(np.array(records, object))
