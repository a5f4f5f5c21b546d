"""Redacts the secrets given to this process, in each encoding in which they may occur in a text."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterable

from .secret_names import MASK


class KnownSecrets:
    """A thread-safe set of secret values: the tuple that readers use is replaced as a whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spellings: tuple[str, ...] = ()  # longest first: one may contain another

    def add(self, secrets: Iterable[str]) -> None:
        """Adds secrets."""
        spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
        with self._lock:
            self._spellings = tuple(sorted(spellings.union(self._spellings), key=lambda one: (-len(one), one)))

    def masked(self, text: str) -> str:
        """Returns a text with only these secrets replaced by "***"."""
        for spelling in self._spellings:
            text = text.replace(spelling, MASK)
        return text

    def unfinished(self, text: str) -> int:
        """Returns the number of characters at the end of a text that may be the beginning of a secret.

        A stream that is redacted in pieces holds them back for the next piece, so that no secret is split and leaked.
        """
        spellings = self._spellings
        longest = len(spellings[0]) if spellings else 0
        for length in range(min(longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(len(spelling) > length and spelling.startswith(end) for spelling in spellings):
                return _start_of_partial(text, len(text) - length, spellings)
        return 0


def _start_of_partial(text: str, cut: int, spellings: tuple[str, ...]) -> int:
    """Moves a cut that would split a secret to the secret's start; returns the number of characters after the cut."""
    starts = (text.find(one, max(0, cut - len(one) + 1), cut + len(one) - 1) for one in spellings)
    return len(text) - min((start for start in starts if start >= 0), default=cut)


def _spellings(secret: str) -> set[str]:
    """Returns a secret verbatim and as encoded in JSON, in a Python literal and in a URL."""
    quoted = {json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    return {secret, *quoted, repr(secret)[1:-1], urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
