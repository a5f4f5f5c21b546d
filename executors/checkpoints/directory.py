"""Location of checkpoint directories: retries of a training find its checkpoints, other trainings do not.

On the command line, the directory is `checkpoints` in the model run. In a pipeline, each attempt has a different model
run, and TFX deletes the model run of a failed attempt. There the directory is next to the step's outputs:

    <root>/Trainer/model_run/7                          the model run of an execution
    <root>/Trainer/model_run/.checkpoints/<key>         shared by executions with the same code, data and arguments

It is deleted when the step succeeds. Directories of steps that never succeeded are deleted when another step starts
next to them, once they have been unused for `KEPT_DAYS` days. A run marks its directory as in use by a heartbeat file,
updated every `HEARTBEAT_SECONDS` seconds.

An Estimator writes its checkpoints to its model directory, among other files. In a pipeline, the model directory is
below the checkpoint directory, and its content is moved to the model run at the end.
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

from absl import logging

from ..runtime.files import durable, file_io
from ..runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..runtime.files.json_data import JsonData
from ..runtime.process.identity import start_time_of
from . import fingerprint
from .contents import EVALUATED, FINISHED_FITS, FITS, HEARTBEAT, UNPUBLISHED, has_checkpoints, numbered
from .fingerprint import Identity

ROOT = ".checkpoints"
FOLDER = "checkpoints"  # in a model run
KEPT_DAYS = 14.0
HEARTBEAT_SECONDS = 20.0  # seconds between heartbeats
_MISSED_HEARTBEATS = 3  # missed heartbeats after which a run on another machine counts as ended
_WORK = "model_run"
# A run's ID in an output path, <root>/<run>/<task>/model_run: a UUID in Kubeflow, ends in the time in Vertex AI.
_RUN = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|.+-\d{14}")
_TASK_NUMBER = re.compile(r"_-?\d+$")
_claimed_folders: set[str] = set()  # directories in use by this process


@dataclasses.dataclass(frozen=True)
class CheckpointFolder:
    """The directories that a training writes to.

    Attributes:
      path: The checkpoint directory, `fn_args.checkpoint_dir`.
      model_run_dir: The directory for logs while the training runs.
    """

    path: str
    model_run_dir: str

    def delete_finished(self) -> None:
        """Deletes the state from which an unpublished run would resume after training, so that the next run retrains.

        Called after the model is published, so an OSError is only logged as a warning.
        """
        for name in (FITS, UNPUBLISHED):
            try:
                file_io.rmtree(os.path.join(self.path, name))
            except OSError as error:
                logging.warning(
                    "%s was not deleted; delete it to train from the beginning. %s",
                    os.path.join(self.path, name),
                    error,
                )


def step_checkpoint_root(model_run_uri: str) -> str:
    """Returns the parent directory of a step's checkpoint directories, the same for all executions of the step.

    Args:
      model_run_uri: URI of the model run, such as `<root>/Trainer/model_run/7`, or Kubeflow's
        `<root>/<run>/<task>/model_run`. For the latter, the result is next to `<run>`, so that the next run finds it.
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
def step_checkpoints(
    root: str, identity: Identity, model_run_dir: str, is_estimator: bool, is_chief: bool = True
) -> Iterator[CheckpointFolder]:
    """Provides the checkpoint directory of earlier attempts of a pipeline step; deletes it if the block succeeds.

    Args:
      root: Result of `step_checkpoint_root`.
      identity: Fingerprint of the training; its key is the name of the directory.
      model_run_dir: The model run of this attempt.
      is_estimator: Whether the training uses an Estimator, whose model directory is then below the checkpoint directory
        and is moved to `model_run_dir` at the end.
      is_chief: False for the other tasks of a cluster, which use the directory but do not create or delete it.

    Yields:
      The directories for checkpoints and logs.
    """
    if not is_chief:
        yield CheckpointFolder(os.path.join(root, identity.key), model_run_dir)
        return
    _delete_unused(root)
    with _claim(os.path.join(root, identity.key)) as path:
        identity.write(path)
        _move_latest_completed_fits(root, identity, path)
        if has_checkpoints(path):
            logging.info("Found the checkpoints of an earlier attempt in %s.", path)
        work = os.path.join(path, _WORK) if is_estimator else model_run_dir
        if is_estimator:
            file_io.makedirs(work)
            logging.info("Outputs for the model run are stored in %s until training completes.", work)
        yield CheckpointFolder(path, work)
        if is_estimator:
            _move_to_model_run(work, model_run_dir)
    file_io.rmtree(path)
    with contextlib.suppress(OSError):  # not empty if other trainings have directories there
        os.rmdir(root)


