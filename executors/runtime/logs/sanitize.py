"""Text for a terminal without what would steer it: names come from data, from archives, from other people's stores."""

from __future__ import annotations

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Returns a line without control characters, line ends among them."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _REPLACEMENT for one in text)


def printable_lines(text: str) -> str:
    """Returns a text of several lines without control characters; tabs become blanks."""
    return "\n".join(printable(line.removesuffix("\r").expandtabs(4)) for line in text.split("\n"))
