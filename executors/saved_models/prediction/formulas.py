"""Quotes texts that a spreadsheet would run as a formula if it opened them in a CSV file ("CSV injection").

    escaped("=HYPERLINK(…)")    # "'=HYPERLINK(…)"
    escaped("-1.5")             # "-1.5"

The rules are OWASP's: https://owasp.org/www-community/attacks/CSV_Injection.
"""

from __future__ import annotations

import re
import unicodedata

_QUOTE = "'"
_SIGNS = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def escaped(value: object) -> object:
    """Returns a cell with a leading quote mark if it is the text of a formula; numbers stay as they are.

    The text of a formula that is quoted already gets another quote mark, so the original is always found by removing
    one.
    """
    return _QUOTE + value if isinstance(value, str) and _is_formula(value.lstrip(_QUOTE)) else value


def _is_formula(text: str) -> bool:
    if text.startswith(("\t", "\r", "\n")):
        return True
    # Programs skip blanks and invisible characters, such as a byte order mark, and take full-width signs as the others.
    sign = next((letter for letter in text if letter.isprintable() and not letter.isspace()), "")
    return unicodedata.normalize("NFKC", sign) in _SIGNS and not _NUMBER.fullmatch(text.strip())
