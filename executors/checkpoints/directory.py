"""Where a training keeps its checkpoints, so that the next try of it finds them, and no other training does.

On the command line the folder is `checkpoints` in the model run. In a pipeline the model run is another one at every
try, and TFX deletes that of a try that failed. There the folder lies beside the step's outputs:

    <root>/Trainer/model_run/7                          the model run of an execution
    <root>/Trainer/model_run/.checkpoints/<key>         the same for each execution with the same code, data, arguments

It goes when the step has succeeded. Those of steps that never did are cleared when another step begins beside them and
nobody has used them for `KEPT_DAYS`. A run notes in its folder, every `BEAT` seconds, that it is there.

An Estimator keeps its checkpoints among all that it writes. In a pipeline it works in that folder, and what it has
written is moved to the model run at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from absl import logging

from ..runtime.files import file_io
from ..runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..runtime.process.identity import start_of
from . import fingerprint
from .fingerprint import Identity

ROOT = ".checkpoints"
FINISHED_FITS = "fits"  # in UNPUBLISHED
UNPUBLISHED = "unpublished"  # in fn_args.checkpoint_dir: what holds until a run publishes
FITS = "keras_fits"  # in fn_args.checkpoint_dir; what `callbacks(fn_args)` saves, a folder for each fit
EVALUATED = "evaluated.jsonl"  # in fn_args.checkpoint_dir; see `evaluated_weights.py`
KEPT_DAYS = 14.0
BEAT = 20.0  # seconds
_SILENT_BEATS = 3  # after which a run on another machine counts as ended
_MARK = "in_use.json"
_WORK = "model_run"
_OWN_FILES = (_MARK, fingerprint.FILE_NAME, EVALUATED)
# Kubeflow puts a run's number in the middle: <root>/<run>/<task>/model_run, and Vertex its time.
_RUN = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|.+-\d{14}")
_TASK_NUMBER = re.compile(r"_-?\d+$")
_held: set[str] = set()  # folders that this process uses


@dataclasses.dataclass(frozen=True)
class CheckpointFolder:
    """A training's folder of checkpoints.

    Attributes:
      path: `fn_args.checkpoint_dir`.
      model_run_dir: The folder for logs while the training runs.
    """

    path: str
    model_run_dir: str

    def forget_finished(self) -> None:
        """Deletes what a run that published nothing would resume from behind its training; the next one trains anew.

        A disk that refuses is a warning: the model is published.
        """
        for name in (FITS, UNPUBLISHED):
            try:
                file_io.rmtree(os.path.join(self.path, name))
            except OSError as error:
                logging.warning("%s stays; delete it to train anew. %s", os.path.join(self.path, name), error)


def root_beside(model_run_uri: str) -> str:
    """Returns where the steps that write to a model run keep their checkpoints, whatever execution it is of.

    Args:
      model_run_uri: Such as `<root>/Trainer/model_run/7`, or Kubeflow's `<root>/<run>/<task>/model_run`. There the
        result lies beside the run's folder, so that the next run finds it, too.
    """
    above = file_io.parent(model_run_uri)
    if not os.path.basename(model_run_uri.rstrip("/")).isdigit():
        folders = above.split("/")
        for number, name in enumerate(folders[:-1]):
            if _RUN.fullmatch(name):
                task = _TASK_NUMBER.sub("", folders[number + 1])
                return "/".join([*folders[:number], ROOT, task])
    return os.path.join(above, ROOT)


@contextlib.contextmanager
def kept_beside_outputs(
    root: str, identity: Identity, model_run_dir: str, is_estimator: bool, is_chief: bool = True
) -> Iterator[CheckpointFolder]:
    """Gives a pipeline's step the folder that its other tries had; clears it when the block ends well.

    Args:
      root: Of `root_beside`.
      identity: What the training is made by.
      model_run_dir: This try's model run.
      is_estimator: Whether the training is an Estimator's, to work in the folder.
      is_chief: False for the tasks of a cluster that only use what the chief looks after.
    """
    if not is_chief:
        yield CheckpointFolder(os.path.join(root, identity.key), model_run_dir)
        return
    _clear_old(root)
    with _claimed(os.path.join(root, identity.key)) as path:
        identity.write(path)
        _take_fits_beside(root, identity, path)
        if [name for name in file_io.listdir(path) if name not in _OWN_FILES]:
            logging.info("An earlier try of this training has left its checkpoints in %s.", path)
        work = os.path.join(path, _WORK) if is_estimator else model_run_dir
        if is_estimator:
            file_io.makedirs(work)
            logging.info("What is written to the model run lies in %s until the training is through.", work)
        yield CheckpointFolder(path, work)
        if is_estimator:
            _hand_over(work, model_run_dir)
    file_io.rmtree(path)
    with contextlib.suppress(OSError):  # unless others are in there
        os.rmdir(root)


@contextlib.contextmanager
def kept_in_model_run(identity: Identity, model_run_dir: str, is_chief: bool = True) -> Iterator[CheckpointFolder]:
    """Gives a run outside of pipelines the folder in its model run, without the checkpoints of another training.

    These are moved aside. How long is trained may differ: see `Identity.differences`.
    """
    path = os.path.join(model_run_dir, "checkpoints")
    if is_chief:
        earlier = fingerprint.read(path)
        differences = identity.differences(earlier) if earlier else []
        for folder in (path, *(os.path.join(model_run_dir, name) for name in (SERVING_DIRS[0], EVAL_DIR))):
            if differences and _has_content(folder):
                logging.warning(
                    "The checkpoints in %s are of another training: %s. They are now in %s, and this training begins "
                    "anew.", folder, "; ".join(differences), aside := _move_aside(folder),
                )  # fmt: skip
                if fingerprint.is_code(differences):
                    _take_fits(aside, folder)
        identity.write(path)
    yield CheckpointFolder(path, model_run_dir)


@contextlib.contextmanager
def kept_by_caller(path: str, model_run_dir: str) -> Iterator[CheckpointFolder]:
    """Gives the folder that whoever has set `fn_args.checkpoint_dir` looks after."""
    yield CheckpointFolder(path, model_run_dir)


def _take_fits(earlier: str, folder: str) -> bool:
    """Takes the fits that ended in a try with other code; each is restored if what ran before its end is the same."""
    source = os.path.join(earlier, UNPUBLISHED, FINISHED_FITS)
    if not file_io.isdir(source):
        return False
    file_io.move(source, os.path.join(folder, UNPUBLISHED, FINISHED_FITS))
    if file_io.exists(evaluated := os.path.join(earlier, EVALUATED)):
        file_io.move(evaluated, os.path.join(folder, EVALUATED))
    logging.info("Its fits that had ended are kept in %s: those that no change of the code precedes resume.", folder)
    return True


def _take_fits_beside(root: str, identity: Identity, folder: str) -> None:
    """Takes the fits of a try of the same step that had other code, the last one, unless it is at work."""
    if file_io.isdir(os.path.join(folder, UNPUBLISHED, FINISHED_FITS)):
        return
    marks = {}
    for name in file_io.listdir(root):
        earlier = os.path.join(root, name)
        mark, made_by = _Mark.read(earlier), fingerprint.read(earlier)
        if earlier == folder or mark is None or made_by is None:
            continue
        is_at_work = mark.is_alive_here(earlier) or _may_run_elsewhere(mark)
        if not is_at_work and fingerprint.is_code(identity.differences(made_by)):
            marks[earlier] = mark.time
    for earlier in sorted(marks, key=lambda path: -marks[path]):
        if _take_fits(earlier, folder):
            return


def _may_run_elsewhere(mark: _Mark) -> bool:
    return not mark.ended and mark.host != socket.gethostname()


def _has_content(folder: str) -> bool:
    return file_io.isdir(folder) and any(name not in _OWN_FILES for name in file_io.listdir(folder))


def _move_aside(folder: str) -> str:
    number = 1
    while file_io.exists(f"{folder}.{number}"):
        number += 1
    file_io.move(folder, f"{folder}.{number}")
    return f"{folder}.{number}"


def _hand_over(work: str, model_run_dir: str) -> None:
    """Moves what an Estimator has written to the model run, which holds the run's record already."""
    for name in file_io.listdir(work):
        source, target = os.path.join(work, name), os.path.join(model_run_dir, name)
        if file_io.isdir(source):
            file_io.rmtree(target)
            file_io.move(source, target)
        else:
            file_io.file_system(target).copy(source, target, overwrite=True)


