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
# What may go on for long is bounded: an error may hold a string of any size.
_QUOTED = re.compile(rf"(?i)({_NAME}[\w.-]{{0,40}}(?:{_QUOTE})?\s?[:=]\s?\w?)(\\*[\"'])(.*?)(?<!\\)\2")
_BARE = re.compile(rf"(?i)({_NAME}[\w.-]{{0,40}}=)(?!\w?[\"'\\])([^\s\"'\\,;&(){{}}\[\]]+)")
_IN_URL = re.compile(r"(://[^/@\s:\"']*:)(?!password@|\*\*\*@)([^/@\s\"']+)(?=@)")
_SIGNED = re.compile(r"(?i)([?&](?:x-(?:amz|goog)-)?sig(?:nature)?=)[^&\s\"']+")
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
    if isinstance(value, dict):
        of_named = is_secret(str(value.get("name", ""))) and "value" in value  # as Kubernetes has variables
        return {key: MASK if of_named and key == "value" else masked(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        flags = [item if isinstance(item, str) and item.startswith("-") and "=" not in item else "" for item in value]
        return [masked(item, flag) for item, flag in zip(value, ["", *flags], strict=False)]
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Returns a text with what looks like a secret in it, and all secrets that are known, replaced by "***"."""
    for secret in _known:
        text = text.replace(secret, MASK)
    text = _IN_URL.sub(rf"\1{MASK}", text)
    if "=" in text or ":" in text:
        text = _QUOTED.sub(lambda found: found[0] if _is_shown(*found.group(1, 3)) else _quoted(found), text)
        text = _BARE.sub(lambda found: found[0] if _is_shown(*found.group(1, 2)) else f"{found[1]}{MASK}", text)
        text = _SIGNED.sub(rf"\1{MASK}", text)
    return _SHAPES.sub(MASK, _BEARER.sub(rf"\1{MASK}", text))


def secret_names(config: Any, above: str = "") -> Iterator[str]:
    """Yields where in JSON values there is something that would be masked: "database.password"."""
    if isinstance(config, Mapping):
        for name, item in config.items():
            yield from [f"{above}{name}"] if masked(item, str(name)) == MASK else secret_names(item, f"{above}{name}.")
    elif masked([config]) != [config]:
        yield above.rstrip(".")


def remember(config: Any) -> None:
    """Has the secrets of a configuration masked in every text from now on.

    Args:
      config: JSON values; what else there is in it is left alone.
    """
    _known.update(secret for secret in _secrets(config) if len(secret) >= (_LEAST, _LEAST_WORD)[secret.isalpha()])


def _is_shown(name: str, value: Any) -> bool:
    if value in (None, "", MASK) or isinstance(value, bool):
        return True
    is_number = isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
    return is_number and _SECRET.sub("", _MAY_BE_COUNTED.sub("", name)) == _MAY_BE_COUNTED.sub("", name)


def _quoted(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}{found[2]}"


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, name if is_secret(name) else str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _secrets(item, name)
    elif isinstance(value, str):
        if is_secret(name):
            yield value
        yield from (found[2] for found in _IN_URL.finditer(value))
