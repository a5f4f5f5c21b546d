"""Formats the error that ends a command: up to 20 lines of details, and a short last line that names the problem.

The details are the sentences for which the last line has no room, or the whole message if its first one is too long.

    for line in error_lines(f"generic-trainer: {error}"):
        print(line, file=sys.stderr)

Secrets are redacted and control characters replaced. What is left out is in the log file of the run, if there is one;
with `-v`, only the last line is shortened.
"""

from __future__ import annotations

import logging
import os
import re
import textwrap
from collections.abc import Iterator, Sequence

from .redaction import masked_text
from .sanitize import printable_lines
from .setup import LOG_FILE, is_verbose

MAX_CHARACTERS = 300
_MAX_LINES = 20
_MAX_TRACEBACK_LINES = 100
_MARKS = re.compile(r"^[\s^~|-]*\^[\s^~-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[^a-z])")
_ENDS = (":", ",", ";", ".", "!", "?")
_MAX_WORD = (160, 80, 50)  # of a last line that is too long: a value, path or name that the message repeats


def error_lines(message: str) -> Iterator[str]:
    """Yields the details, if the message does not fit in one line, and then the problem in one line."""
    text = printable_lines(masked_text(message))
    if len(_joined(text)) <= MAX_CHARACTERS:
        yield _joined(text)
        return
    problem, rest = _split(text)
    shown = rest or text
    details = shown if is_verbose() else _with_short_words(shown, MAX_CHARACTERS)
    if details != shown:
        _keep(text)
    yield from _limited(list(_wrapped(details)), _MAX_LINES, text)
    yield _short_line(problem)


def one_line(message: str) -> str:
    """Returns the message in one line of at most `MAX_CHARACTERS`, the last of `error_lines`."""
    return _short_line(printable_lines(masked_text(message)))


def traceback_lines(text: str) -> Iterator[str]:
    """Yields the lines of a traceback, each shortened; the middle of a long traceback is left out."""
    text = printable_lines(masked_text(text.rstrip()))
    lines = text.split("\n")
    if max(map(len, lines)) > MAX_CHARACTERS and not is_verbose():
        _keep(text)
        lines = [_shortened(line) for line in lines]
    yield from _limited(lines, _MAX_TRACEBACK_LINES, text)


def _short_line(text: str) -> str:
    line = _joined(text)
    if len(line) <= MAX_CHARACTERS:
        return line
    shorter = [_with_short_words(line, limit) for limit in _MAX_WORD]
    return _shortened(next((text for text in shorter if len(text) <= MAX_CHARACTERS), shorter[-1]))


def _split(text: str) -> tuple[str, str]:
    """Splits a message of one line after the last sentence that fits in a line; ("message", "") if none does."""
    ends = [match.start() for match in _SENTENCE_END.finditer(text, 0, MAX_CHARACTERS + 1)] if "\n" not in text else []
    return (text[: ends[-1]], text[ends[-1] :].strip()) if ends else (text, "")


def _joined(text: str) -> str:
    """Joins the lines of a message without those that have only marks, such as the "^" below an error's column."""
    lines = [_MARKS.sub("", line).strip() for line in text.split("\n")]
    parts = [line for line in lines if any(map(str.isalnum, line))] or ["no message"]
    joined = parts[0]
    for part in parts[1:]:
        joined += f"{'' if joined.endswith(_ENDS) or part.startswith('(') else ';'} {part}"
    return joined


def _wrapped(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield from textwrap.wrap(line, MAX_CHARACTERS, replace_whitespace=False, break_on_hyphens=False) or [""]


def _limited(lines: Sequence[str], limit: int, text: str) -> Iterator[str]:
    """Yields at most `limit` lines: the first and last ones, and one with the number of the others."""
    if len(lines) <= limit or is_verbose():
        yield from lines
        return
    _keep(text)
    last = limit // 2
    first = limit - last - 1
    yield from lines[:first]
    yield f"… ({len(lines) - first - last:,} lines left out; -v shows all) …"
    yield from lines[-last:]


def _shortened(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Returns a text without its middle: the start, which has the problem, and an end, which mostly has the remedy."""
    if len(text) <= limit:
        return text
    mark = f" … ({len(text):,} characters) … "
    end = (limit - len(mark)) * 2 // 5
    return f"{text[: limit - len(mark) - end]}{mark}{text[-end:]}"


def _with_short_words(text: str, limit: int) -> str:
    return re.sub(rf"\S{{{limit + 1},}}", lambda word: _shortened(word[0], limit), text)


def _keep(text: str) -> None:
    """Writes a text to the log file only; not if the folder of the log was removed, because nothing had started."""
    if os.path.isdir(os.path.dirname(os.environ.get(LOG_FILE, ""))):
        logging.getLogger().error("%s", text, extra={"kept_only": True})
