"""Finds secrets in texts by the name before them, by their position in a URL or header, and by their format.

    [text[one.start:one.end] for one in found_in("curl --token abc123 https://me:tulip@host/")]    # ["abc123", "tulip"]

Texts may be malformed, truncated and of any size: the lookahead of every pattern is bounded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from .secret_names import OPAQUE, PUBLIC, is_opaque, is_secret_value, sensitivity
from .secret_shapes import SHAPES, WEBHOOKS


class Found(NamedTuple):
    """A secret in a text.

    Attributes:
      start: Index of its first character.
      end: Index after its last character.
      name: Its name in the text; "" if it was recognized by its position or format.
      what: A description that does not contain the secret.
    """

    start: int
    end: int
    name: str
    what: str


_QUALIFIED = r"(?:(?:api|access|secret|private|auth|account|encryption|signing|shared|client|refresh|license|bot) )?"
_NAME = rf"{_QUALIFIED}[A-Za-z_][\w.-]{{0,80}}"
_NAMED = re.compile(
    rf"(?i)(?<![\w@])(?P<name>{_NAME})(?:\\{{0,4}}[\"'`])?\]?[ \t]{{0,8}}(?:=>|:=|=(?!=)|:(?!:))[ \t]{{0,8}}"
)
_PAIR = re.compile(rf"[(\[]\s?b?[\"'](?P<name>{_NAME})[\"'],\s?(?=b?[\"'][^\"']*[\"'],?\s?[)\]])")
_VARIABLE = re.compile(  # {"name": "TOKEN", "value": …} of Kubernetes
    rf"(?i)\bname\\?[\"']?[:=]\s?\\?[\"']?(?P<name>{_NAME})\\?[\"']?\s{{0,20}},?\s{{0,20}}\\?[\"']?value\\?[\"']?[:=]\s?"
)
_FLAG = re.compile(
    r"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{1,80})(?:\\{0,2}[\"'],?[ \t]{0,4}|[ \t]{1,4})(?=[^\s-]|-[^\s-])"
)
_STATEMENT = re.compile(
    r"(?i)(?:^|\n)[ \t]*(?:env|arg|setenv|set)[ \t]+(?P<name>[A-Za-z_]\w{0,80})[ \t]+(?=\S)"
    r"|\blogin[ \t]\S{1,100}\s(?P<netrc>password)[ \t](?=\S)"
    r"|\b(?P<sql>password|identified by)[ \t](?=')"
)
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z_][\w.:-]{0,80})(?:\s[^<>]{0,200})?>(?=[^<\s])")

_QUOTED = re.compile(r"[bruf]{0,2}(?P<quote>\\{0,4}(?:\"\"\"|'''|[\"'`]))(?P<secret>.{0,8000}?)(?<!\\)(?P=quote)", re.I)
_TRIPLE = re.compile(r"[bruf]{0,2}(?P<quote>\"\"\"|''')(?P<secret>.{0,8000}?)(?P=quote)", re.I | re.S)
_CUT_OFF = re.compile(r"[bruf]{0,2}\\{0,4}[\"'`](?P<secret>[^\n]{0,8000})", re.I)
_BLOCK = re.compile(r"[|>][-+\d]{0,2}[ \t]*\n(?P<indent>[ \t]+)(?P<secret>[^\n]*(?:\n(?P=indent)[^\n]*)*)")
_LINE = re.compile(r"(?P<secret>[^\n\"']*?[^\s\"'])(?=[ \t]*(?:[ \t]#[^\n]*)?(?:[\"']|\r?\n|\Z))")
# A delimiter is part of the secret unless it is followed by another item or by the end of the text.
_WORD = re.compile(
    r"(?P<secret>(?:[^\s\"'`\\,;&(){}\[\]<>]|[,;&(){}\[\]<>\\](?![\s\"'`)\]},;]|\Z|[\w.-]{1,40}\s?[=:]|[nrt\\]))+)"
)
_SHELL_WORD = re.compile(r"(?P<secret>(?:[^\s\"'`,)\]]|[,)\]](?![\s\"'`)\]]|\Z))+)")
_PARAMETER = re.compile(r"(?P<secret>[^&\s\"'`#<>\\]+)")
_CONTENT = re.compile(r"(?P<secret>[^<\n]+)")

_ANNOUNCED = (
    (_PAIR, (_QUOTED,)),
    (_VARIABLE, (_QUOTED, _CUT_OFF, _WORD)),
    (_FLAG, (_QUOTED, _SHELL_WORD)),
    (_STATEMENT, (_QUOTED, _SHELL_WORD)),
    (_ELEMENT, (_CONTENT,)),
)

_SCHEME = re.compile(
    r"(?i)(?:basic|bearer|token|digest|negotiate|ntlm|api-?key|key|sharedkey|oauth|splunk|bot|jwt|genie[kK]ey"
    r"|aws4-hmac-sha256|googlelogin)[ \t]+(?=\S)"
)
_AUTHORIZATION = re.compile(r"(?i)\b(?P<scheme>bearer|basic)[ \t]{1,4}(?P<secret>[\w.~+/:-]{8,}={0,2})")
_HEADERS = ("authorization", "cookie")
_AT_LINE_START = re.compile(r"(?:^|\n)[ \t]*(?:-[ \t]+|export[ \t]+)?[\"']?\Z")
_IN_QUERY = re.compile(r"[?&;]\Z")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUERY_NAMES = _words("key sig signature code x-amz-signature x-goog-signature x-amz-credential")
# Words after a flag in prose: "--token is given twice".
_PROSE = _words("""
    is are was has have or and instead needs need must to for with cannot the a an in of from not requires takes
    on at by as if when should may can will option flag value given before after together exclude without twice
