"""Finds the slow libraries that a module imports, from its source files."""

from __future__ import annotations

from collections.abc import Sequence

from .source import imports_in

_LIBRARIES = {"tensorflow_transform": "tensorflow_transform", "tfx_bsl": "tfx_bsl.public.tfxio"}


def libraries_of(files: Sequence[str]) -> list[str]:
    """Returns the slow modules of TFX's libraries that source files import and another process can import in advance.

    Importing them starts no thread, and does not initialize TensorFlow.
    """
    packages = {name.partition(".")[0] for file in files for _, name in imports_in(file)}
    return [module for package, module in _LIBRARIES.items() if package in packages]
