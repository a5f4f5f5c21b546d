"""Locates the record that a model file's `feed` fails on, since the errors of tf.data do not include its position.

The records are read again in windows that grow until `feed` fails on one, which is then bisected. So the search takes
as long as reading the records up to the bad one a few times, whatever `feed` is: it may shuffle, filter or batch.

Usage:

    text = describe_failure(records, feed, tensorflow_message)
    # "a.csv, row 32 (counting the header): the column 'x' is 'old'. The record is x='old', variety='0'. …"
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from ....errors import InputError
from ....inputs.bad_records import policy
from ....inputs.message_text import join_names, short_repr, shorten
from ....inputs.readers.record_files import CSV, TEXT
from ....runtime.logs.exceptions import one_line_message
from .csv_records import column_names
from .records import Records

Feed: TypeAlias = "Callable[[tf.data.Dataset], tf.data.Dataset]"

_FIRST_WINDOW = 1024  # records
_ELEMENTS_PER_RECORD = 4  # of a window that are read from `feed`, which may repeat its records without end
_MAX_SECONDS = 120.0  # of the search; then the error is reported without the record
_WHERE = re.compile(r"^.*Iterator::[\w:\[\]]+: ", re.DOTALL)
_QUOTED = re.compile(r"(?:convert string|is not a valid \w+): ?(.*)")


def describe_failure(records: Records, feed: Feed) -> str:
    """Describes the first record that `feed` fails on: its file, position, column and values.

    Args:
      records: The records.
      feed: Returns the dataset of features and labels for a dataset of records.

    Returns:
      The description, or "" if `feed` fails on no record or the search takes too long.
    """
    number = _first_failing(records.dataset(), feed, time.monotonic() + _MAX_SECONDS)
    if number is None:
        return ""
    one = records.dataset().skip(number).take(1)
    problem = _WHERE.sub("", one_line_message(_failure(feed(one), 1) or ValueError())).rstrip(".")
    [record] = one
    values = _values(record, records)
    quoted = _QUOTED.search(problem)
    columns = [name for name, value in values.items() if quoted and value == quoted.group(1).strip()]
    where = f"the column {columns[0]!r} is {short_repr(values[columns[0]])}: " if len(columns) == 1 else ""
    shown = ", ".join(f"{name}={short_repr(value)}" if name else short_repr(value) for name, value in values.items())
    return (
        f"{_place(records, number)}: {where}feed failed with: {shorten(problem)}."
        f"{f' The record is {shorten(shown)}.' if shown else ''}{_header_hint(records, number)}"
    )


def _first_failing(records: tf.data.Dataset, feed: Feed, deadline: float) -> int | None:
    start, size = 0, _FIRST_WINDOW
    while time.monotonic() < deadline:
        window = records.skip(start).take(size)
        if _failure(feed(window), size) is not None:
            return _bisected(records, feed, start, start + size)
        if next(iter(records.skip(start + size).take(1)), None) is None:
            return None
        start, size = start + size, 2 * size
    return None


def _bisected(records: tf.data.Dataset, feed: Feed, good: int, bad: int) -> int:
    """Returns the number of the first failing record, which is not before `good` and before `bad`."""
    while bad - good > 1:
        middle = (good + bad) // 2
        is_before = _failure(feed(records.skip(good).take(middle - good)), middle - good) is not None
        good, bad = (good, middle) if is_before else (middle, bad)
    return good


def _failure(dataset: tf.data.Dataset, size: int) -> Exception | None:
    try:
        _count(dataset.take(size * _ELEMENTS_PER_RECORD))
    except (tf.errors.OpError, UnicodeDecodeError) as error:  # the latter for a message that quotes other bytes
        return error
    return None


def _count(dataset: tf.data.Dataset) -> int:
    """Returns the number of elements, which are all computed."""
    return int(dataset.reduce(np.int64(0), lambda count, *_: count + 1))


def _values(record: object, records: Records) -> dict[str, str]:
    """Returns a record's values by column; by "" for text; {} for serialized records and other structures."""
    if isinstance(record, Mapping):
        return {name: _text(value) for name, value in record.items()}
    if records.metadata.column_names and isinstance(record, tf.Tensor) and record.shape.rank == 1:
        return dict(zip(records.metadata.column_names, map(_text, record.numpy()), strict=False))
    is_scalar = isinstance(record, tf.Tensor) and record.shape.rank == 0
    return {"": text} if is_scalar and (text := _text(record)).isprintable() else {}


def _text(value: object) -> str:
    value = value.numpy() if isinstance(value, tf.Tensor) else value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(np.asarray(value).tolist())


def _place(records: Records, number: int) -> str:
    """Returns the file and the position in it, which counts from 1 and leaves out skipped records."""
    for path in records.files:
        size = _count(records.of_file(path)) if records.of_file else 0
        if number < size:
            if records.kind == CSV and policy(CSV) is None:
                return f"{path}, row {number + 2} (counting the header)"
            return f"{path}, {'line' if records.kind == TEXT else 'record'} {number + 1}"
        number -= size
    return f"{records.origin}, record {number + 1}"


def _header_hint(records: Records, number: int) -> str:
    note = lines_note(records) if number == 0 else ""
    return f" It may be a header, which feed must skip. {note}" if note else ""


def lines_note(records: Records) -> str:
    """Returns how to read CSV files by columns if their records are lines of text; else ""."""
    if records.kind != TEXT or not records.files or not records.files[0].lower().removesuffix(".gz").endswith(".csv"):
        return ""
    try:
        names = column_names(records.files[0], ",")
    except InputError:
        return ""
    return (
        f"The records are lines of text, because --data_reader_params names no columns. Add "
        f'--data_reader_params="columns=[{join_names(list(map(repr, names)))}]" for vectors of strings.'
    )
