"""Redacts secrets in what is written down and shown: records, reports, logs, errors.

    masked({"db": {"password": "tulip"}})                 # {"db": {"password": "***"}}
    masked_text("cannot open mysql://me:tulip@host/db")   # "cannot open mysql://me:***@host/db"

A secret is recognized by its name, by its place in a URL or a header, or by the shape that its issuer gave it. Values
under secrets' names in a run's configuration are known from then on, and redacted in every text as well. All functions
may be called by several threads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .known_secrets import KnownSecrets
from .secret_names import COUNTED, MASK, SECRET, is_secret_value, sensitivity
from .secret_texts import found_in

__all__ = [
    "MASK",
    "is_secret",
    "masked",
    "masked_text",
    "remember",
    "secret_names",
    "secrets_in",
    "unfinished_secret",
    "without_known",
]

_LEAST = 6  # characters of what is masked wherever it stands
_LEAST_WORD = 12  # of letters alone: another word may be the same

_known = KnownSecrets()


def is_secret(name: str) -> bool:
    """Returns whether a value of this name is likely to be a secret."""
    return sensitivity(name) in (SECRET, COUNTED)


def masked(value: object, name: str = "") -> Any:
    """Returns JSON values with what looks like a secret replaced by "***".

    Args:
      value: What is to be shown.
      name: What it is called, if anything.
    """
    if isinstance(value, (Mapping, list, tuple)):
        if value and is_secret(name) and not _is_counted(name, value):
            return MASK
        parts = {key: masked(item, called) for key, called, item in _items(value)}
        return parts if isinstance(value, Mapping) else list(parts.values())
    if is_secret_value(name, value):
        return MASK
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Returns a text with what looks like a secret in it, and all secrets that are known, replaced by "***"."""
    text = without_known(text)
    parts, end = [], 0
    for found in sorted(found_in(text)):
        if found.start >= end:
            parts += [text[end : found.start], MASK]
        end = max(end, found.end)
    return "".join([*parts, text[end:]])


def secrets_in(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields, for all that `masked` would replace, its name ("" if there is none) and a description of it."""
    if isinstance(value, (Mapping, list, tuple)):
        if value and is_secret(name) and not _is_counted(name, value):
            yield name, repr(name)
            return
        for _, called, item in _items(value):
            yield from secrets_in(item, called)
    elif is_secret_value(name, value):
        yield name, repr(name)
    elif isinstance(value, str):
        yield from ((found.name, found.what) for found in found_in(value))


def without_known(text: str) -> str:
    """Returns a text with the secrets that are known replaced by "***", and nothing else: the module wrote it."""
    return _known.masked(text)


def unfinished_secret(text: str) -> int:
    """Returns how many characters at the end of a text may be the beginning of a known secret.

    A stream that is masked in pieces keeps these for the next piece: no secret is cut in two, and shown.
    """
    return _known.unfinished(text)


def secret_names(config: object, above: str = "") -> Iterator[str]:
    """Yields where in JSON values there is something that would be masked: "database.password"."""
    for key, name, item in _items(config):
        place = f"{above}.{key}" if above else str(key)
        hidden = masked(item, name)
        if isinstance(item, (Mapping, list, tuple)) and hidden != MASK:
            yield from secret_names(item, place)
        elif hidden != item:
            yield place


def remember(config: object) -> None:
    """Makes `without_known` and `masked_text` redact the secrets of a configuration from now on.

    Args:
      config: JSON values. Short values and common words among its secrets are left alone in texts.
    """
    _known.add(secret for secret in _secrets(config) if len(secret) >= (_LEAST, _LEAST_WORD)[secret.isalpha()])


def _items(value: object) -> Iterator[tuple[object, str, object]]:
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


def _is_counted(name: str, value: Mapping[str, object] | Iterable[object]) -> bool:
    """Whether the parts of a value are numbers under a name such as `token`."""
    parts = value.values() if isinstance(value, Mapping) else value
    return sensitivity(name) == COUNTED and all(isinstance(part, (int, float)) for part in parts)


def _secrets(value: object, name: str = "") -> Iterator[str]:
    for _, called, item in _items(value):
        yield from _secrets(item, name if is_secret(name) else called)
    if isinstance(value, str):
        if is_secret_value(name, value):
            yield value
        yield from (value[found.start : found.end] for found in found_in(value))
