"""Finds the installed packages that have TensorFlow custom ops, by the content of their libraries.

packages_with(["TFText>NgramsStringJoin"])  # ["tensorflow_text"], if it is installed
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import mmap
from collections.abc import Collection, Iterator

_LINKED = b"libtensorflow_framework"  # every library of ops is linked with it


def packages_with(ops: Collection[str]) -> list[str]:
    """Returns the packages that have a library of ops with one of these names in it; only an import proves it.

    All libraries of the environment are read, which takes 2 s for 800 libraries of 1.1 GB: call it only for an op that
    is missing.
    """
    names = [op.rpartition(">")[2].encode() for op in ops]  # a library may add the namespace when it is loaded
    return sorted({package for package, path in _libraries() if _has_ops(path, names)}) if names else []


def _libraries() -> Iterator[tuple[str, str]]:
    """Yields package and path of each library that a distribution has installed, except TensorFlow's own."""
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            package = file.parts[0].partition(".")[0]
            if file.suffix == ".so" and package.isidentifier() and package != "tensorflow":
                yield package, str(file.locate())


def _has_ops(path: str, names: Collection[bytes]) -> bool:
    with contextlib.suppress(OSError, ValueError):  # a file that is gone, or empty
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_LINKED) >= 0 and any(content.find(name) >= 0 for name in names)
    return False