def _clear_old(root: str) -> None:
    """Deletes the folders below a root that nobody has used for `KEPT_DAYS`."""
    for name in file_io.listdir(root) if file_io.isdir(root) else ():
        folder = os.path.join(root, name)
        mark = _Mark.read(folder)
        if mark is not None and time.time() - mark.time > KEPT_DAYS * 86400 and not mark.is_alive_here(folder):
            logging.info("Deleting %s: nobody has used it for %g days.", folder, KEPT_DAYS)
            file_io.rmtree(folder)


@contextlib.contextmanager
def _claimed(wanted: str) -> Iterator[str]:
    """Gives a folder to the block alone: the one wanted, or the next free one beside it."""
    number, folder = 1, wanted
    while _is_in_use(folder):
        number += 1
        logging.warning("%s is in use by another run of the same training.", folder)
        folder = f"{wanted}-{number}"
    file_io.makedirs(folder)
    ended = threading.Event()
    _Mark.ours().write(folder)
    beating = threading.Thread(target=_beat, args=(folder, ended), name="checkpoint folder", daemon=True)
    _held.add(folder)
    beating.start()
    try:
        yield folder
    finally:
        ended.set()
        beating.join()
        _held.discard(folder)
        with contextlib.suppress(Exception):  # a full disk must not hide what went wrong before
            dataclasses.replace(_Mark.ours(), ended=True).write(folder)


