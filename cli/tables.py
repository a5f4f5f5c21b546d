"""Prints tables: in a terminal with colors and a wrapped last column, elsewhere as plain text without wrapping.

print_table([Column("run"), Column("seconds", right=True)], [["4f0c1a2b", "12.3"]])
print_json([run.to_json() for run in runs])
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
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


@dataclasses.dataclass(frozen=True)
class Column:
    """A column's heading, and whether it is right-aligned, as for numbers."""

    name: str
    right: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows with headings to standard output; columns that are empty in all rows are left out.

    Args:
      columns: The columns, one for each cell of a row.
      rows: The cells' texts; words such as "failed" are colored in a terminal.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    used = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    head = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(box=head, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for number in used:
        title, is_last = Text(printable(columns[number].name)), number == used[-1]
        justify: Literal["left", "right"] = "right" if columns[number].right else "left"
        table.add_column(title, justify=justify, no_wrap=not is_last, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(row[number]), style=_STYLES.get(row[number], "")) for number in used))
    widths = [max(len(text) for text in (columns[number].name, *(row[number] for row in rows))) for number in used]
    least = sum(widths[:-1]) + 3 * len(widths) + _MIN_LAST_COLUMN
    console.width = max(console.width, least) if console.is_terminal else _UNLIMITED_WIDTH
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_pairs(pairs: Mapping[str, str | None]) -> None:
    """Prints one line for each label with a text; further lines of a text are aligned below its first line."""
    for label, text in pairs.items():
        if text:
            first, *later = text.splitlines()
            click.echo(f"{label + ': ':<{_LABEL_WIDTH}}{printable(first)}")
            for line in later:
                click.echo(f"{'':{_LABEL_WIDTH}}{printable(line)}")


def print_json(value: object) -> None:
    """Prints a value as indented JSON; NaN and infinite numbers become null."""
    click.echo(json.dumps(_finite(value), indent=2, default=str))


def format_number(value: float) -> str:
    """Formats a metric with five significant digits."""
    return f"{value:.5g}"


def format_time(started: str) -> str:
    """Formats an ISO 8601 time as "2026-11-22 18:40:13", without the time zone (all times are UTC)."""
    return started[:19].replace("T", " ")


def _finite(value: object) -> object:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
