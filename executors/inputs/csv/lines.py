"""Formats rows as lines of CSV with line feeds as line ends.

file.writelines(csv_lines([["x", "y"], [1, "a, b"]]))
"""

from __future__ import annotations

import csv
import types
from collections.abc import Iterable, Iterator

_LINE_END = csv.excel.lineterminator


def csv_lines(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yields a line for each row."""
    # Before Python 3.13, csv quotes only those line breaks of a cell that are in its own line end. So that is \r\n here
    # and replaced: with another line end, a cell with \r would become two rows.
    lines: list[str] = []
    writer = csv.writer(types.SimpleNamespace(write=lines.append))
    for row in rows:
        writer.writerow(row)
        yield f"{lines.pop().removesuffix(_LINE_END)}\n"
