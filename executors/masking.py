"""Keeps secrets out of what is written down and shown: records, reports, logs, errors.

    masked({"db": {"password": "hunter2"}})                 # {"db": {"password": "***"}}
    masked_text("cannot open mysql://me:hunter2@host/db")   # "cannot open mysql://me:***@host/db"

A secret is told by its name, by where it stands in a URL, or by its shape, where its issuer gave it one. What stood
under a secret's name in a run's configuration is known from then on, and masked in every text as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MASK = "***"
_NAME = (
    r"(?:pass(?:word|wd|phrase)|secret|token(?!i[sz])|credential|authorization|cookie|webhook"
    r"|(?:api|private|access|account|encryption|signing)[_-]?key|connection[_-]?string)"
)
_SECRET = re.compile(rf"(?i){_NAME}")
_MAY_BE_COUNTED = re.compile(r"(?i)token")  # num_tokens=512 is no secret
_NUMBER = re.compile(r"[-+.\deE]+")
_LEAST = 6  # characters of what is masked wherever it stands
_LEAST_WORD = 12  # of letters alone: another word may be the same

_QUOTE = r"\\*[\"']"
# Each with what stands before it and after it. What may go on for long is bounded: an error may hold any string.
_IN_TEXT = (
    re.compile(r"(?P<before>://[^/@\s:\"']*:)(?!password@)(?P<secret>[^/@\s\"']+)(?P<after>@)"),
    re.compile(
        rf"(?i)(?P<before>{_NAME}[\w.-]{{0,40}}(?:{_QUOTE})?\s?[:=]\s?\w?(?P<quote>{_QUOTE}))"
        r"(?P<secret>.*?)(?P<after>(?<!\\)(?P=quote))"
    ),
    re.compile(rf"(?i)(?P<before>{_NAME}[\w.-]{{0,40}}=)(?!\w?[\"'\\])(?P<secret>[^\s\"'\\,;&(){{}}\[\]]+)(?P<after>)"),
    re.compile(r"(?i)(?P<before>[?&](?:x-(?:amz|goog)-)?sig(?:nature)?=)(?P<secret>[^&\s\"']+)(?P<after>)"),
)
_BEARER = re.compile(r"(?i)\b(bearer )(?=\S*\d)[\w.~+/-]{8,}=*")
_SHAPES = re.compile(
    r"\b(?:A(?:KI|SI)A[A-Z0-9]{16}"  # Amazon's
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}"  # Google's
    r"|gh[pousr]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|xox[abeprs]-[\w-]{10,}|hf_[A-Za-z]{30,}|sk-[\w-]{20,}|pypi-[\w-]{50,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,})"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)

_known: set[str] = set()


def is_secret(name: str) -> bool:
    """Returns whether a value of this name is likely to be a secret."""
    return _SECRET.search(name) is not None


def masked(value: Any, name: str = "") -> Any:
    """Returns JSON values with what looks like a secret replaced by "***".

    Args:
      value: What is to be shown.
      name: What it is called, if anything.
    """
    if is_secret(name) and not _is_shown(name, value):
        return MASK
    if isinstance(value, Mapping):
        return {key: masked(item, called) for key, called, item in _items(value)}
    if isinstance(value, (list, tuple)):
        return [masked(item, called) for _, called, item in _items(value)]
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Returns a text with what looks like a secret in it, and all secrets that are known, replaced by "***"."""
    text = without_known(text)
    for pattern in _IN_TEXT:
        text = pattern.sub(_masked_match, text)
    return _SHAPES.sub(MASK, _BEARER.sub(rf"\1{MASK}", text))


def without_known(text: str) -> str:
    """Returns a text with the secrets that are known replaced by "***", and nothing else: it is somebody else's."""
    for secret in _known:
        text = text.replace(secret, MASK)
    return text


def secret_names(config: Any, above: str = "") -> Iterator[str]:
    """Yields where in JSON values there is something that would be masked: "database.password"."""
    for key, name, item in _items(config):
        place = f"{above}.{key}" if above else str(key)
        if isinstance(item, (Mapping, list, tuple)) and masked(item, name) != MASK:
            yield from secret_names(item, place)
        elif masked(item, name) != item:
            yield place


def remember(config: Any) -> None:
    """Has the secrets of a configuration masked in every text from now on.

    Args:
      config: JSON values; what else there is in it is left alone.
    """
    _known.update(secret for secret in _secrets(config) if len(secret) >= (_LEAST, _LEAST_WORD)[secret.isalpha()])


def _items(value: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields (key or index, what it is called, item) for the parts of a JSON value; nothing for a plain one."""
    if isinstance(value, Mapping):
        variable = str(value.get("name", ""))  # {"name": "TOKEN", "value": "…"}, as Kubernetes has variables
        for key, item in value.items():
            yield key, variable if key == "value" and is_secret(variable) else str(key), item
    elif isinstance(value, (list, tuple)):
        flag = ""  # ["--token", "…"]
        for index, item in enumerate(value):
            yield index, flag, item
            flag = item if isinstance(item, str) and item.startswith("-") and "=" not in item else ""


def _is_shown(name: str, value: Any) -> bool:
    if value in (None, "", MASK) or isinstance(value, bool):
        return True
    is_number = isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
    return is_number and _SECRET.sub("", _MAY_BE_COUNTED.sub("", name)) == _MAY_BE_COUNTED.sub("", name)


def _masked_match(found: re.Match[str]) -> str:
    before, secret, after = found.group("before", "secret", "after")
    return found[0] if _is_shown(before, secret) else f"{before}{MASK}{after}"


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    for _, called, item in _items(value):
        yield from _secrets(item, name if is_secret(name) else called)
    if isinstance(value, str):
        if is_secret(name):
            yield value
        yield from (found["secret"] for pattern in _IN_TEXT for found in pattern.finditer(value))
