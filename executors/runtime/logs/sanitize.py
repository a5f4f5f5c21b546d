"""Removes terminal control sequences from text that contains untrusted names of data, archives or stores."""

from __future__ import annotations

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Returns a line with control characters, including line breaks, replaced."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _REPLACEMENT for one in text)


def printable_lines(text: str) -> str:
    """Returns a text of several lines with control characters replaced; tabs become blanks."""
    return "\n".join(printable(line.removesuffix("\r").expandtabs(4)) for line in text.split("\n"))
