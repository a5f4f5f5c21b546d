"""Objects that installed packages, this one and others, register by entry point in a group `generic_trainer.NAME`.

[options.entry_points]
generic_trainer.run_callbacks =
    slack = my_package.slack:SlackNote

load("generic_trainer.run_callbacks")    # {"slack": <class SlackNote>, …}
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import os
import sys
from importlib.metadata import EntryPoint

from .errors import InputError, did_you_mean

_PREFIX = "generic_trainer."


def entries(group: str) -> tuple[EntryPoint, ...]:
    """Returns the entry points of a group in the order of their names; their objects are not imported.

    Raises:
      InputError: If two packages register the same name.
    """
    everything = _all_entries(tuple(filter(_has_packages, dict.fromkeys(map(_version_of, sys.path)))))
    registered = tuple(entry for entry in everything if entry.group == group)
    for entry, other in itertools.pairwise(registered):
        if entry.name == other.name:
            raise InputError(
                f"{entry.value} of {package_of(entry)} and {other.value} of {package_of(other)} are both registered "
                f"as {entry.name!r} in {group}. Remove one of the packages, or rename its entry point."
            )
    return registered


def package_of(entry: EntryPoint) -> str:
    """Returns the distribution that registers an entry point, for messages."""
    return f"the package {entry.dist.name}" if entry.dist else "an unknown package"


def load(group: str) -> dict[str, object]:
    """Returns the objects that are registered in a group, by name.

    Raises:
      InputError: If one cannot be imported; names its package.
    """
    return {entry.name: _loaded(entry) for entry in entries(group)}


def load_one(group: str, name: str) -> object:
    """Returns the object that is registered in a group under a name, without importing the others; see `load`.

    Raises:
      InputError: If there is none, or it cannot be imported.
    """
    known = {entry.name: entry for entry in entries(group)}
    if name not in known:
        raise InputError(
            f"No installed package registers {name!r} in {group}; there are {', '.join(known) or 'none'}."
            f"{did_you_mean(name, known)}"
        )
    return _loaded(known[name])


@functools.lru_cache(maxsize=1)  # a search reads the metadata of every installed package
def _all_entries(folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    installed = importlib.metadata.entry_points()
    own = [entry for group in installed.groups if group.startswith(_PREFIX) for entry in installed.select(group=group)]
    return tuple(sorted(own, key=lambda entry: (entry.group, entry.name)))


@functools.cache
def _has_packages(version: tuple[str, int]) -> bool:
    """Whether packages may be installed in a folder, or a zip file, of the module search path."""
    folder, _ = version
    try:
        return any(name.endswith((".dist-info", ".egg-info", ".egg")) for name in os.listdir(folder or os.curdir))
    except NotADirectoryError:
        return True
    except OSError:
        return False


def _version_of(folder: str) -> tuple[str, int]:
    """Returns a folder of the module search path and its time of change, which an installation sets."""
    try:
        return folder, os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return folder, 0


@functools.cache
def _loaded(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except InputError:  # of another entry point
        raise
    except Exception as error:
        if entry.module.partition(".")[0] == __name__.partition(".")[0]:  # not the package's fault, but the machine's
            raise
        raise InputError(
            f"{entry.value}, which {package_of(entry)} registers as {entry.name} in {entry.group}, cannot be imported "
            f"({type(error).__name__}: {error}). Reinstall that package, or remove it."
        ) from error
