"""Validates paths given by a user before anything heavy is imported."""

from __future__ import annotations

import importlib.util
import os

from ...errors import InputError, did_you_mean
from .file_kinds import require_readable_kind
from .object_store import PACKAGES, is_installed

_WEB = ("http", "https", "ftp")
_IN_TENSORFLOW = ("gs", "file", "ram")
_IN_TENSORFLOW_IO = ("hdfs", "viewfs", "har", "az", "oss")


def require_valid(path: str, what: str) -> None:
    """Checks that a value can be a path.

    Args:
      path: The value.
      what: The option, for the message.

    Raises:
      InputError: When it is blank or contains control characters.
    """
    if not path.strip():
        raise InputError(f"{what} {path!r}: the path is empty. Give one, or leave the option out.")
    if any(ord(character) < ord(" ") or ord(character) == 0x7F for character in path):
        raise InputError(f"{what} {path!r}: the path contains control characters. Rename the file or folder.")


def require_scheme(path: str, what: str) -> None:
    """Checks that there is a file system for a path's scheme in this environment.

    Raises:
      InputError: When it has none; the message gives the remedy.
    """
    scheme, mark, _ = path.partition("://")
    if not mark or scheme in _IN_TENSORFLOW:
        return
    if scheme in _WEB:
        raise InputError(
            f"{what} {path}: files are not downloaded from the web. Download the file first, or copy it to a bucket."
        )
    if scheme in PACKAGES:
        if not is_installed(scheme):
            raise InputError(
                f"{what} {path}: {scheme}:// needs the package {PACKAGES[scheme]}, which is not installed. Run pip "
                f"install 'generic-trainer[{scheme}]', or mount the storage as a folder."
            )
        return
    if scheme in _IN_TENSORFLOW_IO:
        if importlib.util.find_spec("tensorflow_io") is None:
            raise InputError(
                f"{what} {path}: TensorFlow reads {scheme}:// only with the package tensorflow-io, which is not "
                "installed. Its last release is for TensorFlow 2.16; for later ones, mount the storage as a folder."
            )
        return
    known = (*_IN_TENSORFLOW, *PACKAGES, *_IN_TENSORFLOW_IO)
    raise InputError(
        f"{what} {path}: no file system has the scheme {scheme!r}; the supported schemes are "
        f"{', '.join(known)}.{did_you_mean(scheme, known)}"
    )


def require_writable_kind(path: str, what: str, *, folder: bool) -> None:
    """Checks that a local output can be created at a path.

    Args:
      path: The value.
      what: The option, for the message.
      folder: Whether the output is a folder.

    Raises:
      InputError: When the path has another kind, a parent is not a folder, or it is the root folder.
    """
    if "://" in path:
        return
    wanted, other = ("a folder", "a file") if folder else ("a file", "a folder")
    require_readable_kind(path, what, wanted)
    if os.path.realpath(path) == os.sep:
        raise InputError(f"{what} {path}: this is the root folder. Give a folder below it.")
    if os.path.exists(path) and os.path.isdir(path) != folder:
        raise InputError(f"{what} {path}: this is {other}, but {wanted} must be written there. Give another path.")
    above = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise InputError(f"{what} {path}: {above} is not a folder, so nothing can be written below it.")
