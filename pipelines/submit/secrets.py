"""Rejects secrets on command lines for manifests, which are stored and displayed in clear text.

require_no_secrets("--custom-config", '{"db": {"password": "…"}}', allowed=())     # InputError
"""

from __future__ import annotations

import json
from collections.abc import Collection

from ...executors.errors import InputError
from ...executors.runtime.logs.redaction import secrets_in

_REMEDY = "Read it in the module from the environment (--env-secret) or from a secret manager."


def require_no_secrets(flag: str, text: str, allowed: Collection[str]) -> None:
    """Checks that a command line value contains nothing that a run record would redact.

    Args:
      flag: The flag with the value, for the message.
      text: The value: JSON or any other text.
      allowed: Names that look like secrets but are not.

    Raises:
      InputError: When there is a secret. The message contains its name or how it was recognized, but not its value.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # too deep for a parser, so it is searched as a text
        value = text
    for name, what in secrets_in(value):
        if not name:
            raise InputError(f"{flag} contains {what}, which the manifest would store in clear text. {_REMEDY}")
        if name not in allowed:
            raise InputError(
                f"{flag} contains {name!r}, which looks like a secret; the manifest would store it in clear text. "
                f"{_REMEDY} If it is not a secret, add --not-secret {name}."
            )