""")

_URL = re.compile(r"(?<![A-Za-z])[A-Za-z][\w+.-]{0,20}:/\\?/(?P<rest>(?:(?!://)[^\s\"'`<>]){1,1000})")
_USER_INFO = re.compile(r"(?P<user>[^:/?#@]*)(?::(?P<password>.*))?@(?=[\w\[%.-])", re.S)
_PORT = re.compile(r"[^:/?#@]*:\d{1,5}(?:[/?#]|\Z)")
_EXAMPLES = _words("password pass passwd pwd pw secret token")
_USERS = _words("git ssh user username me oauth2 x-token-auth x-access-token token")
_USER_OPTION = re.compile(
    r"(?<![\w-])(?:-u|--user|--proxy-user)(?:[ \t]|=|[\"'],?[ \t]?[\"'])[\"']?(?P<user>[^\s:\"']{1,80}):(?!\d+\b)"
)


def found_in(text: str) -> Iterator[Found]:
    """Yields the secrets in a text, in no particular order; some may overlap."""
    yield from _named(text)
    yield from _announced(text)
    yield from _in_urls(text)
    for found in SHAPES.finditer(text):
        yield Found(*found.span(), "", "a token by its shape")
    for found in _AUTHORIZATION.finditer(text):
        if _is_credential(found["scheme"], found["secret"]):
            yield Found(*found.span("secret"), "", "a credential of a header")
    for found in _USER_OPTION.finditer(text):
        yield from _value(text, found.end(), "password", (_SHELL_WORD,))


def _named(text: str) -> Iterator[Found]:
    end = 0  # end of the last secret; matches inside of it are skipped
    for found in _NAMED.finditer(text):
        name = found["name"]
        if found.end() <= end:
            continue
        if found[0].endswith("=") and _IN_QUERY.search(text, max(0, found.start() - 1), found.start()):
            secrets = _parameter(text, found.end(), name)
        elif sensitivity(name) != PUBLIC:
            secrets = _assigned(text, found.start(), found.end(), name)
        else:
            continue
        for secret in secrets:
            end = secret.end
            yield secret


def _announced(text: str) -> Iterator[Found]:
    """Yields the values that follow a name without "=" or ":"."""
    for pattern, values in _ANNOUNCED:
        for found in pattern.finditer(text):
            name = found["name"] or "password"
            if sensitivity(name) != PUBLIC:
                yield from _value(text, found.end(), name, values, prose=pattern is _FLAG)


def _assigned(text: str, start: int, end: int, name: str) -> Iterator[Found]:
    """Yields the value that is assigned to a sensitive name."""
    lowered = name.lower()
    is_header = any(header in lowered for header in _HEADERS)
    if is_header and (scheme := _SCHEME.match(text, end)):
        end = scheme.end()
    if sensitivity(name) != OPAQUE and (is_header or _AT_LINE_START.search(text[max(0, start - 40) : start])):
        values: tuple[re.Pattern[str], ...] = (_TRIPLE, _QUOTED, _CUT_OFF, _BLOCK, _LINE)
    else:
        values = (_TRIPLE, _QUOTED, _CUT_OFF, _WORD)
    yield from _value(text, end, name, values)


def _value(
    text: str, start: int, name: str, patterns: tuple[re.Pattern[str], ...], prose: bool = False
) -> Iterator[Found]:
    for pattern in patterns:
        if found := pattern.match(text, start):
            secret = found["secret"]
            if is_secret_value(name, secret) and not (prose and secret.lower() in _PROSE):
                yield Found(*found.span("secret"), name, f"{name!r}")
            return


def _parameter(text: str, start: int, name: str) -> Iterator[Found]:
    found = _PARAMETER.match(text, start)
    if found is None or found["secret"].isdigit():
        return
    is_one = name.lower() in _QUERY_NAMES and is_secret_value("secret", found["secret"])
    if is_one or is_secret_value(name, found["secret"]):
        yield Found(*found.span("secret"), name, f"the parameter {name!r} of a URL")


def _in_urls(text: str) -> Iterator[Found]:
    for found in WEBHOOKS.finditer(text):
        yield Found(*found.span("secret"), "", "the address of a webhook")
    for url in _URL.finditer(text):
        rest = url["rest"]
        if (
            "@" not in rest
            or _PORT.match(rest)
            or ("@" not in rest.split("/", 1)[0] and ":" not in rest.split("/", 1)[0])
        ):
            continue
        if info := _USER_INFO.match(rest):
            yield from _in_user_info(url.start("rest"), info)


def _in_user_info(start: int, info: re.Match[str]) -> Iterator[Found]:
    user, password = info["user"], info["password"]
    if password and password.lower() not in _EXAMPLES and is_secret_value("password", password):
        yield Found(start + info.start("password"), start + info.end("password"), "", "a password in a URL")
    if user.lower() not in _USERS and (is_opaque(user) or (user and password is not None and not password)):
        yield Found(start, start + info.end("user"), "", "a token in a URL")


def _is_credential(scheme: str, secret: str) -> bool:
    if scheme.lower() == "bearer":
        return any(map(str.isdigit, secret)) or len(secret) >= 20
    try:
        return b":" in base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        return False
