"""Where Beam's temporary folders go while a pipeline runs here: each of its jobs leaves three of them behind."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator

from ..executors.fit_hooks import replaced


@contextlib.contextmanager
def removed_afterwards() -> Iterator[None]:
    """Makes the folders that Beam asks `tempfile` for in one of this block's, which is removed at its end."""
    with tempfile.TemporaryDirectory(prefix="generic-trainer-beam-", ignore_cleanup_errors=True) as folder:

        def mkdtemp(original: Callable[..., str], suffix: str = "", prefix: str = "tmp", dir: str | None = None) -> str:
            caller = sys._getframe(2).f_globals.get("__name__", "")
            return original(suffix, prefix, folder if dir is None and caller.startswith("apache_beam.") else dir)

        with replaced(tempfile, "mkdtemp", mkdtemp):
            yield
