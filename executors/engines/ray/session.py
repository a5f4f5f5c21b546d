"""The session folder of a local Ray cluster: sockets, logs, spilled objects.

    with session_folder(model_run_dir) as session:
        ray.init("local", _temp_dir=session.folder)

The folder is removed at the end, or by the next run if the run was killed. After a failure that Ray's logs may explain,
`keep_logs` copies the ends of the logs to `ray_logs` in the model run folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from absl import logging

from ...runtime.files import file_io
from ...runtime.files.local_disks import is_on_local_disk
from ...runtime.files.lock import FileLock

LOGS = "ray_logs"
_LONGEST = 107 - len("/session_2026-11-23_15-35-11_123456_4194304/sockets/plasma_store")  # limit of a socket path
_PREFIX = "gt-ray-"
_RANDOM = 8  # characters that `mkdtemp` adds
# World-writable folders are safe here: `mkdtemp` creates a private folder in them.
_SHORT = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # nosec B108
_TAIL_BYTES = 200_000  # from the end of each log


@dataclasses.dataclass(frozen=True)
class Session:
    """A Ray cluster's session folder.

    Attributes:
      folder: Ray's temporary directory.
      model_run: The folder that logs are copied to.
    """

    folder: str
    model_run: str

    def keep_logs(self) -> None:
        """Copies the ends of the log files to the model run folder and logs their location."""
        target = os.path.join(self.model_run, LOGS)
        kept = 0
        for path in sorted(pathlib.Path(self.folder).glob("session_2*/logs/*.*")):
            with contextlib.suppress(OSError):  # must not mask the run's own error
                if content := _tail(path):
                    file_io.write_text(os.path.join(target, path.name), content)
                    kept += 1
        if kept:
            logging.info("The last lines of Ray's logs are in %s.", target)


@contextlib.contextmanager
def session_folder(model_run: str) -> Iterator[Session]:
    """Creates a folder whose path is short enough for Ray's sockets, and removes it at the end of the block.

    Args:
      model_run: The model run folder; the Ray logs of an earlier run are removed from it.
    """
    file_io.rmtree(os.path.join(model_run, LOGS))
    parent = _parent()
    _delete_abandoned(parent or tempfile.gettempdir())
    with _locked_folder(parent) as folder:
        yield Session(folder, model_run)


@contextlib.contextmanager
def _locked_folder(parent: str | None) -> Iterator[str]:
    """Creates a folder and locks it for the block, so that no other run removes it."""
    while True:
        with (
            tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as folder,
            _lock(folder) as is_held,
        ):
            if is_held and os.path.isdir(folder):  # otherwise another run removes it: it was not locked yet
                yield folder
                return


@contextlib.contextmanager
def _lock(folder: str) -> Iterator[bool]:
    """Locks a folder for the block; yields whether this succeeded, or locks are not supported."""
    try:
        lock = FileLock(folder)
    except FileNotFoundError:
        yield False
        return
    try:
        is_held = True
        try:
            lock.acquire()
        except BlockingIOError:
            is_held = False
        except OSError:  # the file system does not support locks
            pass
        yield is_held
    finally:
        lock.release()


def _delete_abandoned(parent: str) -> None:
    """Removes this user's session folders whose runs were killed: those that are not locked."""
    for path in pathlib.Path(parent).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another run removes it, or the file system does not support locks
            if path.stat().st_uid == os.getuid() and is_on_local_disk(str(path)):
                with _lock(str(path)) as is_abandoned:
                    if is_abandoned:
                        logging.info("Deleting %s, left by a run that was killed.", path)
                        shutil.rmtree(path)


def _parent() -> str | None:
    """Returns the temporary directory, or a shorter one if socket paths in it would be too long."""
    room = _LONGEST - len(f"/{_PREFIX}") - _RANDOM
    places = [tempfile.gettempdir(), *_SHORT]
    return next((place for place in places if len(os.fsencode(place)) <= room and os.access(place, os.W_OK)), None)


def _tail(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
