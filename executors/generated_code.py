"""What AutoGraph writes into the folder for temporary files: the sources that it generates, and their byte code."""

from __future__ import annotations

import contextlib
import os
import sys


def remove_byte_code() -> None:
    """Removes the byte code, which is in memory by now; AutoGraph itself removes the sources, when a process ends."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and (cached := getattr(module, "__cached__", None)):
            with contextlib.suppress(OSError):
                os.remove(cached)