@contextlib.contextmanager
def model_run_checkpoints(identity: Identity, model_run_dir: str, is_chief: bool = True) -> Iterator[CheckpointFolder]:
    """Provides the checkpoint directory in the model run, for runs outside of pipelines.

    If it has the checkpoints of a different training, these and the exported models are renamed and the training starts
    from scratch. The length of the training may differ; see `Identity.differences`.
    """
    path = os.path.join(model_run_dir, FOLDER)
    if is_chief:
        earlier = fingerprint.read(path)
        differences = identity.differences(earlier) if earlier else []
        for folder in (path, *(os.path.join(model_run_dir, name) for name in (SERVING_DIRS[0], EVAL_DIR))):
            if differences and has_checkpoints(folder):
                file_io.move(folder, aside := numbered(folder))
                logging.warning(
                    "The checkpoints in %s belong to a different training: %s. They were moved to %s; training "
                    "starts from the beginning.", folder, "; ".join(differences), aside,
                )  # fmt: skip
                if fingerprint.is_code(differences):
                    _move_completed_fits(aside, folder)
        identity.write(path)
    yield CheckpointFolder(path, model_run_dir)


def _move_completed_fits(earlier: str, folder: str) -> bool:
    """Moves the completed fits of an attempt with other code to `folder`; returns whether there were any.

    A fit is restored only if the code that ran before its end is unchanged.
    """
    source = os.path.join(earlier, UNPUBLISHED, FINISHED_FITS)
    if not file_io.isdir(source):
        return False
    file_io.move(source, os.path.join(folder, UNPUBLISHED, FINISHED_FITS))
    if file_io.exists(evaluated := os.path.join(earlier, EVALUATED)):
        file_io.move(evaluated, os.path.join(folder, EVALUATED))
    logging.info("Its completed fits are kept in %s: the fits before the first code change are not repeated.", folder)
    return True


def _move_latest_completed_fits(root: str, identity: Identity, folder: str) -> None:
    """Moves the completed fits of the latest attempt of this step that differs in code only and is not running."""
    if file_io.isdir(os.path.join(folder, UNPUBLISHED, FINISHED_FITS)):
        return
    marks = {}
    for name in file_io.listdir(root):
        earlier = os.path.join(root, name)
        mark, made_by = _Heartbeat.read(earlier), fingerprint.read(earlier)
        if earlier == folder or mark is None or made_by is None:
            continue
        may_run_elsewhere = not mark.ended and mark.host != socket.gethostname()
        is_at_work = mark.is_alive_here(earlier) or may_run_elsewhere
        if not is_at_work and fingerprint.is_code(identity.differences(made_by)):
            marks[earlier] = mark.time
    for earlier in sorted(marks, key=lambda path: -marks[path]):
        if _move_completed_fits(earlier, folder):
            return


def _move_to_model_run(work: str, model_run_dir: str) -> None:
    """Moves the content of an Estimator's model directory to the model run, which may have files already."""
    for name in file_io.listdir(work):
        source, target = os.path.join(work, name), os.path.join(model_run_dir, name)
        if file_io.isdir(source):
            file_io.rmtree(target)
            file_io.move(source, target)
        else:
            file_io.file_system(target).copy(source, target, overwrite=True)
    durable.sync_tree(model_run_dir)  # before the caller deletes the copied files


