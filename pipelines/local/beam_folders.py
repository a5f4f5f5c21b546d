"""Where temporary files of Beam and TensorFlow Transform go while a pipeline runs here; both leave some behind."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator

from ...executors.keras.interception import replaced
from ...executors.runtime.process.generated_modules import remove_byte_code


@contextlib.contextmanager
def removed_afterwards() -> Iterator[None]:
    """Makes the folders that Beam asks `tempfile` for, three for each job, in one that goes at the block's end."""
    with tempfile.TemporaryDirectory(prefix="generic-trainer-beam-", ignore_cleanup_errors=True) as folder:

        def mkdtemp(original: Callable[..., str], suffix: str = "", prefix: str = "tmp", dir: str | None = None) -> str:
            caller = sys._getframe(2).f_globals.get("__name__", "")
            return original(suffix, prefix, folder if dir is None and caller.startswith("apache_beam.") else dir)

        try:
            with replaced(tempfile, "mkdtemp", mkdtemp):
                yield
        finally:
            remove_byte_code()
