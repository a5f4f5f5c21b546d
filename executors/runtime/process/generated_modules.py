"""Removes the source and byte code files that AutoGraph generates in the temporary directory."""

from __future__ import annotations

import contextlib
import os
import sys


def remove_byte_code() -> None:
    """Removes the byte code files, which are not needed once imported; AutoGraph removes the sources at exit."""
    _remove("__cached__")


def remove_all() -> None:
    """Removes the byte code and the sources, for a process that ends without `atexit`."""
    _remove("__cached__", "__file__")


def _remove(*attributes: str) -> None:
    generated = [module for name, module in list(sys.modules.items()) if name.startswith("__autograph_generated_file")]
    for path in (getattr(module, name, None) for module in generated for name in attributes):
        if path:
            with contextlib.suppress(OSError):
                os.remove(path)
