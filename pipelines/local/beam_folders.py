"""Cleans up temporary files that Beam and TensorFlow Transform leave behind after a local pipeline run."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

from ...executors.runtime.process.shared_setting import SharedSetting


def temporary_beam_folder() -> contextlib.AbstractContextManager[None]:
    """Sets `tempfile.tempdir` to a new folder for the duration of the block, and deletes that folder at its end."""
    return _FOLDER.held()


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="generic-trainer-beam-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


_FOLDER = SharedSetting(_temporary_folder)
