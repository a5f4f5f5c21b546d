"""Delimits the value after a name: where a secret in a text starts and ends.

Every value is searched forward from its start for the first thing that ends it. An unclosed string or bracket ends with
its block: before the next line that is not indented deeper than the name.
"""

from __future__ import annotations

import re

Span = tuple[int, int]

_OPENING = re.compile(r"(?P<kind>[bruf]{0,2})(?P<escapes>\\{0,15})(?P<quote>\"\"\"|'''|[\"'`])", re.I)
_BRACKET = re.compile(r"[\w.]{0,80}(?=[\[({])")
_ITEM = r"[\w.-]{1,40}\s?"
# Where values without quotes or brackets end.
_ENDS = {
    # A delimiter is part of a word unless it is followed by another item or by the end of the text.
    "word": rf"[\s\x00]|[\"'`,;&(){{}}\[\]<>\\](?=[\s\"'`)\]}},;&<>:\x00]|\Z|{_ITEM}[=:]|--?[a-z])|\\(?=[nrt\\])",
    "parameter": r"[&\s\"'`#<>\\]",
    "line": r"\n|\\[nr]",
    # A line has another item if it has the same separator again.
    ":": rf"\n|[ \t]#|[\s,;]{_ITEM}:\s|\\[nr]",
    "=": rf"\n|[ \t]#|[\s,;&]{_ITEM}=|\\[nr]",
}
# `name=value` pairs as in Digest, AWS4-HMAC-SHA256 and cookies.
_PAIR = r"[\w.-]{1,80}=(?:\\{0,15}\"[^\"\n]*\"?|[^\s,;\"'\\]*)"
_PAIRS = re.compile(rf"(?:{_PAIR}|\*{{3}})(?:[,;][ \t]*{_PAIR})*")
_BLOCK = re.compile(r"(?:[|>][-+\d]{0,2})?[ \t]*(?:#[^\n]{0,200})?\r?\n")
_MAX_MARGIN = 400  # characters before a name that are examined; in a longer line, a name is not the first


def literal(text: str, start: int) -> Span | None:
    """Returns the content of a complete, constant string literal of source code; None for an f-string with fields."""
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    end = _string_end(text, opening, -1)
    is_template = "f" in opening["kind"].lower() and "{" in text[opening.end() : end]
    return (opening.end(), end) if text.startswith(opening["quote"], end) and not is_template else None


def assigned(text: str, name_start: int, start: int, separator: str) -> Span:
    """Returns the value after a name: a string, a bracketed or an indented list, the rest of the line, or a word.

    Args:
      text: The text.
      name_start: Index of the name.
      start: Index of the value.
      separator: "=", ":", or "" if the name is before a blank or comma.
    """
    indent, is_first = _margin(text, name_start)
    if opening := _OPENING.match(text, start):
        return opening.end(), _string_end(text, opening, indent)
    if bracket := _BRACKET.match(text, start):
        return start, _bracket_end(text, bracket.end(), indent)
    if is_first and separator == ":" and (head := _BLOCK.match(text, start)):
        return _stripped(text, head.end(), _block_end(text, head.end() - 1, indent))
    if not (is_first and separator) or text[name_start - 1 : name_start] in ("'", '"'):
        return plain(text, start, "word")
    end = _end(_ENDS[separator], text, start)
    is_continued = separator == ":" and text.startswith("\n", end)
    return _stripped(text, start, _block_end(text, end, indent) if is_continued else end)


def plain(text: str, start: int, kind: str) -> Span:
    """Returns a value without quotes: a "word", the "parameter" of a URL, or the rest of a "line" or of its item."""
    return _stripped(text, start, _end(_ENDS[kind], text, start))


def header(text: str, name_start: int, start: int, has_scheme: bool) -> Span:
    """Returns the credentials in a header: pairs, the word after a scheme, or the rest of the line or string."""
    if pairs := _PAIRS.match(text, start):
        return pairs.span()
    quote = text[name_start - 1 : name_start]
    if quote in ("'", '"') and not has_scheme:
        return start, _end(rf"{quote}|\n", text, start)
    return plain(text, start, "word" if has_scheme else "line")


def _end(pattern: str, text: str, start: int) -> int:
    match = re.compile(pattern).search(text, start)
    return match.start() if match else len(text)


def _stripped(text: str, start: int, end: int) -> Span:
    value = text[start:end]
    return start + len(value) - len(value.lstrip()), start + len(value.rstrip())


def _margin(text: str, name_start: int) -> tuple[int, bool]:
    """Returns the indentation of a name's line, with a list's dashes, and whether the line starts with the name."""
    limit = max(0, name_start - _MAX_MARGIN)
    first = text.rfind("\n", limit, name_start) + 1
    if not first and limit:
        return 0, False
    before = text[first:name_start]
    rest = before.lstrip(" \t-")
    return len(before) - len(rest), rest in ("", "'", '"', "export ") and not before.endswith("-")


def _dedent(indent: int, not_before: str = r"\s") -> str:
    """Returns the pattern of the end of a block: before a line that is not deeper; of -1, the end of the line."""
    return rf"\n(?=[ \t]{{0,{indent}}}(?!{not_before})\S)" if indent >= 0 else r"\n"


def _string_end(text: str, opening: re.Match[str], indent: int) -> int:
    """Returns the index of a string's closing quote; doubled quotes, as in YAML, SQL and CSV, are in the string."""
    escapes, block_end = len(opening["escapes"]), "" if len(opening["quote"]) > 1 else "|" + _dedent(indent)
    # At a level of nested encodings, a closing quote is behind as many backslashes as the opening one.
    closer = re.compile(rf"(?<!\\)(?:\\{{{2 * escapes + 2}}})*(?P<quote>\\{{{escapes}}}{opening['quote']}){block_end}")
    position = opening.end()
    while close := closer.search(text, position):
        quote = close["quote"]
        if quote is None:
            return close.start()
        if len(quote) > 1 or close.start("quote") == opening.end() or not text.startswith(quote, close.end()):
            return close.start("quote")
        position = close.end() + 1
    return len(text)


def _bracket_end(text: str, start: int, indent: int) -> int:
    """Returns the index after the bracket that closes the one at `start`."""
    block_end = _dedent(indent, r"[\"'\[\](){}]")
    nested = re.compile(rf"(?P<open>[\[({{])|(?P<close>[\])}}])|(?P<string>\\{{0,15}}[\"'])|{block_end}")
    depth, position = 0, start
    while match := nested.search(text, position):
        position = match.end()
        if match[0] == "\n":
            return match.start()
        if match["string"] and (opening := _OPENING.match(text, match.start())):
            end = _string_end(text, opening, indent)
            closing = opening["escapes"] + opening["quote"]
            position = end + len(closing) if text.startswith(closing, end) else position
        depth += bool(match["open"]) - bool(match["close"])
        if depth == 0:
            return position
    return len(text)


def _block_end(text: str, start: int, indent: int) -> int:
    """Returns the end of the lines after `start`, a line's end, that are indented deeper, or are items of a list."""
    in_list = text.startswith(f"{' ' * indent}- ", start + 1)
    return _end(_dedent(indent, "- " if in_list else r"\s"), text, start)
