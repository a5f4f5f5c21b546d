"""Columns and rows of tables in errors."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from ...errors import InputError, did_you_mean
from ..bad_records import is_skipping
from ..message_text import join_names, short_repr


def require_columns(path: str, names: Sequence[str], there: Sequence[str]) -> None:
    """Checks that a file has each of the columns exactly once.

    Args:
      path: The file's path, for the message.
      names: The required columns.
      there: The columns of the file.

    Raises:
      InputError: If a column is missing or occurs several times.
    """
    counts = collections.Counter(there)
    if missing := [name for name in names if not counts[name]]:
        raise InputError(
            f"{path} has no column {join_names(list(map(short_repr, missing)))}; it has {join_names(there)}."
            f"{did_you_mean(missing[0], [name for name in there if name not in names])}"
        )
    if several := [name for name in names if counts[name] > 1]:
        raise InputError(
            f"{path} has {counts[several[0]]} columns named {short_repr(several[0])}; column names must be unique."
        )


def place_of_row(path: str, row: int) -> str:
    """Formats the position of a row, counted from 0, for messages: "a.parquet, row 7"."""
    return f"{path}, {row_place(row)}"


def row_place(row: int) -> str:
    """Formats the number of a row, counted from 0; rows that are skipped in groups are not counted."""
    return f"row {row + 1}{' of those that are read' if is_skipping() else ''}"
