r"""Parses complete rows of CSV text with Arrow.

Usage:

    parsed_rows(b"1,a\n2,b\n", 2, {0: pa.int64()}, ",")     # a table with the column "0": 1, 2
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.csv


def parsed_rows(text: bytes, columns: int, types: Mapping[int, pa.DataType], sep: str) -> pa.Table:
    """Parses rows, which may have line breaks in quotes.

    Args:
      text: Complete rows, each with `columns` values: Arrow before version 20 overruns its buffer for others.
      columns: Number of columns.
      types: {index of a column to convert: its type}. Empty values become null, except in columns of strings.
      sep: The separator, one ASCII character.

    Returns:
      The columns of `types` in their order, named by their indices.

    Raises:
      ArrowInvalid: If a value cannot be converted.
    """
    names = list(map(str, range(columns)))
    kinds = {names[index]: kind for index, kind in types.items()}
    if text.startswith(codecs.BOM_UTF8):  # part of the first value; Arrow strips one mark at the start of its input
        text = codecs.BOM_UTF8 + text
    return pyarrow.csv.read_csv(
        pa.BufferReader(text),
        pyarrow.csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
        pyarrow.csv.ParseOptions(delimiter=sep, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            include_columns=list(kinds), column_types=kinds, null_values=[""], strings_can_be_null=False
        ),
    )