def _beat(folder: str, ended: threading.Event) -> None:
    beats = 0
    while not ended.wait(BEAT):
        beats += 1
        try:
            dataclasses.replace(_Mark.ours(), beats=beats).write(folder)
        except Exception as error:  # whatever a file system raises; the training does not depend on it
            logging.warning("%s: cannot note that this run uses it (%s).", folder, error)


def _is_in_use(folder: str) -> bool:
    """Returns whether another run uses a folder; one on another machine is waited for to give a sign of life."""
    mark = _Mark.read(folder)
    if mark is None or mark.ended:
        return False
    if mark.host == socket.gethostname():
        return mark.is_alive_here(folder)
    end = time.monotonic() + _SILENT_BEATS * BEAT
    if time.time() - mark.time < 10 * _SILENT_BEATS * BEAT:  # clocks differ
        logging.info("%s was in use by a process of %s; looking whether it still is.", folder, mark.host)
        while time.monotonic() < end:
            time.sleep(BEAT / 4)
            if _Mark.read(folder) != mark:
                return True
    return False


@dataclasses.dataclass(frozen=True)
class _Mark:
    """Who uses a folder.

    Attributes:
      host: The machine.
      process: Its process.
      started: When that began, in the machine's own count; tells it from a later one of the same number.
      beats: Counts its signs of life.
      time: When the last was, in seconds since 1970.
      ended: Whether it has said goodbye.
    """

    host: str
    process: int
    started: str
    beats: int
    time: float
    ended: bool = False

    @classmethod
    def ours(cls) -> _Mark:
        return cls(socket.gethostname(), os.getpid(), start_of(os.getpid()), 0, time.time())

    @classmethod
    def read(cls, folder: str) -> _Mark | None:
        path = os.path.join(folder, _MARK)
        try:
            content: dict[str, Any] = json.loads(file_io.read_text(path)) if file_io.exists(path) else {}
            return cls(**content) if content else None
        except Exception:  # half written, of another release, or whatever a file system raises of a file that has gone
            return None

    def write(self, folder: str) -> None:
        file_io.write_text(os.path.join(folder, _MARK), json.dumps(dataclasses.asdict(self)))

    def is_alive_here(self, folder: str) -> bool:
        """Returns whether the process runs on this machine."""
        if self.ended or self.host != socket.gethostname():
            return False
        if self.process == os.getpid():
            return folder in _held  # a container's first process has the number of the one before it
        return self.started == start_of(self.process) != ""
