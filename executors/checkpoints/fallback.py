"""Finds the newest complete checkpoint of a folder, and moves damaged newer ones aside.

A checkpoint that was being written when a machine lost power, or on a failing disk, may be empty, cut off or garbled,
or lack a file. All of a checkpoint is read before any of it is restored: its index, and every tensor, whose checksum
TensorFlow compares. An error while restoring would come too late: an optimizer's variables may be restored in the
first step, an Estimator restores in a session of its own, and a model may be half restored. Reading takes about as long
as restoring (0.3 s per GB from memory), and leaves the files in the disk cache.

Only a damaged file counts as damage. If storage fails, or access is denied, an error is raised and nothing is moved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import time
from collections.abc import Iterator, Mapping

import tensorflow as tf
from absl import logging

from .. import run_context
from ..compat.tensorflow import eager_mode
from ..runtime.files import file_io
from ..runtime.files.retry import retry_call
from .damage import DamageList, set_aside

_STATE = "checkpoint"  # TensorFlow's file with the names of a folder's checkpoints
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_INDEX = re.compile(r"(.+-(\d+))\.index")
_MAX_BYTES = 64 << 20  # of tensors to read at a time; a larger tensor is read alone
_WAIT_SECONDS = 60.0  # for the chief to move damaged checkpoints; tasks of a cluster rarely start further apart
_PROBLEMS = {
    tf.errors.NotFoundError: "a file is missing",
    tf.errors.OutOfRangeError: "a file is cut off",
    tf.errors.DataLossError: "a file is cut off, or its content has changed",
}


def newest_complete(folder: str, is_owner: bool = True) -> str | None:
    """Returns the path prefix of the newest complete checkpoint of a folder; None if there is none.

    The owner moves damaged newer ones aside and updates TensorFlow's state file, so that `tf.train.latest_checkpoint`
    returns the same. The other tasks of a cluster wait for that, and all of them agree.

    Args:
      folder: The folder.
      is_owner: Whether this process is the only one that writes to the folder, as a cluster's chief is.

    Raises:
      StorageError: If a file cannot be read, or a damaged one cannot be moved.
    """
    damages = run_context.part(DamageList)
    if damages and folder in damages.intact:
        path: str | None = tf.train.latest_checkpoint(folder)
        return path
    search = search_newest(folder)
    if is_owner:
        search.repair()
    else:
        _await_repair(search)
    if damages:
        damages.intact.add(folder)
    return search.newest


def damage_of(path: str) -> str:
    """Returns a clause that describes the damage of a checkpoint; "" if it is complete.

    Raises:
      StorageError: If its files cannot be read.
    """
    with eager_mode():
        return retry_call(lambda: _problem_of(path), "Reading", path)


def _problem_of(path: str) -> str:
    try:
        _read(path)
    except tuple(_PROBLEMS) as error:
        return _PROBLEMS[type(error)]
    return ""


def _read(path: str) -> None:
    with contextlib.suppress(tf.errors.NotFoundError):  # of a checkpoint without an object graph
        _restore(path, {_GRAPH: tf.string})  # before the reader, which reports a damaged index as an unknown error
    reader = tf.train.load_checkpoint(path)
    for types in _parts(reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()):
        _restore(path, types)


def _parts(types: Mapping[str, tf.DType], shapes: Mapping[str, list[int]]) -> Iterator[dict[str, tf.DType]]:
    part: dict[str, tf.DType] = {}
    size = 0
    for name, dtype in types.items():
        added = tf.TensorShape(shapes[name]).num_elements() * dtype.size
        if part and size + added > _MAX_BYTES:
            yield part
            part, size = {}, 0
        part[name] = dtype
        size += added
    yield part


def _restore(path: str, types: Mapping[str, tf.DType]) -> None:
    if types:
        tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=list(types), shape_and_slices=[""] * len(types), dtypes=list(types.values())
        )


@dataclasses.dataclass(frozen=True)
class Search:
    """The result of a search for the newest complete checkpoint.

    Attributes:
      folder: The folder.
      newest: The path prefix of the newest complete checkpoint, or None.
      damaged: {path prefix: problem} of the damaged newer ones.
      listed: The path prefixes in TensorFlow's state file, the newest last.
      state_problem: What is wrong with the state file; "" if nothing is, or if there is none.
    """

    folder: str
    newest: str | None
    damaged: Mapping[str, str]
    listed: tuple[str, ...]
    state_problem: str

    def repair(self) -> None:
        """Moves the damaged checkpoints aside, and updates the state file."""
        for path, problem in self.damaged.items():
            set_aside(path, problem, self.result)
        state = os.path.join(self.folder, _STATE)
        if self.state_problem:
            set_aside(state, self.state_problem, self.result)
        elif self.listed and self.newest is None:
            set_aside(state, "all checkpoints that it lists are damaged", self.result)
        if self.newest is not None and self.listed[-1:] != (self.newest,):
            logging.info("%s now lists %s.", state, os.path.basename(self.newest))
            file_io.write_text(state, self._state_text(self.newest))

    @property
    def result(self) -> str:
        """What training does, as a clause."""
        if self.newest is None:
            return "training starts from the beginning"
        return f"training resumes from {os.path.basename(self.newest)}"

    def _state_text(self, newest: str) -> str:
        """Returns a state file's text, with relative paths: folders may be moved.

        It lists no checkpoint that was not listed before, except for the newest, because TensorFlow deletes the oldest.
        """
        older = [path for path in self.listed if path not in (*self.damaged, newest) and _exists(path)]
        names = [json.dumps(os.path.relpath(path, self.folder)) for path in (*older, newest)]
        lines = [f"model_checkpoint_path: {names[-1]}", *(f"all_model_checkpoint_paths: {name}" for name in names)]
        lines += [f"all_model_checkpoint_timestamps: {_time_of(path)!r}" for path in (*older, newest)]
        return "\n".join(lines) + "\n"


def search_newest(folder: str) -> Search:
    """Searches a folder for the newest complete checkpoint, without changing anything."""
    listed, state_problem = _read_state(folder)
    damaged: dict[str, str] = {}
    for path in _newest_first(folder, listed):
        if not (problem := damage_of(path)):
            return Search(folder, path, damaged, listed, state_problem)
        damaged[path] = problem
    return Search(folder, None, damaged, listed, state_problem)


def _read_state(folder: str) -> tuple[tuple[str, ...], str]:
    """Returns the checkpoints in TensorFlow's state file, the newest last, and what is wrong with the file."""
    path = os.path.join(folder, _STATE)
    if not file_io.exists(path):  # the first checkpoint was being written, or somebody has deleted the file
        return (), ""
    file_io.read_bytes(path)  # raises a disk error, which TensorFlow only logs
    state = None
    with contextlib.suppress(ValueError):
        state = tf.train.get_checkpoint_state(folder)
    if state is None:
        return (), "it is empty or garbled"
    paths = [*state.all_model_checkpoint_paths, state.model_checkpoint_path]
    return tuple(dict.fromkeys(reversed(paths)))[::-1], ""


def _newest_first(folder: str, listed: tuple[str, ...]) -> list[str]:
    """Returns all checkpoints: first those of the state file, then others by step and time."""
    names = file_io.listdir(folder) if file_io.isdir(folder) else []
    steps = {os.path.join(folder, match[1]): int(match[2]) for match in map(_INDEX.fullmatch, names) if match}
    others = sorted(steps.keys() - set(listed), key=lambda path: (steps[path], _time_of(path)))
    return [*reversed(listed), *reversed(others)]


def _await_repair(search: Search) -> None:
    """Waits until the owner of a folder has moved its damaged checkpoints."""
    if not search.damaged:
        return
    logging.info("Waiting until the chief has moved the damaged checkpoints in %s.", search.folder)
    end = time.monotonic() + _WAIT_SECONDS
    while tf.train.latest_checkpoint(search.folder) in search.damaged and time.monotonic() < end:
        time.sleep(0.2)


def _exists(path: str) -> bool:
    return file_io.exists(f"{path}.index")


def _time_of(path: str) -> float:
    return float(tf.io.gfile.stat(f"{path}.index").mtime_nsec / 1e9)
