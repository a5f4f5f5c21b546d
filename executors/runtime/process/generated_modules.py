"""What AutoGraph writes into the folder for temporary files: the sources that it generates, and their byte code."""

from __future__ import annotations

import contextlib
import os
import sys


def remove_byte_code() -> None:
    """Removes the byte code, which is in memory by now; AutoGraph itself removes the sources, when a process exits."""
    _remove("__cached__")


def remove_all() -> None:
    """Removes the sources, too, for a process that ends without `atexit`."""
    _remove("__cached__", "__file__")


def _remove(*attributes: str) -> None:
    generated = [module for name, module in list(sys.modules.items()) if name.startswith("__autograph_generated_file")]
    for path in (getattr(module, name, None) for module in generated for name in attributes):
        if path:
            with contextlib.suppress(OSError):
                os.remove(path)
