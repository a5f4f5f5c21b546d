"""Moves damaged checkpoints and damaged files beside them out of the way, and lists them for the run record.

    checkpoints/ckpt-7.index, …              a damaged checkpoint
    checkpoints/damaged/ckpt-7.1/…           its files from then on: nothing looks for checkpoints there

In a run, `damaged` is in `fn_args.checkpoint_dir`, with the same folders below, because the folders of fits are deleted
when the model is published. Checkpoints elsewhere are moved to `damaged` beside them.

Usage, in the process that runs the module:

    with damage_recorded(fn_args.checkpoint_dir, fn_args.model_run_dir):
        run_fn(fn_args)

and in the process that writes the run record:

    read_damage(model_run_dir)     # [Damage("…/ckpt-7", problem, moved_to, result)]
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import io
import json
import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from absl import logging

from .. import run_context
from ..errors import CheckpointError, InputError
from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData, read_json
from .contents import DAMAGED, numbered

if TYPE_CHECKING:
    import numpy as np

_LIST = "damaged_checkpoints.json"  # in the model run until the run record has its content


class DamagedError(CheckpointError):
    """Files of a checkpoint are damaged; the message is a clause that describes the damage."""


@dataclasses.dataclass(frozen=True)
class Damage(JsonData):
    """A damaged checkpoint or file.

    Attributes:
      path: Its path: a file, a folder, or the prefix of a checkpoint's files.
      problem: What is wrong with it.
      moved_to: The folder that has its files now; "" if there were none.
      result: What happens instead: "training resumes from ckpt-5".
    """

    path: str
    problem: str
    moved_to: str
    result: str


class DamageList:
    """The damage that a run has repaired so far.

    Attributes:
      intact: Folders whose newest checkpoint is known to be complete: later ones are written by this run.

    Args:
      checkpoint_dir: `fn_args.checkpoint_dir`.
      model_run_dir: Folder for the list.
    """

    def __init__(self, checkpoint_dir: str, model_run_dir: str) -> None:
        self.intact: set[str] = set()
        self._root = checkpoint_dir
        self._model_run_dir = model_run_dir

    def folder_for(self, path: str) -> str:
        """Returns the folder that a damaged file is moved to."""
        below = os.path.relpath(file_io.parent(path), self._root) if self._root else os.pardir
        if below == os.curdir or below.startswith(os.pardir):
            return _beside(path)
        return os.path.join(self._root, DAMAGED, below)

    def add(self, damage: Damage) -> None:
        """Adds damage to the list; a restarted worker continues the list of the one before."""
        content = [known.to_json() for known in (*read_damage(self._model_run_dir), damage)]
        file_io.write_text(os.path.join(self._model_run_dir, _LIST), json.dumps(content))


@contextlib.contextmanager
def damage_recorded(checkpoint_dir: str | None, model_run_dir: str) -> Iterator[None]:
    """Lists the damage that is repaired in the block for `read_damage`."""
    with run_context.extended(DamageList(checkpoint_dir or "", model_run_dir)):
        yield


def read_damage(model_run_dir: str) -> list[Damage]:
    """Returns the damage that the run in a folder has repaired; none if the list itself is damaged."""
    path = os.path.join(model_run_dir, _LIST)
    with contextlib.suppress(InputError):
        return read_json(path, list[Damage], "The list of damage") if file_io.exists(path) else []
    return []


def forget_damage(model_run_dir: str) -> None:
    """Deletes the list of a run."""
    path = os.path.join(model_run_dir, _LIST)
    if file_io.exists(path):
        file_io.file_system(path).remove(path)


def set_aside(path: str, problem: str, result: str) -> None:
    """Moves a damaged checkpoint or file to the folder for damaged ones, logs that, and adds it to the run's list.

    Args:
      path: A file, a folder, or the prefix of a checkpoint's files.
      problem: What is wrong with it, as a clause.
      result: What happens instead, as a clause.
    """
    damages = run_context.part(DamageList)
    folder = damages.folder_for(path) if damages else _beside(path)
    target = numbered(os.path.join(folder, os.path.basename(path)))
    moved = [path] if file_io.exists(path) else file_io.glob(f"{glob.escape(path)}.*")
    for file in moved:
        file_io.move(file, target if file_io.isdir(file) else os.path.join(target, os.path.basename(file)))
    where = f" It was moved to {target}." if moved else ""
    logging.warning("%s is damaged: %s.%s %s.", path, problem, where, result[0].upper() + result[1:])
    if damages:
        damages.add(Damage(path, problem, target if moved else "", result))


def read_sidecar(path: str, keys: Collection[str], result: str) -> dict[str, Any] | None:
    """Returns the JSON object in a file beside checkpoints; None if it is missing, or damaged and now set aside.

    Args:
      path: The file.
      keys: Names that the object must have.
      result: What happens without it, as a clause.
    """
    if not file_io.exists(path):
        return None
    try:
        content = json.loads(file_io.read_text(path))
    except ValueError:
        content = None
    if isinstance(content, dict) and content.keys() >= set(keys):
        return content
    set_aside(path, f"it is not a JSON object with {', '.join(keys)}", result)
    return None


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """Returns the arrays in an .npz file, by name.

    Raises:
      DamagedError: If the file is damaged.
      StorageError: If it cannot be read.
    """
    import numpy as np

    content = file_io.read_bytes(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception:  # of NumPy, zipfile, zlib and struct
        raise DamagedError(f"{os.path.basename(path)} cannot be read") from None


def _beside(path: str) -> str:
    return os.path.join(file_io.parent(path), DAMAGED)
