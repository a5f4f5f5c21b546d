"""The private staging directory for a run's outputs before they are published.

    with staging_directory(parent) as staging:
        train(staging.written)             # the module writes here
        outputs = staging.take_outputs()   # renames: a model that depends on the path it was written to fails the check
        check(outputs)
        publish(staging.path, outputs, final)

A directory with the model of a finished training is never deleted: publishing or `rejected.py` moves the model out.

Each run creates `.staging-1f0c92ab` beside the model, with mode 0700, locks it (`lock.py`) and writes an owner file.
A later run deletes the directories of runs that have ended: on a local disk, those that are not locked; elsewhere
(network mounts, object stores), only those whose owner file marks the run as ended or names a process of this boot and
PID namespace that no longer exists. Directories of unknown state are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator

from absl import logging

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.local_disks import is_on_local_disk
from ..runtime.files.lock import FileLock
from ..runtime.files.retry import retry_call
from ..runtime.process.identity import start_time_of
from .finished import FinishedTraining

STAGING = ".staging"
REPLACED = "replaced-"  # prefix of outputs published before, which are moved to the staging directory
_OWNER = ".owner"
_WRITTEN, _OUTPUTS = "written", "outputs"
_NAME = re.compile(rf"{re.escape(STAGING)}-([0-9a-f]{{8}}|[0-9a-f]{{12}})")  # one run's, or shared by a cluster


@dataclasses.dataclass(frozen=True)
class Staging:
    """A run's staging directory.

    Attributes:
      path: The directory.
    """

    path: str

    @property
    def written(self) -> str:
        """The directory for the module's outputs during training."""
        return os.path.join(self.path, _WRITTEN)

    @property
    def outputs(self) -> str:
        """The current directory of the outputs: `written` until `take_outputs`."""
        taken = os.path.join(self.path, _OUTPUTS)
        return taken if file_io.isdir(taken) else self.written

    @classmethod
    def of(cls, model: str) -> Staging | None:
        """Returns the staging directory that contains a model in its `written` directory; None for other folders."""
        written = file_io.parent(model)
        path = file_io.parent(written)
        is_staging = os.path.basename(written) == _WRITTEN and _NAME.fullmatch(os.path.basename(path))
        return cls(path) if is_staging else None

    def holds_finished_model(self) -> bool:
        """Whether it contains a model that was completely written and is neither published nor kept elsewhere."""
        finished = FinishedTraining.read(self.outputs)
        return finished is not None and finished.has_model_in(self.outputs)

    def misplaced_files(self) -> list[str]:
        """Returns the names of files that the module wrote to the staging directory instead of `written`."""
        names = file_io.listdir(self.path) if file_io.isdir(self.path) else []
        own = (_WRITTEN, _OUTPUTS, _OWNER)
        return sorted(name for name in names if name not in own and not name.startswith(REPLACED))

    def take_outputs(self) -> str:
        """Renames the outputs' directory and returns the new path.

        A model that depends on the path it was written to, such as that of a vocabulary that is not an asset, then
        fails its check rather than in production. Remote outputs are not moved, as that would copy each file.
        """
        if file_io.is_remote(self.path):
            return self.written
        file_io.makedirs(self.written)  # the module may have deleted it
        file_io.move(self.written, os.path.join(self.path, _OUTPUTS))
        return self.outputs

    def require_exists(self) -> None:
        """Checks that the directory still exists; a no-op for a remote one.

        Raises:
          InputError: If it or a parent directory was deleted, replaced or unmounted.
        """
        if not file_io.is_remote(self.path) and not file_io.isdir(self.path):
            raise InputError(
                f"{file_io.parent(self.path)}: the staging directory {os.path.basename(self.path)} in it disappeared "
                "during training: it was deleted, replaced or unmounted. Nothing was published. Run again with a "
                "folder that persists."
            )


@contextlib.contextmanager
def staging_directory(
    parent: str, shared_name: str = "", keep: Callable[[Staging], object] = lambda _: None
) -> Iterator[Staging]:
    """Creates a run's staging directory in `parent` and deletes it at the end of the block.

    First deletes the directories of runs that have ended.

    Args:
      parent: The directory of the model.
      shared_name: Name of a directory shared by the tasks of a cluster; "" for a unique name.
      keep: Moves the finished model of a killed run out of its directory.

    Raises:
      InputError: If another run has locked the shared directory.
    """
    _delete_abandoned(parent, shared_name, keep)
    path, lock = _shared(parent, shared_name) if shared_name else _created(parent)
    try:
        staging = Staging(path)
        if staging.holds_finished_model():  # of a killed run of the same cluster
            keep(staging)
        _Owner.current().write(path)
        file_io.makedirs(staging.written)
        yield staging
    finally:
        try:
            _delete(path)
        except OSError as error:  # must not hide an earlier error or a published model
            logging.warning("Could not delete %s; the next run deletes it. %s", path, error)
        finally:
            if file_io.isdir(path) and not _has_reliable_locks(path):
                with contextlib.suppress(OSError):
                    dataclasses.replace(_Owner.current(), ended=True).write(path)
            if lock is not None:
                lock.release()


