"""Reads selected columns of CSV files as string tensors, block by block.

Usage:

    names = column_names("iris.csv", ",")
    for block in csv_blocks(["iris.csv"], ["petal.length", "variety"], ","):
        strings_of_block(*block)     # a tensor [rows, 2]
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from ....errors import InputError, did_you_mean
from ....inputs.bad_records import BadRecords, policy
from ....inputs.csv.row_reader import csv_rows
from ....inputs.csv.rows import RowError, count_problem, row_values
from ....inputs.csv.separators import other_separator
from ....inputs.gzipped_files import opened
from ....inputs.message_text import closest_names, short_repr
from ....inputs.readers.record_files import CSV
from .string_blocks import serialized_strings

BLOCK_SIGNATURE = (tf.TensorSpec([], tf.string), tf.TensorSpec([None], tf.int32))


def column_names(path: str, sep: str) -> list[str]:
    """Returns the column names in the header row of a CSV file.

    Args:
      path: The file, gzipped or not.
      sep: The separator, one character.

    Raises:
      InputError: If the header row cannot be parsed or has no names.
    """
    with csv_rows(path, sep, is_strict=False) as rows:
        return rows.required_names()


def csv_blocks(paths: Sequence[str], columns: Sequence[str], sep: str) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields the rows of all files in blocks, in the order of the files; `strings_of_block` converts a block.

    Args:
      paths: CSV files with a header row, each gzipped or not.
      columns: Names of the columns to read, in the order of the result.
      sep: The separator, one character.

    Raises:
      InputError: If a header lacks a column or has it twice, a file is damaged, or a row does not have as many values
        as the header. Such rows are skipped if `on_bad_records` allows it.
    """
    for path in paths:
        names = column_names(path, sep)
        check_columns(path, columns, names)
        places = {name: place for place, name in enumerate(names)}
        chosen, order = np.unique([places[name] for name in columns], return_inverse=True)
        is_ordered = np.array_equal(order, np.arange(len(chosen)))
        skip = functools.partial(_skip, path, len(names), policy(CSV))
        with opened(path) as file:
            try:
                for values in row_values(file, sep.encode(), len(names), chosen, skip):
                    block = serialized_strings(values.lengths, values.content)
                    yield block, np.array([] if is_ordered else order, np.int32)
            except RowError as error:
                raise InputError(f"{path}: row {error.number} (counting the header): {error}.") from error


def strings_of_block(block: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """Returns the string tensor of a block, of shape [rows, columns].

    Args:
      block: A serialized string tensor.
      order: Indices of its columns in the order of the result; empty if they are in order.
    """
    strings = tf.io.parse_tensor(block, tf.string)
    return tf.cond(tf.size(order) > 0, lambda: tf.gather(strings, order, axis=1), lambda: strings)


def check_columns(origin: str, columns: Sequence[str], there: Sequence[str]) -> None:
    """Checks that each requested column occurs exactly once.

    Args:
      origin: File or table, for the message.
      columns: The requested columns.
      there: The columns of the file or table.

    Raises:
      InputError: If a column is missing or occurs several times.
    """
    counts = collections.Counter(there)
    for name in columns:
        if not counts[name]:
            separator = _separator_hint(there)
            near = "" if separator else did_you_mean(name, there)
            raise InputError(
                f"{origin}: there is no column {name!r}.{near} It has {closest_names(there, near=name)}.{separator}"
            )
        if counts[name] > 1:
            raise InputError(
                f"{origin}: {counts[name]} columns are named {short_repr(name)}; column names must be unique."
            )


def _separator_hint(names: Sequence[str]) -> str:
    sep = other_separator(names)
    return f" Its values are separated by {sep!r}: set sep={sep!r} in --data_reader_params." if sep else ""


def _skip(path: str, columns: int, bad: BadRecords | None, number: int, row: bytes, count: int) -> None:
    """Skips a row whose number of values differs from the header's, or raises an InputError."""
    place, problem = f"row {number} (counting the header)", count_problem(count, columns)
    if bad is None:
        hint = " Correct the row, or pass --on-bad-records=skip:N to skip up to N such rows."
        raise InputError(f"{path}: {place}: {problem}. The row is {short_repr(row)}.{hint}")
    if b"\n" in row:
        raise InputError(
            f"{path}: {place}: {problem}, and it spans several lines: a quote may be unclosed. "
            f"on_bad_records=skip:{bad.limit} does not skip it, because it may contain an unknown number of rows. The "
            f"row is {short_repr(row)}."
        )
    bad.skip(path, place, f"{problem}: {short_repr(row)}")
