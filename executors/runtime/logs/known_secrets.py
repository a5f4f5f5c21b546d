"""The secrets that a process has been given, in all the spellings in which a text may hold them."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterable

from .secret_names import MASK


class KnownSecrets:
    """Secrets by value. Threads may add some while others read: what is read is one tuple, replaced as a whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spellings: tuple[str, ...] = ()  # longest first: one may be part of another

    def add(self, secrets: Iterable[str]) -> None:
        """Adds secrets."""
        spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
        with self._lock:
            self._spellings = tuple(sorted(spellings.union(self._spellings), key=lambda one: (-len(one), one)))

    def masked(self, text: str) -> str:
        """Returns a text with these secrets replaced by "***"."""
        for spelling in self._spellings:
            text = text.replace(spelling, MASK)
        return text

    def unfinished(self, text: str) -> int:
        """Returns how many characters at a text's end may be the beginning of a secret that goes on after it.

        A stream that is masked in pieces must keep them for the next piece.
        """
        spellings = self._spellings
        longest = len(spellings[0]) if spellings else 0
        for length in range(min(longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(len(spelling) > length and spelling.startswith(end) for spelling in spellings):
                return _before_a_whole_one(text, len(text) - length, spellings)
        return 0


def _before_a_whole_one(text: str, cut: int, spellings: tuple[str, ...]) -> int:
    """Returns what remains after a cut that is moved to the start of the secret that it would part, if there is one."""
    starts = (text.find(one, max(0, cut - len(one) + 1), cut + len(one) - 1) for one in spellings)
    return len(text) - min((start for start in starts if start >= 0), default=cut)


def _spellings(secret: str) -> set[str]:
    """Returns a secret as it is, in JSON, in a Python literal and in a URL."""
    quoted = {json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    return {secret, *quoted, repr(secret)[1:-1], urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
