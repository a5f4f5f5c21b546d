"""Keeps secrets out of manifests, which are stored and shown in clear.

require_no_secrets("--custom-config", '{"db": {"password": "…"}}', allowed=())     # InputError
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from ..executors.errors import InputError
from ..executors.masking import masked

_PASSWORD_IN_URL = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
_ASSIGNMENT = re.compile(r"(?:^|[;,\s])([A-Za-z_][\w.-]*)\s*=\s*([^;]+)")
_NUMBER = re.compile(r"[-+.\deE\s]+")


def require_no_secrets(flag: str, text: str, allowed: Collection[str]) -> None:
    """Makes sure that a value of the command line holds nothing that looks like a secret.

    Looked at are JSON objects, "name=value; …" and passwords in URLs. Numbers are no secrets: `num_tokens` may stay.

    Args:
      flag: Where the value was given.
      text: The value.
      allowed: Names that only look as if they were a secret's.

    Raises:
      InputError: When there is one; it tells the name, not the value.
    """
    if _PASSWORD_IN_URL.search(text):
        raise InputError(f"{flag} has a password in a URL, which the manifest would store in clear. {_INSTEAD}")
    for name in _secret_names(text):
        if name not in allowed:
            raise InputError(
                f"{flag} has {name!r}, which looks like a secret's name, and the manifest would store it in clear. "
                f"{_INSTEAD} If it is none: --not-secret {name}."
            )


_INSTEAD = "Have the module read it from the environment (--env-secret on kuberay) or from a secret manager."


def _secret_names(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except ValueError:
        value = {name: part.strip() for name, part in _ASSIGNMENT.findall(text)}
    yield from _hidden(value)


def _hidden(value: Any) -> Iterator[str]:
    """Yields the names of strings, at any depth, that a run's record would mask."""
    if isinstance(value, list):
        for item in value:
            yield from _hidden(item)
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(item, (dict, list)):
                if isinstance(item, str) and not _NUMBER.fullmatch(item) and masked({name: item}) != {name: item}:
                    yield name
            elif masked({name: "x"}) != {name: "x"} and item:
                yield name
            else:
                yield from _hidden(item)
