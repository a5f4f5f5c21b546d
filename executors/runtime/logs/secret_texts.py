"""Finds secrets in texts by the name before them, by their position in a URL or header, and by their issuer's prefix.

    [text[secret.start : secret.end] for secret in find_secrets("job --token a1b2 https://me:tulip@host/")]

One scan from left to right: a regular expression finds the next name with a separator, URL, flag, header or token; the
value after it is delimited, and the scan continues behind it. Texts may be malformed, truncated and of any size: apart
from a bounded number of characters, nothing is read twice, so that the time is linear.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from . import secret_values
from .secret_names import PUBLIC, SCHEMES, is_secret_value, sensitivity
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
_NEXT = re.compile(
    rf"(?P<token>{PATTERN})"
    # A lookahead and a backreference make the name atomic: no shorter name is tried, which would take quadratic time.
    rf"|(?<![\w.-])(?:(?P<dashes>--?)|[.-]*)(?:(?<=\\)[nrt])?(?=(?P<name>{_WORD}))(?P=name)(?:"
    r"(?P<url>:(?:\\?/){2})"
    rf"|(?:{_QUOTE})?\]?[ \t]*(?P<separator>=>|:=|=(?!=)|:(?!:))[ \t]*"
    rf"|(?P<comma>{_QUOTE},\s{{0,40}})(?=[bruf]?{_QUOTE})"
    r"|(?P<item>\n[ \t]*-[ \t]+)"
    r"|(?(dashes)(?P<blank>[ \t]+)(?=\S)|(?!)))"
    rf"|<(?P<element>{_WORD})(?=[\s>])"
    r"|(?<![\w.-])(?i:(?P<scheme>bearer|basic|digest)|(?P<keyword>password|identified[ \t]+by)"
    rf"|(?:env|arg|setenv|set)[ \t]+(?P<variable>{_WORD}))[ \t]+(?=\S)"
)
_NAME_KEYS = ("name", "key", "header", "field")
_NAME_VALUE = re.compile(  # {"name": "TOKEN", "value": …}
    rf"(?:{_QUOTE})?(?P<name>{_WORD})(?:{_QUOTE})?\s{{0,20}},?\s{{0,20}}(?:-\s)?(?:{_QUOTE})?value(?:{_QUOTE})?\s?[:=]\s?",
    re.I,
)
_ANNOTATION = re.compile(r"(?:[\w.]{1,40}\[)?(?:str|bytes|SecretStr)\]?(?:[ ]\|[ ]None)?[ ]?=[ ]?")
_BEFORE_PAIR = re.compile(r"[(\[]\s{0,40}[bruf]?\\{0,15}[\"']\Z")
_AFTER_PAIR = re.compile(rf"{_QUOTE},?\s{{0,40}}[)\]]")
_PREVIOUS_WORD = re.compile(r"([A-Za-z]{2,20})[ ]\Z")
_HEADERS = ("authorization", "cookie")
_SCHEME = re.compile(rf"(?i)(?:{'|'.join(sorted(SCHEMES))}|[\w-]*(?:key|token|sha256|login)|splunk|bot)[ \t]+(?=\S)")
_TAG_END = re.compile(r"[^<>]{0,200}>(?=[^<\s])")
_CONTENT_END = re.compile(r"<|\n")
_USER_OPTIONS = ("u", "user", "proxy-user")
_USER = re.compile(r"[\"']?[^\s:\"']{1,80}:(?!\d+\b)")
_LOGIN = re.compile(r"\blogin\s\S{1,100}\s\Z")
_LINE_START = re.compile(r"(?:\A|\n)[ \t]*\Z")
_CONTEXT = 130  # characters before a match that are examined


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUERY_NAMES = _words("key sig signature code x-amz-signature x-goog-signature x-amz-credential")
# Words after a flag or keyword in prose: "--token is given twice".
_PROSE = _words("""
    is are was has have or and instead needs need must to for with cannot the a an in of from not requires takes
    on at by as if when should may can will option flag value given before after together exclude without twice
