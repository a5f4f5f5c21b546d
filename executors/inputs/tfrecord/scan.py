"""TFRecord files without the records that `on_bad_records` leaves out.

Once per process each file is read from beginning to end, before anything is trained: both checksums of every record are
looked at, and whether it can be parsed, where the reader knows what for. Files in which all records are good are left
to TensorFlow's reader, which is fast, and ends a file at its first bad record; the others are read in Python.

Usage:

    left_out = scan(["a.tfrecord", "b.gz"], policy("TFRecord"))     # {"b.gz": {7, 100}}
    for block in good_blocks("b.gz", left_out["b.gz"]):
        ...
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from ...errors import InputError
from ...runtime.logs.exceptions import gist_of
from ..bad_records import BadRecords
from .framing import Frame, frames, place_of

Item = TypeVar("Item")
Accepts = Callable[[Sequence[bytes]], object]  # raises one of REFUSALS where it does not take a record
REFUSALS = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, RuntimeError, ValueError)
_AT_ONCE = 1024  # records
_SHOWN = 300  # characters of an error


def scan(
    paths: Iterable[str], bad: BadRecords | None, accepts: Accepts | None = None, key: str | None = None
) -> dict[str, frozenset[int]]:
    """Finds the records that are to be left out.

    Args:
      paths: The files.
      bad: Takes them; None to leave out none, and to read nothing.
      accepts: Parses some records, if they can be told from bad ones by that.
      key: What `accepts` depends on: a file is not scanned twice for the same.

    Returns:
      {file: the numbers, from 0, of its bad records}, of files that have some.

    Raises:
      TooManyBadRecordsError: When there are more than may be left out.
      InputError: When a file is damaged so that an unknown number of records would be lost.
    """
    if bad is None:
        return {}
    found = {}
    for path in paths:
        place = (path, key, _state(path))
        if place not in bad.scanned:
            bad.scanned[place] = frozenset(_bad_numbers(path, bad, accepts))
        if bad.scanned[place]:
            found[path] = bad.scanned[place]
    return found


def good_blocks(path: str, left_out: frozenset[int]) -> Iterator[np.ndarray]:
    """Yields the good records of a file as vectors of bytes."""
    records = (frame.record for frame in frames(path) if frame.number not in left_out)
    for block in blocks(records):
        yield np.array(block, object)


def without_left_out(
    records: Callable[[tf.Tensor], tf.data.Dataset], path: tf.Tensor, left_out: Mapping[str, frozenset[int]]
) -> tf.data.Dataset:
    """Returns the records of one file.

    Args:
      records: What TensorFlow's reader makes of no file at all, or of `path`, when called with its name in a vector.
      path: The file's name, a scalar.
      left_out: As of `scan`.
    """
    is_bad = tf.reduce_any(tf.equal(path, tf.constant(sorted(left_out), tf.string)))

    def good(names: np.ndarray) -> Iterator[np.ndarray]:
        for name in names:
            yield from good_blocks(name.decode(), left_out[name.decode()])

    names = tf.boolean_mask([path], [is_bad])
    ours = tf.data.Dataset.from_generator(good, output_signature=tf.TensorSpec([None], tf.string), args=(names,))
    return records(tf.boolean_mask([path], [~is_bad])).concatenate(ours.unbatch())


def _bad_numbers(path: str, bad: BadRecords, accepts: Accepts | None) -> Iterator[int]:
    try:
        for block in blocks(frames(path)):
            for frame, problem in _problems(block, accepts):
                bad.skip(path, f"byte {place_of(frame.number, frame.offset)}", problem)
                yield frame.number or 0
    except InputError as error:
        if type(error) is not InputError:
            raise
        raise InputError(
            f"{error} on_bad_records=skip:{bad.limit} leaves out single records, and nobody knows how many these are."
        ) from error


def _problems(block: Sequence[Frame], accepts: Accepts | None) -> list[tuple[Frame, str]]:
    bad = [(frame, frame.problem) for frame in block if frame.record is None]
    if accepts is not None:
        whole = [frame for frame in block if frame.record is not None]
        bad += [(whole[index], problem) for index, problem in refused([frame.record for frame in whole], accepts)]
    return sorted(bad, key=lambda found: found[0].offset)


def refused(records: Sequence[Any], accepts: Accepts, first: int = 0) -> list[tuple[int, str]]:
    """Returns index and problem of the records that are not accepted, found by halves: most blocks have none."""
    if not len(records):
        return []
    try:
        accepts(records)
    except REFUSALS as error:
        if len(records) == 1:
            return [(first, gist_of(error)[:_SHOWN])]
        middle = len(records) // 2
        return refused(records[:middle], accepts, first) + refused(records[middle:], accepts, first + middle)
    return []


def blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yields items as many at a time as a parser is asked for."""
    rest = iter(items)
    while block := list(itertools.islice(rest, _AT_ONCE)):
        yield block


def _state(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None  # on another file system
    return state.st_size, state.st_mtime_ns


class ParseTrial:
    """Whether records can be parsed, in a graph of its own: a module may have turned eager execution off.

    Args:
      parse: Makes tensors of a string vector.
    """

    def __init__(self, parse: Callable[[tf.Tensor], object]) -> None:
        graph = tf.Graph()
        with graph.as_default():
            records = tf.compat.v1.placeholder(tf.string, [None])
            parsed = [tf.identity(tensor) for tensor in tf.nest.flatten(parse(records), expand_composites=True)]
        self._session = tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(device_count={"GPU": 0}))
        self._call = self._session.make_callable(parsed, [records])

    def __call__(self, records: Sequence[bytes]) -> object:
        """Raises InvalidArgumentError when one cannot be parsed."""
        return self._call(np.array(records, object))
