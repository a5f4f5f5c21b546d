"""Redacts secrets in records, reports, logs and errors.

    masked({"db": {"password": "tulip"}})                 # {"db": {"password": "***"}}
    masked_text("cannot open mysql://me:tulip@host/db")   # "cannot open mysql://me:***@host/db"
    masked_source('token = "a1b2"; first = tokens[0]')    # 'token = "***"; first = tokens[0]'

A secret is recognized by its name, by its position in a URL or header, or by the prefix of its issuer's tokens. After
`remember_secrets`, the secret values of a run's configuration are also redacted in every text. All functions are
thread-safe, and take time proportional to the size of the value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .known_secrets import KnownSecrets
from .secret_names import MASK, PUBLIC, is_secret_value, sensitivity
from .secret_texts import Secret, find_secrets

_MIN_LENGTH = 6  # minimum characters of a remembered secret
_MIN_WORD_LENGTH = 12  # the minimum for letters only, which may equal an ordinary word

# Keys under which a list of names and values has the name: {"name": "TOKEN", "value": "…"}, a Kubernetes variable.
_NAME_KEYS = ("name", "key", "header", "field", "Name", "Key")

_known = KnownSecrets()
mask_known = _known.masked  # for text that the module wrote
unfinished_secret = _known.unfinished


def masked(value: object, name: str = "") -> Any:
    """Returns JSON values, tuples and dataclasses as JSON values with likely secrets replaced by "***".

    Args:
      value: The value.
      name: Its name; "" without one.
    """
    value = _plain(value)
    if is_secret_value(name, value):
        return MASK
    if isinstance(value, Mapping):
        return {masked(key): masked(item, called) for key, called, item in _items(value)}
    if isinstance(value, (list, tuple)):
        return [masked(item, called) for _, called, item in _items(value)]
    if not isinstance(value, str):
        return value
    value = mask_known(value)
    return _replaced(value, _find_after(name, value))


def masked_text(text: str) -> str:
    """Returns a text with known and likely secrets replaced by "***"."""
    text = mask_known(text)
    return _replaced(text, find_secrets(text))


def masked_source(code: str) -> str:
    """Returns Python code with known secrets, and string literals that are likely secrets, replaced by "***"."""
    code = mask_known(code)
    return _replaced(code, find_secrets(code, literals_only=True))


def secrets_in(value: object) -> Iterator[tuple[str, str]]:
    """Yields the name ("" without one) and a description of each secret in a value that `masked` would replace."""
    return ((secret.name, secret.description) for _, _, secret in _secrets(value))


def secret_names(config: object) -> Iterator[str]:
    """Yields the dotted paths of the secrets in a configuration: "database.password"."""
    return iter(dict.fromkeys(path for path, _, _ in _secrets(config)))


def remember_secrets(config: object) -> None:
    """Makes `mask_known` and `masked_text` redact the secrets of a configuration from now on.

    Args:
      config: JSON values. Secrets with fewer than 6 characters, or 12 if they consist of letters only, are not redacted
        in texts.
    """
    values = [text[secret.start : secret.end] for _, text, secret in _secrets(config)]
    _known.add(value for value in values if len(value) >= (_MIN_LENGTH, _MIN_WORD_LENGTH)[value.isalpha()])


def _secrets(config: object) -> Iterator[tuple[str, str, Secret]]:
    """Yields the path, the text, and the secret in the text, for each secret of a configuration."""
    for path, name, leaf in _leaves(config):
        text = leaf if isinstance(leaf, str) else ""
        if is_secret_value(name, leaf):
            yield path, str(leaf), Secret(0, len(str(leaf)), name, repr(name))
        else:
            yield from ((path, text, secret) for secret in _find_after(name, text))


def _leaves(value: object, name: str = "", path: str = "") -> Iterator[tuple[str, str, object]]:
    """Yields the path, name and value of each scalar and key; everything under a secret name has this name."""
    value = _plain(value)
    if not isinstance(value, (Mapping, list, tuple)):
        yield path, name, value
        return
    for key, called, item in _items(value):
        below = f"{path}.{masked(key)}".removeprefix(".")
        if isinstance(value, Mapping):
            yield below, "", key
        yield from _leaves(item, called if sensitivity(name) == PUBLIC else name, below)


def _find_after(name: str, text: str) -> Iterator[Secret]:
    """Yields the secrets in a text; after a flag of a command line, also the one that the flag announces: -u me:…."""
    before = f"{name} " if name.startswith("-") else ""
    for secret in find_secrets(before + text):
        yield secret._replace(start=max(0, secret.start - len(before)), end=secret.end - len(before))


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def _replaced(text: str, secrets: Iterable[Secret]) -> str:
    parts, end = [], 0
    for secret in secrets:
        parts += [text[end : secret.start], MASK]
        end = secret.end
    return "".join([*parts, text[end:]])


def _items(value: object) -> Iterator[tuple[object, str, object]]:
    """Yields (key or index, name, item) for the elements of a mapping or list."""
    if isinstance(value, Mapping):
        variable = next((str(value[key]) for key in _NAME_KEYS if key in value), "")
        for key, item in value.items():
            yield key, variable if key in ("value", "Value") and sensitivity(variable) != PUBLIC else _name(key), item
    elif isinstance(value, (list, tuple)):
        name = ""
        for index, item in enumerate(value):
            yield index, name, item
            is_flag = _name(item).startswith("-") and "=" not in _name(item)
            name = _name(item) if is_flag or (len(value) == 2 and index == 0) else ""


def _name(key: object) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key if isinstance(key, str) else ""