""")
_URL_END = re.compile(r"[\s\"'`<>]|://")
_PORT = re.compile(r"[^:/?#@]*:\d{1,5}(?:[/?#,]|\Z)")
_HOST = re.compile(r"[\w\[%.-]")
_EXAMPLES = _words("password pass passwd pwd pw secret token")
_NO_PASSWORD = "x-oauth-basic"  # GitHub's, after a token  # noqa: S105  # nosec B105
_USERS = _words("git ssh user username me oauth2 x-token-auth x-access-token token")


def find_secrets(text: str, literals_only: bool = False) -> Iterator[Secret]:
    """Yields the secrets in a text, in order.

    Args:
      text: The text.
      literals_only: For source code: whether a name's value is a secret only if it is a string literal.
    """
    position = 0
    while match := _NEXT.search(text, position):
        secret = _code_secret(text, match) if literals_only else _secret(text, match)
        position = max(match.end(), secret.end) if secret else match.end()
        if secret and secret.start < secret.end:
            yield secret


def _secret(text: str, match: re.Match[str]) -> Secret | None:
    if match["token"]:
        return Secret(*match.span("token"), "", "a token of a known issuer")
    if match["url"]:
        return _in_user_info(text, match)
    if match["separator"]:
        return _assigned(text, match)
    if match["name"]:
        return _listed(text, match)
    if match["element"]:
        return _element(text, match)
    return _announced(text, match)


def _code_secret(text: str, match: re.Match[str]) -> Secret | None:
    if match["token"] or match["url"] or match["comma"]:
        return _secret(text, match)
    if not match["separator"]:
        return None
    start = annotation.end() if (annotation := _ANNOTATION.match(text, match.end())) else match.end()
    span = secret_values.literal(text, start)
    return None if span is None else _named(text, span, match["name"])


def _named(text: str, span: Span, name: str, prose: bool = False) -> Secret | None:
    value = text[slice(*span)]
    is_secret = is_secret_value(name, value) and not (prose and value.lower() in _PROSE)
    return Secret(*span, name, repr(name)) if is_secret else None


def _after(text: str, start: int, name: str, prose: bool = False) -> Secret | None:
    """Returns the string or word at an index."""
    return _named(text, secret_values.assigned(text, start, start, ""), name, prose)


def _assigned(text: str, match: re.Match[str]) -> Secret | None:
    name, start, end = match["name"], match.start("name"), match.end()
    variable = _NAME_VALUE.match(text, end) if name.lower() in _NAME_KEYS else None
    if variable and sensitivity(variable["name"]) != PUBLIC:
        return _after(text, variable.end(), variable["name"])
    if name.lower() in _USER_OPTIONS and match["dashes"]:
        return _user_option(text, end)
    if text[start - 1 : start] in ("?", "&") and text[end : end + 1] not in ("'", '"'):
        return _parameter(text, end, name)
    name = _qualified(text, match)
    if sensitivity(name) == PUBLIC:
        return None
    if any(header in name.lower() for header in _HEADERS) and not text.startswith(("'", '"', "\\"), end):
        return _header(text, start, end, name)
    annotation = _ANNOTATION.match(text, end)
    separator = ":" if match["separator"] == ":" else "="
    span = secret_values.assigned(text, start, annotation.end() if annotation else end, separator)
    return _named(text, span, name)


def _qualified(text: str, match: re.Match[str]) -> str:
    """Returns a name with the word before it if it is one word: "API key: …", "first pass: …"."""
    name: str = match["name"]
    if name.lower() not in ("key", "keys", "pass"):
        return name
    previous = _PREVIOUS_WORD.search(text[max(0, match.start() - _CONTEXT) : match.start()])
    return f"{previous[1]} {name}" if previous else name


def _header(text: str, name_start: int, start: int, name: str) -> Secret | None:
    scheme = _SCHEME.match(text, start)
    if scheme and not scheme[0].lower().startswith("digest"):
        return _named(text, secret_values.word(text, scheme.end()), name)
    return _named(text, secret_values.header(text, name_start, scheme.end() if scheme else start), name)


def _parameter(text: str, start: int, name: str) -> Secret | None:
    span = secret_values.parameter(text, start)
    if not text[slice(*span)].isdigit() and name.lower() in _QUERY_NAMES:
        name = "secret"
    secret = _named(text, span, name)
    return secret and secret._replace(description=f"the parameter {name!r} of a URL")


def _listed(text: str, match: re.Match[str]) -> Secret | None:
    """Returns the value after a flag, or the second element of a pair: `--token x`, ("token", "x")."""
    name, end, before = match["name"], match.end(), text[max(0, match.start() - _CONTEXT) : match.start()]
    if match["dashes"] and name.lower() in _USER_OPTIONS:
        return _user_option(text, end)
    if sensitivity(name) == PUBLIC:
        return None
    if match["item"]:
        return _named(text, secret_values.line(text, end), name) if before.endswith("- - ") else None
    if match["dashes"]:
        return _after(text, end, name, prose=True)
    value = _after(text, end, name) if _BEFORE_PAIR.search(before) else None
    return value if value and _AFTER_PAIR.match(text, value.end) else None


def _user_option(text: str, start: int) -> Secret | None:
    user = _USER.match(text, start)
    span = secret_values.word(text, user.end()) if user else None
    return None if span is None or text[slice(*span)] in _EXAMPLES else _named(text, span, "password")


def _element(text: str, match: re.Match[str]) -> Secret | None:
    name = match["element"]
    tag = _TAG_END.match(text, match.end()) if sensitivity(name) != PUBLIC else None
    if tag is None:
        return None
    end = _CONTENT_END.search(text, tag.end())
    return _named(text, (tag.end(), end.start() if end else len(text)), name)


def _announced(text: str, match: re.Match[str]) -> Secret | None:
    """Returns the value after a keyword: Bearer x, IDENTIFIED BY 'x', ENV TOKEN x, login me password x."""
    end, before = match.end(), text[max(0, match.start() - _CONTEXT) : match.start()]
    if match["scheme"]:
        return _credential(text, match)
    if match["variable"]:
        return _after(text, end, match["variable"], prose=True) if _LINE_START.search(before) else None
    return _after(text, end, "password") if text[end] == "'" or _LOGIN.search(before) else None


def _credential(text: str, match: re.Match[str]) -> Secret | None:
    """Returns the credential of a header without its name; None for words such as "basic training"."""
    scheme, start = match["scheme"].lower(), match.end()
    if scheme == "digest":
        is_credential = text.startswith("username=", start)
        return _named(text, secret_values.header(text, match.start(), start), "password") if is_credential else None
    span = secret_values.word(text, start)
    value = text[slice(*span)]
    is_credential = _is_basic(value) if scheme == "basic" else len(value) >= 20 or any(map(str.isdigit, value[8:]))
    return Secret(*span, "", "a credential of a header") if is_credential else None


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False


def _in_user_info(text: str, match: re.Match[str]) -> Secret | None:
    start, end = match.end(), _URL_END.search(text, match.end())
    url = text[start : end.start() if end else len(text)]
    info, at, host = url.rpartition("@")
    authority = url.partition("/")[0]
    if not at or not _HOST.match(host) or _PORT.match(url) or not {"@", ":"}.intersection(authority):
        return None
    user, colon, password = info.partition(":")
    if password and password != _NO_PASSWORD:
        is_secret = password.lower() not in _EXAMPLES and is_secret_value("password", password)
        first = start + len(user) + 1 if is_secret else start + len(info)  # of a harmless one, nothing
        return Secret(first, start + len(info), "", "a password in a URL")
    is_token = user.lower() not in _USERS and (colon or match["name"].lower() in ("http", "https"))
    return Secret(start, start + len(user), "", "a token in a URL") if is_token else None
