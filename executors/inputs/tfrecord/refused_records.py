"""Finds the first record that cannot be parsed, since errors of TensorFlow and tfx_bsl do not include its position.

Usage:

    if (error := first_refused(["a.tfrecord"], ParseTrial(parser.parse))) is not None:
        raise error       # InputError: a.tfrecord: the record at byte 120, record 7, cannot be parsed: …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from ...errors import InputError, did_you_mean
from ...runtime.logs.exceptions import one_line_message
from ..message_text import shorten
from .framing import Frame, frames
from .scan import REFUSALS, Accepts, blocks

_MISSING = re.compile(r"Feature: (.+?) \(data type: \w+\) is required but could not be found")


def first_refused(paths: Iterable[str], accepts: Accepts) -> InputError | None:
    """Returns the error for the first record that does not parse; None if all parse. Files are tested separately.

    Args:
      paths: TFRecord files.
      accepts: Parses a batch of records; raises one of REFUSALS if it cannot.

    Raises:
      InputError: If a corrupt record length makes it impossible to find the next record.
    """
    for path in paths:
        for block in blocks(frame for frame in frames(path) if frame.record is not None):
            found = _first_of(block, accepts)
            if found is not None:
                frame, problem = found
                return InputError(
                    f"{path}: the record at byte {frame.place}, cannot be parsed: {problem}"
                    f"{_hint(problem, frame.record or b'')} Write it again, or pass --on-bad-records=skip:N to skip up "
                    "to N such records."
                )
    return None


def _hint(problem: str, record: bytes) -> str:
    """Returns " Did you mean 'fare'?" if the record lacks a required feature and has one with a similar name."""
    missing = _MISSING.search(problem)
    if not missing:
        return ""
    try:
        names = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return ""
    return did_you_mean(missing.group(1), sorted(names))


def _first_of(block: Sequence[Frame], accepts: Accepts) -> tuple[Frame, str] | None:
    """Returns the first record of the block that makes `accepts` fail, and the error text, by binary search."""
    problem = _problem(block, accepts)
    if not problem:
        return None
    good, bad = 0, len(block)  # block[:good] is accepted, block[:bad] is not
    while bad - good > 1:
        middle = (good + bad) // 2
        found = _problem(block[:middle], accepts)
        good, bad, problem = (good, middle, found) if found else (middle, bad, problem)
    return block[bad - 1], problem


def _problem(block: Sequence[Frame], accepts: Accepts) -> str:
    try:
        accepts([record for frame in block if (record := frame.record) is not None])
    except REFUSALS as error:
        return shorten(one_line_message(error))
    return ""
