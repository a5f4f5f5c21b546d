"""The usual separators of CSV, and recognition of CSV that was read with a wrong one, for error messages."""

from __future__ import annotations

from collections.abc import Collection

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


def other_separator(names: Collection[str]) -> str:
    """Returns the usual separator in the only field of a header that was not split; "" otherwise."""
    return next((sep for sep in SEPARATORS for name in names if len(names) == 1 and sep in name), "")