def _created(parent: str) -> tuple[str, FileLock | None]:
    """Creates a directory with a new name and locks it."""
    file_io.makedirs(parent)
    while True:
        path = os.path.join(parent, f"{STAGING}-{secrets.token_hex(4)}")
        if file_io.is_remote(path):
            return path, None
        with contextlib.suppress(FileExistsError):
            _make(path)
            lock, is_acquired = _locked(path)
            if is_acquired and os.path.isdir(path):  # otherwise another run deletes it: it was not locked yet
                return path, lock
            if lock is not None:
                lock.release()


def _make(path: str) -> None:
    retry_call(lambda: os.mkdir(path, 0o700), "Making the folder", path)


def _locked(path: str) -> tuple[FileLock | None, bool]:
    """Locks a directory; returns the lock (None if locks are unsupported) and whether no other run has locked it."""
    try:
        lock = FileLock(path)
    except OSError:
        return None, True
    try:
        lock.acquire()
    except BlockingIOError:
        lock.release()
        return None, False
    except OSError:  # the file system does not support locks
        lock.release()
        return None, True
    return lock, True


def _shared(parent: str, name: str) -> tuple[str, FileLock | None]:
    """Creates and locks the directory that a cluster shares; the evaluator task may have created it already."""
    path = os.path.join(parent, name)
    if file_io.is_remote(path):
        return path, None
    file_io.makedirs(parent)
    with contextlib.suppress(FileExistsError):
        _make(path)
    lock, is_acquired = _locked(path)
    if not is_acquired:
        raise InputError(f"{path}: another run of the same cluster is using this folder. Wait until it has ended.")
    return path, lock


def _delete(staging: str) -> None:
    """Deletes a staging directory; first moves replaced outputs back if their final paths do not exist.

    A directory with a finished model stays.
    """
    for name in file_io.listdir(staging) if file_io.isdir(staging) else ():
        target = os.path.join(file_io.parent(staging), name.removeprefix(REPLACED))
        if name.startswith(REPLACED) and not file_io.exists(target):
            file_io.move(os.path.join(staging, name), target)
    if Staging(staging).holds_finished_model():
        logging.warning("%s stays: it contains a finished model, which the next run checks and publishes.", staging)
        return
    file_io.rmtree(staging)


def _delete_abandoned(parent: str, shared_name: str, keep: Callable[[Staging], object]) -> None:
    """Deletes staging directories of runs that have ended; in a pipeline, of all executions of the component."""
    for path in _staging_directories_in(parent):
        if os.path.basename(path) == shared_name and file_io.parent(path) == parent.rstrip("/"):
            continue
        try:
            with _claimed(path) as is_abandoned:
                if is_abandoned:
                    if Staging(path).holds_finished_model():
                        keep(Staging(path))
                    logging.info("Deleting %s, left by a run that was killed.", path)
                    _delete(path)
        except OSError as error:  # another run may be deleting it
            logging.warning("Could not delete %s, left by a run that was killed: %s", path, error)


def _staging_directories_in(parent: str) -> list[str]:
    names = file_io.listdir(parent) if file_io.isdir(parent) else []
    paths = [os.path.join(parent, name) for name in names if name.startswith(f"{STAGING}-")]
    if os.path.basename(parent.rstrip("/")).isdigit() and not file_io.is_remote(parent):
        paths += file_io.glob(f"{glob.escape(file_io.parent(parent))}/*/{STAGING}-*")
    return sorted({path for path in paths if _NAME.fullmatch(os.path.basename(path))})


@contextlib.contextmanager
def _claimed(path: str) -> Iterator[bool]:
    """Yields whether the owner of a staging directory has certainly ended; locks the directory during the block."""
    owner = _Owner.read(path)
    if owner is not None and owner.has_ended():
        yield True
        return
    if not _has_reliable_locks(path):
        yield False
        return
    lock, is_acquired = _locked(path)
    try:
        yield lock is not None and is_acquired
    finally:
        if lock is not None:
            lock.release()


def _has_reliable_locks(path: str) -> bool:
    return not file_io.is_remote(path) and is_on_local_disk(path)


@dataclasses.dataclass(frozen=True)
class _Owner:
    """The process that uses a staging directory, written to its owner file.

    Host name and PID are not unique: two containers that share a volume may both have PID 1 and the same host name.

    Attributes:
      boot: The machine's boot id.
      namespace: The PID namespace, different for each container.
      process: PID in that namespace.
      started: Start time of the process.
      ended: Whether the run has ended without being able to delete the directory.
    """

    boot: str
    namespace: str
    process: int
    started: str
    ended: bool = False

    @classmethod
    def current(cls) -> _Owner:
        process = os.getpid()
        return cls(_boot(), _namespace(), process, start_time_of(process))

    @classmethod
    def read(cls, staging: str) -> _Owner | None:
        path = os.path.join(staging, _OWNER)
        try:
            return cls(**json.loads(file_io.read_text(path))) if file_io.exists(path) else None
        except (OSError, TypeError, ValueError):  # deleted by another run, or written by another release
            return None

    def write(self, staging: str) -> None:
        file_io.write_text(os.path.join(staging, _OWNER), json.dumps(dataclasses.asdict(self)), synced=False)

    def has_ended(self) -> bool:
        """Whether the run has certainly ended; False if unknown, as for another container."""
        is_known = self.boot and (self.boot, self.namespace) == (_boot(), _namespace())
        return self.ended or bool(is_known and self.started and start_time_of(self.process) != self.started)


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
