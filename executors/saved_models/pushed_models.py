"""The push destination for models: a folder of numbered versions, of which TensorFlow Serving loads the highest.

with run_context.extended(pushed := Pushed()):
    place = already_pushed(model, "pipeline/serving") or push(model, "pipeline/serving")
pushed.place                                # the new version
"""

from __future__ import annotations

import dataclasses
import errno
import os
import time

from .. import run_context
from ..runtime.files import durable, file_io
from ..runtime.process.preemption import deferred_signals
from ..runtime.process.termination import raise_if_ended
from .staging import staging_directory

_CHUNK = 1 << 20  # bytes
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@dataclasses.dataclass
class Pushed:
    """What the run has pushed, as a part of its `run_context`.

    Attributes:
      place: The path of the new version; "" until it is complete.
    """

    place: str = ""


def already_pushed(model: str, folder: str) -> str | None:
    """Returns the path of the newest version in a folder if it is the same model, else None.

    Compares contents: the version must contain every file of the model, byte for byte. It may contain further files,
    such as warm-up requests. Older versions are ignored, as a server loads the newest.
    """
    return next((place for place in file_io.numbered_in(folder)[:1] if _contains_model(place, model)), None)


def push(model: str, folder: str) -> str:
    """Copies a model into a new version of a folder, and returns the version's path.

    The version number is the time in seconds, as with TFX's Pusher, but always higher than existing ones, so that a
    server loads it even if the clock was set back. On a local disk the version appears by an atomic rename; on an
    object store `saved_model.pb` is copied last. A failed copy is removed. After a signal that ends the command, no
    version appears.
    """
    if file_io.is_remote(folder):
        place = _next_version(folder)
        file_io.copytree(model, place, before_last=raise_if_ended)
        _note(place)
        return place
    with staging_directory(folder) as staging:  # servers ignore names that are not numbers
        file_io.copytree(model, staging.written)
        with deferred_signals(repeated=True):
            raise_if_ended()
            place = _rename_to_next_version(staging.written, folder)
            _note(place)
            durable.sync_parents(place)
        return place


def _note(place: str) -> None:
    if (pushed := run_context.part(Pushed)) is not None:
        pushed.place = place


def _next_version(folder: str) -> str:
    return os.path.join(folder, str(max(int(time.time()), (newest_version(folder) or 0) + 1)))


def _rename_to_next_version(staged: str, folder: str) -> str:
    """Renames a staged model to the next version; tries again if another pipeline creates the same version."""
    while True:
        place = _next_version(folder)
        try:
            file_io.move(staged, place)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return place


def newest_version(folder: str) -> int | None:
    """Returns the highest numeric name in a folder; None without any."""
    versions = file_io.numbered_in(folder)
    return int(os.path.basename(versions[0])) if versions else None


def _contains_model(place: str, model: str) -> bool:
    pairs = [(os.path.join(place, name), os.path.join(model, name)) for name in file_io.files_below(model)]
    if not all(file_io.exists(there) and file_io.size_of(there) == file_io.size_of(own) for there, own in pairs):
        return False
    return bool(pairs) and all(_contents_are_equal(there, own) for there, own in pairs)


def _contents_are_equal(first: str, second: str) -> bool:
    with file_io.opened(first) as file, file_io.opened(second) as other:
        chunks = iter(lambda: (file.read(_CHUNK), other.read(_CHUNK)), (b"", b""))
        return all(chunk == other_chunk for chunk, other_chunk in chunks)
