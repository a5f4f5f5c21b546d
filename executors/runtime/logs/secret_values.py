"""Delimits the value after a name: where a secret in a text starts and ends.

Each function searches forward for the first end of a value, so that its time is proportional to the value's length.
"""

from __future__ import annotations

import functools
import re

Span = tuple[int, int]

_OPENING = re.compile(r"(?P<kind>[bruf]{0,2})(?P<escapes>\\{0,15})(?P<quote>\"\"\"|'''|[\"'`])", re.I)
_ITEM = r"[\w.-]{1,40}\s?"
# A delimiter is part of the secret unless it is followed by another item or by the end of the text.
_WORD_END = re.compile(
    rf"[\s\x00]|[\"'`,;&(){{}}\[\]<>\\](?=[\s\"'`)\]}},;&<>:\x00]|\Z|{_ITEM}[=:]|--?[a-z])|\\(?=[nrt\\])"
)
_PARAMETER_END = re.compile(r"[&\s\"'`#<>\\]")
_LINE_ENDS = {  # a line has another item if it has the same separator again
    ":": re.compile(rf"\n|[ \t]#|[\s,;]{_ITEM}:\s|\\[nr]"),
    "=": re.compile(rf"\n|[ \t]#|[\s,;&]{_ITEM}=|\\[nr]"),
    "": re.compile(r"\n|\\[nr]"),
}
_LINE_START = re.compile(r"(?P<indent>[ \t]*(?:-[ \t]+)*)(?:export[ \t]+)?[\"']?\Z")
_MAX_INDENT = 200
_CONTEXT = 400  # characters before a value that are examined
_BLOCK = re.compile(r"(?:[|>][-+\d]{0,2})?[ \t]*(?:#[^\n]{0,200})?\r?\n")
_BRACKETS = re.compile(r"[\w.]{0,80}(?P<bracket>[\[({])")
_NEXT_LINE = re.compile(r"[ \t]*\r?\n[ \t]*(?=[\"'\[{])")
_NESTED = re.compile(r"[\[({]|(?P<close>[\])}])|(?P<string>\\{0,15}[\"'])")


def literal(text: str, start: int) -> Span | None:
    """Returns the content of a complete, constant string literal of source code; None for an f-string with fields."""
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    end = _closing(text, opening)
    is_template = "f" in opening["kind"].lower() and end is not None and "{" in text[opening.end() : end]
    return None if end is None or is_template else (opening.end(), end)


def assigned(text: str, name_start: int, start: int, separator: str) -> Span:
    """Returns the value after a name: a string, a bracketed or an indented list, the rest of the line, or a word.

    Args:
      text: The text.
      name_start: Index of the name.
      start: Index of the value.
      separator: "=", ":", or "" if the name is before a blank or comma.
    """
    indent, in_quotes = _indent(text, name_start), text[name_start - 1 : name_start] in ("'", '"')
    if in_quotes and (next_line := _NEXT_LINE.match(text, start)):
        start = next_line.end()
    if (opening := _OPENING.match(text, start)) is not None:
        return opening.end(), _quoted_end(text, opening, indent)
    if brackets := _BRACKETS.match(text, start):
        return start, _bracketed_end(text, brackets.start("bracket"))
    if indent is None or in_quotes:
        return word(text, start)
    if separator == ":" and (head := _BLOCK.match(text, start)):
        return _stripped(text, head.end(), _block_end(text, head.end() - 1, indent))
    _, end = line(text, start, separator)
    if separator == ":" and text[end : end + 1] == "\n":
        end = _block_end(text, end, indent)
    return _stripped(text, start, end)


def word(text: str, start: int) -> Span:
    """Returns a word without quotes."""
    return start, _end(_WORD_END, text, start)


def parameter(text: str, start: int) -> Span:
    """Returns a parameter of a URL."""
    return start, _end(_PARAMETER_END, text, start)


def line(text: str, start: int, separator: str = "") -> Span:
    """Returns the rest of a line, up to another item with the same separator."""
    return _stripped(text, start, _end(_LINE_ENDS[separator], text, start))


