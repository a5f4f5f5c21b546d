"""Recognizes binary formats by a file's first bytes, for error messages."""

from __future__ import annotations

from .input_format import formats

_OTHERS = {
    b"\x1f\x8b": "compressed by gzip",
    **{b"x" + level: "compressed by zlib" for level in (b"\x01", b"\x5e", b"\x9c", b"\xda")},
    b"\xff\x06\x00\x00sNaPpY": "compressed by snappy",
    b"BZh91AY": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"PK\x03\x04": "a zip file",
    b"\x89PNG": "a PNG image",
    b"\x08\x01\x12": "a SavedModel",
}


def signature_of(head: bytes) -> str:
    """Returns the format of a file that begins with the given bytes, such as "a PNG image"; "" if it is unknown."""
    installed = (form.name for form in formats().values() if not form.is_text and form.matches(head))
    others = (form for magic, form in _OTHERS.items() if head.startswith(magic))
    return next(installed, "") or next(others, "")