def _delete_unused(root: str) -> None:
    """Deletes the directories below a root that have been unused for `KEPT_DAYS` days."""
    for name in file_io.listdir(root) if file_io.isdir(root) else ():
        folder = os.path.join(root, name)
        mark = _Heartbeat.read(folder)
        if mark is not None and time.time() - mark.time > KEPT_DAYS * 86400 and not mark.is_alive_here(folder):
            logging.info("Deleting %s: it was not used for %g days.", folder, KEPT_DAYS)
            file_io.rmtree(folder)


@contextlib.contextmanager
def _claim(wanted: str) -> Iterator[str]:
    """Provides a directory for exclusive use in the block: `wanted`, or `wanted`-2, -3, … if that is in use."""
    number, folder = 1, wanted
    while _is_in_use(folder):
        number += 1
        logging.warning("%s is in use by another run of the same training.", folder)
        folder = f"{wanted}-{number}"
    file_io.makedirs(folder)
    ended = threading.Event()
    _Heartbeat.current().write(folder)
    beating = threading.Thread(target=_write_heartbeats, args=(folder, ended), name="checkpoint folder", daemon=True)
    _claimed_folders.add(folder)
    beating.start()
    try:
        yield folder
    finally:
        ended.set()
        beating.join()
        _claimed_folders.discard(folder)
        with contextlib.suppress(Exception):  # a full disk must not mask the original error
            dataclasses.replace(_Heartbeat.current(), ended=True).write(folder)


def _write_heartbeats(folder: str, ended: threading.Event) -> None:
    beats = 0
    while not ended.wait(HEARTBEAT_SECONDS):
        beats += 1
        try:
            dataclasses.replace(_Heartbeat.current(), beats=beats).write(folder)
        except Exception as error:  # of any file system; training continues without the heartbeat
            logging.warning("%s: cannot update the heartbeat of this run (%s).", folder, error)


def _is_in_use(folder: str) -> bool:
    """Returns whether another run uses a directory; for a run on another machine, waits for its next heartbeat."""
    mark = _Heartbeat.read(folder)
    if mark is None or mark.ended:
        return False
    if mark.host == socket.gethostname():
        return mark.is_alive_here(folder)
    end = time.monotonic() + _MISSED_HEARTBEATS * HEARTBEAT_SECONDS
    if time.time() - mark.time < 10 * _MISSED_HEARTBEATS * HEARTBEAT_SECONDS:  # with a tolerance for clock skew
        logging.info("%s was in use by a process on %s; checking whether it still is.", folder, mark.host)
        while time.monotonic() < end:
            time.sleep(HEARTBEAT_SECONDS / 4)
            if _Heartbeat.read(folder) != mark:
                return True
    return False


@dataclasses.dataclass(frozen=True)
class _Heartbeat(JsonData):
    """The heartbeat file of the process that uses a directory.

    Attributes:
      host: Host name of the machine.
      process: Process ID.
      started: Start time of the process in the machine's own units, to detect a reused process ID.
      beats: Number of heartbeats.
      time: Time of the last heartbeat, in seconds since the epoch.
      ended: Whether the process has released the directory.
    """

    host: str
    process: int
    started: str
    beats: int
    time: float
    ended: bool = False

    @classmethod
    def current(cls) -> _Heartbeat:
        return cls(socket.gethostname(), os.getpid(), start_time_of(os.getpid()), 0, time.time())

    @classmethod
    def read(cls, folder: str) -> _Heartbeat | None:
        path = os.path.join(folder, HEARTBEAT)
        try:
            return cls.from_json(json.loads(file_io.read_text(path)))
        except Exception:  # missing, incomplete, of another release, or any file system's error for a deleted file
            return None

    def write(self, folder: str) -> None:
        file_io.write_text(os.path.join(folder, HEARTBEAT), json.dumps(self.to_json()), synced=False)

    def is_alive_here(self, folder: str) -> bool:
        """Returns whether the process is running on this machine and has not released the directory."""
        if self.ended or self.host != socket.gethostname():
            return False
        if self.process == os.getpid():
            return folder in _claimed_folders  # a restarted container has the same process ID as before
        return self.started == start_time_of(self.process) != ""
