"""Redacts secrets in records, reports, logs and errors.

    masked({"db": {"password": "tulip"}})                 # {"db": {"password": "***"}}
    masked_text("cannot open mysql://me:tulip@host/db")   # "cannot open mysql://me:***@host/db"

A secret is recognized by its name, by its position in a URL or header, or by its issuer's token format. After
`remember_secrets`, the secret values of a run's configuration are also redacted in every text. All functions are
thread-safe.
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
    "mask_known",
    "masked",
    "masked_text",
    "remember_secrets",
    "secret_names",
    "secrets_in",
    "unfinished_secret",
]

_MIN_LENGTH = 6  # minimum characters of a remembered secret
_MIN_WORD_LENGTH = 12  # the minimum for letters only, which may equal an ordinary word

_known = KnownSecrets()


def is_secret(name: str) -> bool:
    """Whether values with this name are likely to be secrets."""
    return sensitivity(name) in (SECRET, COUNTED)


def masked(value: object, name: str = "") -> Any:
    """Returns JSON values with likely secrets replaced by "***".

    Args:
      value: The JSON value.
      name: Its name; "" without one.
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
    """Returns a text with known and likely secrets replaced by "***"."""
    text = mask_known(text)
    parts, end = [], 0
    for found in sorted(found_in(text)):
        if found.start >= end:
            parts += [text[end : found.start], MASK]
        end = max(end, found.end)
    return "".join([*parts, text[end:]])


def secrets_in(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields the name ("" without one) and a description of each secret that `masked` would replace."""
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


def mask_known(text: str) -> str:
    """Returns a text with only the known secrets replaced by "***", for text that the module wrote."""
    return _known.masked(text)


def unfinished_secret(text: str) -> int:
    """Returns the number of characters at the end of a text that may be the beginning of a known secret.

    A stream that is redacted in pieces holds them back for the next piece, so that no secret is split and leaked.
    """
    return _known.unfinished(text)


def secret_names(config: object, above: str = "") -> Iterator[str]:
    """Yields the dotted paths of values that would be redacted in a configuration: "database.password"."""
    for key, name, item in _items(config):
        place = f"{above}.{key}" if above else str(key)
        hidden = masked(item, name)
        if isinstance(item, (Mapping, list, tuple)) and hidden != MASK:
            yield from secret_names(item, place)
        elif hidden != item:
            yield place


def remember_secrets(config: object) -> None:
    """Makes `mask_known` and `masked_text` redact the secrets of a configuration from now on.

    Args:
      config: JSON values. Secrets with fewer than 6 characters, or 12 if they consist of letters only, are not redacted
        in texts.
    """
    _known.add(
        secret for secret in _secrets(config) if len(secret) >= (_MIN_LENGTH, _MIN_WORD_LENGTH)[secret.isalpha()]
    )


def _items(value: object) -> Iterator[tuple[object, str, object]]:
    """Yields (key or index, name, item) for the elements of a JSON value; nothing for a scalar."""
    if isinstance(value, Mapping):
        variable = str(value.get("name", ""))  # {"name": "TOKEN", "value": "…"}, a Kubernetes variable
        for key, item in value.items():
            yield key, variable if key == "value" and is_secret(variable) else str(key), item
    elif isinstance(value, (list, tuple)):
        flag = ""  # ["--token", "…"]
        for index, item in enumerate(value):
            yield index, flag, item
            flag = item if isinstance(item, str) and item.startswith("-") and "=" not in item else ""


def _is_counted(name: str, value: Mapping[str, object] | Iterable[object]) -> bool:
    """Whether all elements of a value are numbers under a name such as `token`."""
    parts = value.values() if isinstance(value, Mapping) else value
    return sensitivity(name) == COUNTED and all(isinstance(part, (int, float)) for part in parts)


def _secrets(value: object, name: str = "") -> Iterator[str]:
    for _, called, item in _items(value):
        yield from _secrets(item, name if is_secret(name) else called)
    if isinstance(value, str):
        if is_secret_value(name, value):
            yield value
        yield from (value[found.start : found.end] for found in found_in(value))
