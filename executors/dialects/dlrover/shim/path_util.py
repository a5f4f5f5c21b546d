"""Paths with schemes, as in DLRover's first releases, such as "file://train.csv" and "fake://any", and their readers.

Usage:

    parse_uri("file://data/train.csv")                     # ("file://", "data/train.csv")
    reader_for(["file://day-1.csv", "file://day-2.csv"])   # the rows of both, without their headers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import InputError, did_you_mean
from . import fake_reader, file_reader  # noqa: F401  (imported to register the readers)
from .base_reader import ElasticReader
from .constants import TFConstants
from .joined_reader import JoinedReader
from .reader_util import reader_registery

FILE_SCHEME = TFConstants.FILE_SCHEME()
FAKE_SCHEME = TFConstants.FAKE_SCHEME()
_SEPARATOR = "://"


class WrongPathError(InputError, ValueError):
    """Raised for a path without a registered reader. It is also a ValueError, as in DLRover."""


def parse_uri(path: str) -> tuple[str, str]:
    """Splits a path into its scheme, such as "file://", and the rest.

    Raises:
      WrongPathError: When it has no scheme, or one without a registered reader; lists the registered schemes.
    """
    name, separator, rest = str(path).strip().partition(_SEPARATOR)
    known = sorted(reader_registery.reader_registry)
    if separator and name in known:
        return name + separator, rest
    schemes = ", ".join(scheme + _SEPARATOR for scheme in known)
    hint = did_you_mean(name, known) if separator else f" For a file, use {FILE_SCHEME}{name}."
    raise WrongPathError(f"Wrong path provided: {path!r}. It must begin with one of {schemes}.{hint}")


def reader_for(path: Any) -> Any:
    """Returns the reader for a `path` in a conf.

    Args:
      path: A path with a scheme: "file://" for the lines of a text file without the first one, "fake://" for synthetic
        rows, or a scheme registered by the conf. For a list or tuple of paths, the rows are concatenated in order. An
        object with an `iterator` method is returned unchanged, since one of DLRover's examples has a reader here.

    Raises:
      WrongPathError: When a list is empty or has paths without an ElasticReader, or a path has no known scheme.
    """
    if isinstance(path, (list, tuple)):
        return _joined(path)
    if callable(getattr(path, "iterator", None)):
        return path
    scheme, rest = parse_uri(path)
    return reader_registery.reader_registry[scheme.removesuffix(_SEPARATOR)](path=rest)


def _joined(paths: Sequence[str]) -> object:
    readers = [reader_for(path) for path in paths]
    if len(readers) == 1:
        return readers[0]
    if not readers or not all(isinstance(reader, ElasticReader) for reader in readers):
        raise WrongPathError(
            f"Wrong path provided: {paths!r}. A list must contain at least one path, and all its readers must be "
            "ElasticReaders."
        )
    return JoinedReader(readers)
