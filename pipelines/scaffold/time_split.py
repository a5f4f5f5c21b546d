"""Splits a table by time: the newest rows are for evaluation and testing, as a model in use predicts the future."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...executors.errors import InputError, did_you_mean
from ...executors.inputs.csv.lines import csv_lines
from ...executors.inputs.csv.row_reader import csv_rows
from .planning import Plan
from .roles import DATE, MILLISECONDS, SECONDS

FOLDER = "data"
_ENDS = {"train": 0.6, "eval": 0.8, "test": 1.0}  # shares of the rows up to the end of each split


def split_by_time(plan: Plan, column: str, folder: str) -> dict[str, Path]:
    """Writes the rows of CSV files, sorted by a column with times, to CSV files in train/, eval/ and test/.

    Rows with the same time are in the same split. Rows without a time are in train.

    Args:
      plan: The plan of the module, with the data.
      column: The column.
      folder: Folder of the files.

    Returns:
      {path in the project: file}.

    Raises:
      InputError: If there is no such column, its values are no times, the data are no CSV files, or a split is empty.
    """
    roles = {role.column.name: role for role in plan.roles}
    times = [name for name, role in roles.items() if role.kind in (DATE, SECONDS, MILLISECONDS)]
    if not plan.raw.is_csv:
        raise InputError("--split-by-time needs CSV or Parquet files. Write TFRecord files to train/, eval/ and test/.")
    if column not in times:
        known = f"columns with times: {', '.join(times)}" if times else "no column has times"
        raise InputError(
            f"--split-by-time {column}: this is no column with times; {known}.{did_you_mean(column, times)}"
        )
    names, rows = _rows([file.path for file in plan.raw.files])
    place = names.index(column)
    is_number = roles[column].kind != DATE
    rows.sort(key=lambda row: (float(row[place] or "-inf") if is_number else 0.0, "" if is_number else row[place]))
    ends = _ends([row[place] for row in rows])
    written, begin = {}, 0
    for name, end in ends.items():
        if begin == end:
            raise InputError(f"--split-by-time {column}: too few different times for train, eval and test.")
        path = Path(folder, name, "data.csv")
        os.makedirs(path.parent)
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.writelines(csv_lines([names, *rows[begin:end]]))
        written[f"{FOLDER}/{name}/data.csv"] = path
        begin = end
    return written


def _rows(paths: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    found: list[list[str]] = []
    names: list[str] = []
    for path in paths:
        with csv_rows(path) as rows:
            names = list(rows.names)
            found += [list(row) for row in rows]
    return names, found


def _ends(times: Sequence[str]) -> dict[str, int]:
    """Returns the number of rows up to the end of each split, moved to where the time changes."""
    ends = {}
    for name, share in _ENDS.items():
        end = round(share * len(times))
        while 0 < end < len(times) and times[end] == times[end - 1]:
            end += 1
        ends[name] = end
    return ends
