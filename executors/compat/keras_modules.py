"""Finds out which modules of `keras` the installed Keras has, from its files."""

from __future__ import annotations

import importlib.machinery
import os
import sys

KERAS = "keras"
# Subpackages of `keras` with Keras 3's implementation, which imports optional modules that may be missing. Imports of
# missing modules below `keras` by other code do not use these subpackages.
_IMPLEMENTATION = ("src", "_tf_keras", "api")


def is_missing(name: str) -> bool:
    """Whether a dotted name below `keras` is a module that the installed Keras does not have; imports nothing."""
    package, *parts = name.split(".")
    if package != KERAS or not parts or parts[0] in _IMPLEMENTATION:
        return False
    roots = _folders()
    places = [os.path.join(root, *parts) for root in roots]
    return bool(roots) and not any(os.path.isdir(place) or os.path.isfile(f"{place}.py") for place in places)


def _folders() -> list[str]:
    present = sys.modules.get(KERAS)
    if present is not None and not hasattr(present, "__path__"):
        return []
    spec = importlib.machinery.PathFinder.find_spec(KERAS)
    return list(spec.submodule_search_locations or ()) if spec else []
