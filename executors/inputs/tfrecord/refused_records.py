"""Finds the first record that cannot be parsed, since errors of TensorFlow and tfx_bsl do not include its position.

Usage:

    if (error := first_refused(["a.tfrecord"], ParseTrial(parser.parse))) is not None:
        raise error       # InputError: a.tfrecord: the record at byte 120, record 7, cannot be parsed: …
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import tensorflow as tf
from google.protobuf.message import DecodeError

from ...errors import InputError, did_you_mean
from ..input_format import chunks
from .framing import frames
from .scan import AT_ONCE, Accepts, refused

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
        for _, block in chunks((frame for frame in frames(path) if frame.record is not None), AT_ONCE):
            for index, problem in refused([frame.record for frame in block], accepts):
                frame = block[index]
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