def header(text: str, name_start: int, start: int) -> Span:
    """Returns a header's value: the rest of the line, or of the string that the header is in."""
    quote = text[name_start - 1 : name_start]
    close = _closer(0, quote).search(text, start) if quote in ("'", '"') else None
    return (start, close.end() - 1) if close and close[0] != "\n" else line(text, start)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.search(text, start)
    return match.start() if match else len(text)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _stripped(text: str, start: int, end: int) -> Span:
    value = text[start:end]
    return start + len(value) - len(value.lstrip()), start + len(value.rstrip())


@functools.lru_cache(maxsize=256)
def _closer(escapes: int, quote: str, of_block: bool = False) -> re.Pattern[str]:
    """Returns the pattern of a closing quote, or of the line's end if the string cannot go on in the next line.

    At a level of nested encodings, a closing quote is behind as many backslashes as the opening one.
    """
    line_end = r"|\n" if len(quote) == 1 and not of_block else ""
    return re.compile(rf"(?<!\\)(?:\\{{{2 * escapes + 2}}})*\\{{{escapes}}}{quote}{line_end}")


def _closing(text: str, opening: re.Match[str], block_end: int = 0) -> int | None:
    """Returns the index of a string's closing quote; doubled quotes, as in YAML, SQL and CSV, are in the string."""
    escapes, quote = len(opening["escapes"]), opening["quote"]
    closer, position = _closer(escapes, quote, block_end > 0), opening.end()
    while (close := closer.search(text, position, block_end or len(text))) and close[0] != "\n":
        is_doubled = not escapes and len(quote) == 1 and close.end() - 1 > opening.end()
        if not (is_doubled and text.startswith(quote, close.end())):
            return close.end() - escapes - len(quote)
        position = close.end() + 1
    return None


def _quoted_end(text: str, opening: re.Match[str], indent: int | None) -> int:
    end = _closing(text, opening)
    if end is not None or len(opening["quote"]) > 1:
        return len(text) if end is None else end  # truncated
    limit = _line_end(text, opening.end())
    if indent is not None:  # YAML continues a string in indented lines
        end = _closing(text, opening, _block_end(text, limit, indent))
    return limit if end is None else end


def _bracketed_end(text: str, start: int) -> int:
    """Returns the index after the bracket that closes the one at `start`; of an unclosed one, the end of its lines."""
    limit = _end(_after_brackets(_line_indent(text, start)), text, start)
    depth, position = 0, start
    while match := _NESTED.search(text, position, limit):
        position = match.end()
        if match["string"]:
            opening = _OPENING.match(text, match.start())
            end = _closing(text, opening) if opening else None
            position = position if end is None else end + len(match["string"])
            continue
        depth += -1 if match["close"] else 1
        if depth == 0:
            return position
    return limit


def _line_indent(text: str, index: int) -> int:
    """Returns the number of blanks at the start of a line, up to the maximum."""
    first = max(text.rfind("\n", max(0, index - _CONTEXT), index) + 1, index - _CONTEXT)
    before = text[first:index]
    return min(len(before) - len(before.lstrip()), _MAX_INDENT)


@functools.lru_cache(maxsize=_MAX_INDENT + 1)
def _after_brackets(indent: int) -> re.Pattern[str]:
    """Returns the pattern of the end of a bracket's lines: the next one is not deeper and has no quote or bracket."""
    return re.compile(rf"\n(?=[ \t]{{0,{indent}}}[^\s\"'\[\](){{}}])")


def _indent(text: str, name_start: int) -> int | None:
    """Returns the column of a name that begins its line, or that only a dash or quote precedes; else None."""
    first = text.rfind("\n", max(0, name_start - _MAX_INDENT), name_start) + 1
    if not first and name_start >= _MAX_INDENT:
        return None
    match = _LINE_START.match(text[first:name_start])
    return None if match is None else len(match["indent"])


@functools.lru_cache(maxsize=2 * _MAX_INDENT)
def _dedent(indent: int, in_list: bool) -> re.Pattern[str]:
    not_an_item = r"(?!- )" if in_list else ""
    return re.compile(rf"\n(?=[ \t]{{0,{indent}}}{not_an_item}\S)")


def _block_end(text: str, start: int, indent: int) -> int:
    """Returns the end of the lines after `start`, a line's end, that are indented deeper, or are items of a list."""
    in_list = text.startswith(f"{' ' * indent}- ", start + 1)
    return _end(_dedent(indent, in_list), text, start)
