"""Infers the types of CSV columns from their text values, by the rules of TFX's CsvExampleGen.

A column holds integers, floats or strings: the narrowest type that fits all of its values. An integer that does not fit
into an int64 makes the column text.

Usage:

    max(type_of(value) for value in ("1", "2.5"))      # FLOAT
"""

from __future__ import annotations

INT, FLOAT, TEXT = range(3)  # from narrow to wide
_INT_BITS = 63  # of an int64, without the sign


def type_of(value: str) -> int:
    """Returns the narrowest type of a value."""
    try:
        return INT if -(1 << _INT_BITS) <= int(_ascii(value)) < 1 << _INT_BITS else TEXT
    except ValueError:
        return FLOAT if is_number(value) else TEXT


def is_number(value: str) -> bool:
    """Whether a value is a number, in the notation of Python's float() for bytes, which has no digits beyond ASCII."""
    try:
        float(_ascii(value))
    except ValueError:
        return False
    return True


def _ascii(value: str) -> bytes:
    return value.encode("ascii")  # its UnicodeEncodeError is a ValueError
