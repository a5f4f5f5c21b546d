"""Prints tables: in a terminal with colors and a wrapped last column, elsewhere as plain text without wrapping.

print_table(["run", "seconds"], [["4f0c1a2b", 12.3]], right=["seconds"])
print_json([run.to_json() for run in runs])
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import click

from ..executors.runtime.logs.sanitize import printable

_UNLIMITED_WIDTH = 1_000_000  # characters: no line is wrapped in a file or a pipe
_MIN_LAST_COLUMN = 24  # minimum width of the last column, which is wrapped; wider lines wrap in the terminal
_LABEL_WIDTH = 14
_STYLES = {
    **dict.fromkeys(("succeeded", "better", "yes"), "green"),
    **dict.fromkeys(("failed", "worse", "no", "interrupted"), "red"),
    **dict.fromkeys(("running",), "cyan"),
    **dict.fromkeys(("cached",), "dim"),
}


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], right: Collection[str] = ()) -> None:
    """Prints rows with headings to standard output; columns that are empty in all rows are left out.

    Args:
      heads: The headings, one for each cell of a row.
      rows: The cells: texts, of which words such as "failed" are colored in a terminal; numbers; None for an empty one.
      right: The headings of columns to align at the right, as numbers.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    cells = [[_text(cell) for cell in row] for row in rows]
    used = [number for number in range(len(heads)) if any(row[number] for row in cells)]
    is_terminal = sys.stdout.isatty()  # Rich's own answer follows FORCE_COLOR, which says nothing of the width
    head = box.SIMPLE_HEAD if is_terminal else None
    table = Table(box=head, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for number in used:
        title, is_last = heads[number], number == used[-1]
        justify: Literal["left", "right"] = "right" if title in right else "left"
        table.add_column(Text(printable(title)), justify=justify, no_wrap=not is_last, overflow="fold")
    for row in cells:
        table.add_row(*(Text(printable(row[number]), style=_STYLES.get(row[number], "")) for number in used))
    widths = [max(len(row[number]) for row in (heads, *cells)) for number in used]
    least = sum(widths[:-1]) + 3 * len(widths) + _MIN_LAST_COLUMN
    console.width = max(console.width, least) if is_terminal else _UNLIMITED_WIDTH
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_section(heads: Sequence[str], rows: Sequence[Sequence[object]], right: Collection[str] = ()) -> None:
    """Prints a table below an empty line; nothing without rows."""
    if rows:
        click.echo()
        print_table(heads, rows, right)


def print_line(text: str) -> None:
    """Prints a text without its control characters."""
    click.echo(printable(text))


def print_pairs(pairs: Mapping[str, str | None]) -> None:
    """Prints one line for each label with a text; further lines of a text are aligned below its first line."""
    for label, text in pairs.items():
        if text:
            first, *later = text.splitlines()
            print_line(f"{label + ': ':<{_LABEL_WIDTH}}{first}")
            for line in later:
                print_line(f"{'':{_LABEL_WIDTH}}{line}")


def print_json(value: object) -> None:
    """Prints a value as indented JSON; NaN and infinite numbers become null."""
    click.echo(json.dumps(_finite(value), indent=2, default=str))


def format_number(value: float) -> str:
    """Formats a metric with five significant digits."""
    return f"{value:.5g}"


def format_time(started: str) -> str:
    """Formats an ISO 8601 time as "2026-11-22 18:40:13", without the time zone (all times are UTC)."""
    return started[:19].replace("T", " ")


def _text(cell: object) -> str:
    if isinstance(cell, (int, float)):
        return format_number(cell)
    return "" if cell is None else str(cell)


def _finite(value: object) -> object:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
