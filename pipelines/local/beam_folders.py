"""Where temporary files go while a pipeline runs here: Beam and TensorFlow Transform leave some behind."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def removed_afterwards() -> Iterator[None]:
    """Has `tempfile` of this process make files and folders in one folder, which goes at the block's end."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="generic-trainer-beam-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before
