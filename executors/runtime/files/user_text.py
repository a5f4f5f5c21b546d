"""Reads small files written by a user: configurations, manifests, schemas. Larger ones are refused before parsing.

read_user_file("taxi.yaml", "--config")
"""

from __future__ import annotations

from ...errors import InputError, StorageError
from ..quantities import size_text
from . import file_io

# PyYAML parses 0.4 to 2 MB a second; a configuration or a manifest has a few kB.
MAX_BYTES = 4_000_000


def read_user_file(path: str, what: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns a file's content.

    Args:
      path: The file.
      what: The option or kind of file, for messages, such as "--config".
      max_bytes: The largest size that is read.

    Raises:
      InputError: When it cannot be read, or is larger.
    """
    try:
        content = file_io.read_bytes(path, max_bytes + 1)
    except StorageError as error:
        raise InputError(f"{what} {path}: {error}") from error
    except OSError as error:
        raise InputError(f"{what} {path}: cannot read the file ({error.strerror}).") from error
    if len(content) > max_bytes:
        raise InputError(
            f"{what} {path}: the file is larger than {size_text(max_bytes)}, the limit. Give another file, or remove "
            "what is not needed."
        )
    return content
