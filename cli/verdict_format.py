"""Formats the verdicts of a check for the terminal: mark, status, item, finding and remedy."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator

import click

from ..executors.preflight.verdicts import FAILED, NOT_REACHED, PASSED, WARNING, Report, Verdict
from ..executors.runtime.logs.redaction import masked_text
from ..executors.runtime.logs.sanitize import printable, printable_lines

_MARKS = {PASSED: ("✓", "green"), FAILED: ("✗", "red"), WARNING: ("!", "yellow"), NOT_REACHED: ("\u2013", None)}
_PLAIN = str.maketrans({"✓": "+", "✗": "x", "\u2013": "-", "→": ">", "…": "."})
_ITEM_WIDTH, _STATUS_WIDTH = 16, 11
_WIDTH = 120  # maximum of characters per line


def format_verdict(verdict: Verdict, verbose: bool = False) -> Iterator[str]:
    """Yields the lines of one verdict.

    Args:
      verdict: The verdict.
      verbose: Whether to include the traceback of a failure.
    """
    mark, colour = _MARKS.get(verdict.status, _MARKS[NOT_REACHED])
    head = f"{mark} {verdict.status:<{_STATUS_WIDTH}} {verdict.item:<{_ITEM_WIDTH}}"
    where = f"{verdict.place}: " if verdict.place and verdict.status == FAILED else ""
    indent, width = " " * (len(head) + 1), _width()
    lines = textwrap.wrap(
        printable_lines(f"{where}{verdict.text}"), width - len(indent), break_long_words=False, break_on_hyphens=False
    ) or [""]
    yield _fit(f"{click.style(head, fg=colour) if colour else head} {lines[0]}".rstrip())
    for line in lines[1:]:
        yield _fit(f"{indent}{line}")
    if verdict.status == FAILED and verdict.place and verdict.place.source:
        yield _fit(f"{indent}    {printable(verdict.place.source)}")
    if verdict.remedy:
        for number, line in enumerate(textwrap.wrap(printable_lines(verdict.remedy), width - len(indent) - 2)):
            yield _fit(f"{indent}{'→ ' if number == 0 else '  '}{line}")
    if verbose and verdict.traceback:
        yield from (_fit(line) for line in printable_lines(masked_text(verdict.traceback.rstrip())).split("\n"))


def format_summary(report: Report) -> str:
    """Returns the summary line: the overall result, and the duration in seconds."""
    seconds = f"{report.seconds:.0f} s"
    if (first := report.first_failure) is not None:
        others = len(report.failures) - 1
        more = f", and {others} more" if others else ""
        hint = " Use `generic-trainer -v check` to show the traceback." if first.traceback else ""
        return f"The run would fail at {first.item}{more}. Checked in {seconds}.{hint}"
    if report.not_reached:
        return f"Nothing failed; not reached: {', '.join(report.not_reached)}. Checked in {seconds}."
    return f"The run would succeed. Checked in {seconds}."


def _width() -> int:
    is_terminal = getattr(sys.stdout, "isatty", bool)()
    return min(_WIDTH, shutil.get_terminal_size().columns) if is_terminal else _WIDTH


def _fit(line: str) -> str:
    """Returns a line with characters that standard output cannot encode replaced."""
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return line.translate(_PLAIN).encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding)
    return line
