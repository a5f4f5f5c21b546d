"""Packs a training module's files by content, to send it to another machine without shared storage.

    bundle = pack(find_source("trainers/taxi.py", scratch))
    source = unpack(bundle, folder)     # on the other machine: the same module, its files below the folder

If files with the same contents exist at the same paths on the other machine, they are used in place, so that further
files beside them are found as well.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from typing import TypedDict

from ...errors import InputError
from ...modules.archive import MAX_ARCHIVE_BYTES
from ...modules.source import ModuleSource


class SourceBundle(TypedDict):
    """A module's source as plain values.

    Attributes:
      source: The fields of its `ModuleSource`.
      contents: The contents of its files by path.
    """

    source: dict[str, object]
    contents: dict[str, bytes]


def pack(source: ModuleSource) -> SourceBundle:
    """Returns the module as plain values: the fields of its source, and the contents of its files by path.

    Raises:
      InputError: When the files together exceed `MAX_ARCHIVE_BYTES`.
    """
    contents = {}
    for path in source.files:
        with open(path, "rb") as file:
            contents[path] = file.read()
    size = sum(map(len, contents.values()))
    if size > MAX_ARCHIVE_BYTES:
        raise InputError(f"{source.reference}: its files have {size:,} bytes; the limit is {MAX_ARCHIVE_BYTES:,}.")
    return {"source": dataclasses.asdict(source), "contents": contents}


def unpack(bundle: SourceBundle, folder: str) -> ModuleSource:
    """Writes the files below a folder, preserving their layout, and returns the module there."""
    source = ModuleSource.from_json(bundle["source"])
    if all(_exists_here(path, content) for path, content in bundle["contents"].items()):
        return source
    places = {path: _place(path, folder) for path in (*source.files, *source.roots, source.path)}
    for path, content in bundle["contents"].items():
        os.makedirs(os.path.dirname(places[path]), exist_ok=True)
        with open(places[path], "wb") as file:
            file.write(content)
    for root in source.roots:
        os.makedirs(places[root], exist_ok=True)
    return dataclasses.replace(
        source,
        path=places[source.path],
        roots=tuple(places[root] for root in source.roots),
        files=tuple(places[path] for path in source.files),
    )


def _exists_here(path: str, content: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest() == hashlib.sha256(content).digest()
    except OSError:
        return False


def _place(path: str, folder: str) -> str:
    """Returns the target of a file or root: its old absolute path, appended to the folder."""
    return os.path.join(folder, os.path.relpath(os.path.realpath(path), os.sep))
