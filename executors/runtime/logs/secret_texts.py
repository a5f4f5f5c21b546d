"""Finds secrets in texts by the name before them, by their position in a URL or header, and by their issuer's prefix.

    [text[secret.start : secret.end] for secret in find_secrets("job --token a1b2 https://me:tulip@host/")]

One scan from left to right: a regular expression finds the next token, URL, or name before a value; the value is
delimited, and the scan continues behind it. Texts may be malformed, truncated and of any size: apart from a bounded
number of characters, nothing is read twice, so that the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from . import secret_values
from .secret_names import PUBLIC, SCHEMES, any_of, is_secret_value, sensitivity
from .secret_prefixes import PATTERN
from .secret_values import Span


class Secret(NamedTuple):
    """A secret in a text.

    Attributes:
      start: Index of its first character.
      end: Index after its last character.
      name: Its name in the text; "" if it was recognized by its position or prefix.
      description: A description that does not contain the secret.
    """

    start: int
    end: int
    name: str
    description: str


_WORD = r"[^\W\d][\w.-]*"
_QUOTE = r"\\{0,15}[\"'`]"
_SEPARATOR = r"=>|:=|=(?!=)|:(?!:)"
_ANNOTATION = r"(?:[\w.]{1,40}\[)?(?:str|bytes|SecretStr)\]?(?:[ ]\|[ ]None)?[ ]?=[ ]?"
# Base64 of a text with a colon, which has three encodings: `Basic bWU6dHVsaXA=`, but not "Basic training".
_BASE64 = r"(?:[A-Za-z\d+/]{4})*(?:O[g-v]|[A-Za-z\d+/](?:[DTjz][o-r]|[A-Za-z\d+/][AEIMQUYcgkosw048]6))"
_NEXT = re.compile(
    rf"(?P<token>{PATTERN})"
    # The content of an XML element; of an unclosed one, the rest of the line.
    rf"|<(?:[\w-]{{1,40}}:)?(?P<element>{_WORD})(?=(?:\s[^<>]{{0,200}})?>"
    r"(?:\s*<!\[CDATA\[)?(?P<content>[^<]*(?=</)|[^<\s][^<\n]*))"
    r"|(?<![\w.-])(?:"  # a name's start; once for all, since most positions fail here
    # Lines of source in a traceback.
    r"File \"[^\"\n]{1,1000}\", line \d+, in [^\n]{1,200}\n(?=(?P<source>(?:[ ]{4}[^\n]*\n?)+))"
    # {"name": "TOKEN", "value": …} in JSON, YAML and XML.
    rf"|(?i:name|key|header|field)(?:{_QUOTE})?\s?[=:]\s?(?:{_QUOTE})?(?P<variable>{_WORD})(?:{_QUOTE})?\s{{0,20}},?"
    rf"\s{{0,20}}(?:-\s)?(?:{_QUOTE})?(?i:value)(?:{_QUOTE})?\s?[=:]\s?"
    rf"|(?<![^\n])[ \t]*(?i:env|arg|setenv|setx?)[ \t]+(?P<setting>{_WORD})[ \t]+(?=[^\s=])"
    # A password without a name: -u me:…, login me password …, IDENTIFIED BY '…'.
    r"|(?P<password>(?:-u|--(?:proxy-)?user)(?:[ \t]+|=)[\"']?[^\s:\"']{1,80}:(?!\d+\b)"
    r"|(?i:login\s\S{1,100}\spassword\s|(?:password|identified[ \t]+by)[ \t]+(?=')))"
    # A header's credential without its name.
    rf"|(?P<scheme>(?i:basic)[ \t]+(?={_BASE64})"
    r"|(?i:bearer)[ \t]+(?=\S{20}|\S{8,18}\d)|(?i:digest)[ \t]+(?=username=))"
    # A lookahead and a backreference make the name atomic: no shorter name is tried, which would take quadratic time.
    rf"|(?:(?P<flag>--?)|[.-]*)(?:(?<=\\)[nrt])?(?=(?P<name>{_WORD}))(?P=name)(?:"
    r"(?P<url>:(?:\\?/){2})"
    rf"|(?P<close>{_QUOTE})?\]?[ \t]*(?P<separator>{_SEPARATOR})[ \t]*(?P<annotation>{_ANNOTATION})?"
    r"(?(close)(?:\s{0,40}(?=[\"'\[{]))?)"
    rf"|(?P<comma>{_QUOTE},\s{{0,40}})(?=[bruf]?{_QUOTE})"
    r"|(?P<item>\n[ \t]*-[ \t]+)"
    r"|(?(flag)[ \t]+(?=\S)|(?!))))"
)
_BEFORE_PAIR = re.compile(r"[(\[]\s{0,40}[bruf]?\\{0,15}[\"']\Z")
_AFTER_PAIR = re.compile(rf"{_QUOTE},?\s{{0,40}}[)\]]")
_PREVIOUS_WORD = re.compile(r"([A-Za-z]{2,20})[ ]\Z")
_SCHEME = re.compile(rf"(?i)(?:{SCHEMES}|[\w-]*(?:key|token|sha256|login)|splunk|bot)[ \t]+(?=\S)")
_USER_INFO = re.compile(
    r"(?!\[|[^:/?#@\s]*:\d{1,5}[/?#,])(?P<user>[^:/\s\"'`<>]*)"
    r"(?P<colon>:(?:x-oauth-basic(?=@))?(?P<password>(?:(?!:\\?/\\?/)[^\s\"'`<>])*))?@(?=[\w\[%./-])"
)
_CONTEXT = 130  # characters before a match that are examined
_QUERY_NAME = re.compile(any_of("key sig signature code x-amz-signature x-goog-signature x-amz-credential"), re.I)
_EXAMPLE = re.compile(any_of("password pass passwd pwd pw secret token"), re.I)
_USER = re.compile(any_of("git ssh user username me oauth2 x-token-auth x-access-token token"), re.I)
_PROSE = re.compile(  # words after a flag or keyword: "--token is given twice"
    any_of("""
        is are was has have or and instead needs need must to for with cannot the a an in of from not requires takes
        on at by as if when should may can will option flag value given before after together exclude without twice
    """),
    re.I,
)


def find_secrets(text: str, literals_only: bool = False) -> Iterator[Secret]:
    """Yields the secrets in a text, in order.

    Args:
      text: The text.
      literals_only: For source code: whether a name's value is a secret only if it is a string literal. In other texts,
        this applies to the lines of source in tracebacks.
    """
    position = code_end = 0
    while match := _NEXT.search(text, position):
        code_end = max(code_end, match.end("source"))
        is_code = literals_only or match.start() < code_end
        secret = _code_secret(text, match) if is_code else _secret(text, match)
        position = max(match.end(), secret.end) if secret else match.end()
        if secret and secret.start < secret.end:
            yield secret


def _secret(text: str, match: re.Match[str]) -> Secret | None:
    if match["token"]:
        return Secret(*match.span("token"), "", "a token of a known issuer")
    if match["url"]:
        return _in_user_info(text, match)
    if match["scheme"]:
        return _named(text, secret_values.header(text, match.end(), match.end(), has_scheme=True), "password")
    if match["separator"]:
        return _assigned(text, match)
    if match["name"]:
        return _listed(text, match)
    if match["element"]:
        return _named(text, match.span("content"), match["element"])
    name = match["variable"] or match["setting"] or "password"
    secret = _after(text, match.end(), name, prose=bool(match["setting"]))
    return secret if secret and not _EXAMPLE.fullmatch(text, secret.start, secret.end) else None


def _code_secret(text: str, match: re.Match[str]) -> Secret | None:
    if match["token"] or match["url"] or match["comma"]:
        return _secret(text, match)
    span = secret_values.literal(text, match.end()) if match["separator"] else None
    return None if span is None else _named(text, span, match["name"])


def _named(text: str, span: Span, name: str, prose: bool = False) -> Secret | None:
    value = text[slice(*span)]
    is_secret = is_secret_value(name, value) and not (prose and _PROSE.fullmatch(value))
    return Secret(*span, name, repr(name)) if is_secret else None


def _after(text: str, start: int, name: str, prose: bool = False) -> Secret | None:
    """Returns the string or word at an index."""
    return _named(text, secret_values.assigned(text, start, start, ""), name, prose)


def _assigned(text: str, match: re.Match[str]) -> Secret | None:
    name, start, end = match["name"], match.start("name"), match.end()
    if text[start - 1 : start] in ("?", "&") and text[end : end + 1] not in ("'", '"'):
        return _parameter(text, end, name)
    if name.lower() in ("key", "keys", "pass"):  # "API key: …", "first pass: …"
        previous = _PREVIOUS_WORD.search(text[max(0, start - _CONTEXT) : start])
        name = f"{previous[1]} {name}" if previous else name
    if sensitivity(name) == PUBLIC:
        return None
    if name.lower().endswith(("authorization", "cookie")) and not text.startswith(("'", '"', "\\"), end):
        scheme = _SCHEME.match(text, end)
        return _named(text, secret_values.header(text, start, scheme.end() if scheme else end, bool(scheme)), name)
    return _named(text, secret_values.assigned(text, start, end, ":" if match["separator"] == ":" else "="), name)


def _parameter(text: str, start: int, name: str) -> Secret | None:
    span = secret_values.plain(text, start, "parameter")
    if not text[slice(*span)].isdigit() and _QUERY_NAME.fullmatch(name):
        name = "secret"
    secret = _named(text, span, name)
    return secret and secret._replace(description=f"the parameter {name!r} of a URL")


def _listed(text: str, match: re.Match[str]) -> Secret | None:
    """Returns the value after a flag, or the second element of a pair: `--token x`, ("token", "x")."""
    name, end, before = match["name"], match.end(), text[max(0, match.start() - _CONTEXT) : match.start()]
    if sensitivity(name) == PUBLIC:
        return None
    if match["item"]:
        is_pair = match["flag"] or before.endswith("- - ")
        return _named(text, secret_values.plain(text, end, "line"), name) if is_pair else None
    if match["flag"]:
        return _after(text, end, name, prose=True)
    value = _after(text, end, name) if _BEFORE_PAIR.search(before) else None
    return value if value and _AFTER_PAIR.match(text, value.end) else None


def _in_user_info(text: str, match: re.Match[str]) -> Secret | None:
    info = _USER_INFO.match(text, match.end())
    if info is None:
        return None
    if password := info["password"]:
        is_secret = not _EXAMPLE.fullmatch(password) and is_secret_value("password", password)
        start, end = info.span("password")
        return Secret(start if is_secret else end, end, "", "a password in a URL")  # empty, to resume behind it
    is_token = not _USER.fullmatch(info["user"]) and (info["colon"] or match["name"].lower() in ("http", "https"))
    return Secret(*info.span("user"), "", "a token in a URL") if is_token else None
