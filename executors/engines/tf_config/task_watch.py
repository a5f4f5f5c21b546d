"""Names the tasks of a cluster that have not come yet, or were lost.

A task lives as long as its heartbeat changes, or its TensorFlow server accepts connections. The command of each task
writes the heartbeat, a file beside the run records in the shared model run folder, until the task has ended. It covers
what the server does not: the time before and after training, and evaluators, which have no server. The server covers
file systems that show changes late.

The chief watches all tasks, and ends its run when one is lost. The others watch the chief, whose record ends them.

Usage, in the command of each task:

    watch = TaskWatch(task, model_run_dir)
    with watch.watching(record.id), watch.explained():
        child_process.run(…, until=watch)    # LostTaskError: worker 0 at host1:2222 was lost: …
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence

from absl import logging

from ...distributed.address import Address
from ...distributed.tf_config import EVALUATOR, ClusterTask
from ...errors import LostTaskError, ProcessDiedError, ProcessTimeoutError, StorageError, TrainingProcessError
from ...monitoring import run_record
from ...monitoring.run_record import RunRecord
from ...runtime.files import file_io, storage_errors
from ..child_process import EndAtOnce
from . import cluster_records
from .cluster_records import StopCondition

ROUND_SECONDS = 5.0  # between two heartbeats, and between two looks at the other tasks
# A lost task ends the others within 60 s: 35 to 40 s until it counts as lost, and 8 s to end the training. A task that
# its platform starts again within this time is not lost.
LOST_ROUNDS = 7
CONFIRMED_ROUNDS = 3  # the same, when an error of the training shows already that a task is gone
WAITING_SECONDS = 30.0  # between two lines on tasks that have not come
_CONNECT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_CAUSE_SECONDS = 40.0  # for the rounds that confirm a loss, if connecting to other tasks takes long
_NAMED_TASKS = 3  # in a line
# TensorFlow's errors when another task is gone. Other errors, such as those of bad data, are the module's own.
_CONNECTION_ERRORS = frozenset(
    f"{name}Error"
    for name in ("Aborted", "Cancelled", "DeadlineExceeded", "FailedPrecondition", "Internal", "Unavailable", "Unknown")
)
_REMEDY = "Start all tasks again: the training resumes from its last checkpoint."


class _Peer:
    """Another task of the cluster, and its signs of life.

    Attributes:
      task: The task.
      has_accepted: Whether its server has accepted a connection.
      has_come: Whether there was any sign of life.
    """

    def __init__(self, task: ClusterTask, folder: str) -> None:
        self.task, self._folder = task, folder
        self._path = os.path.join(folder, _heartbeat_name(task))
        self._address = None if task.type == EVALUATOR else Address.parse(task.address)  # an evaluator has no server
        self._heartbeat = self._read_heartbeat()
        self._has_beaten = self.has_come = _is_recent(self._heartbeat)  # otherwise an earlier run may have left it
        self._runs: set[str] = set()  # ids of the runs whose heartbeat has changed
        self.has_accepted = self._accepts = False
        self._silent_rounds = 0

    @property
    def name(self) -> str:
        """The task with its address, or with the host of its command if TF_CONFIG has none, as for an evaluator."""
        if self.task.address:
            return f"{self.task} at {self.task.address}"
        host = self._record().process.host
        return f"{self.task} on {host}" if host else str(self.task)

    def look(self) -> None:
        """Looks for a sign of life; connects to the task if it has not yet been reached, or its heartbeat stands."""
        heartbeat, before = self._read_heartbeat(), self._heartbeat
        has_changed = bool(heartbeat) and heartbeat != before
        if has_changed:
            self._runs.add(heartbeat.split()[0])
            self._heartbeat, self._has_beaten = heartbeat, True
        if not (has_changed and self.has_accepted):
            self._accepts = self._address is not None and self._address.accepts_connections(_CONNECT_SECONDS)
            self.has_accepted |= self._accepts
        is_alive = has_changed or self._accepts
        self.has_come |= is_alive
        self._silent_rounds = 0 if is_alive else self._silent_rounds + 1

    def has_succeeded(self) -> bool:
        """Whether the task has ended as planned."""
        return self._has_beaten and self._record().status == run_record.SUCCEEDED

    def loss(self, rounds: int) -> TrainingProcessError | None:
        """Returns the error of a task that has shown no sign of life for a number of rounds; None if it is not lost."""
        if not self._has_beaten or self._silent_rounds < rounds or self.has_succeeded():
            return None
        return self.failure() or self._lost(
            f"was lost: no heartbeat for {self._silent_rounds * ROUND_SECONDS:g} s"
            f"{', and it accepts no connections any more' if self.has_accepted else ''}"
        )

    def failure(self) -> TrainingProcessError | None:
        """Returns the error that a task has recorded; None if it has recorded none."""
        record = self._record()
        is_new = self._has_beaten and record.status in run_record.UNSUCCESSFUL
        return cluster_records.task_error(self.name, record) if is_new else None

    def cause(self) -> TrainingProcessError | None:
        """Returns the error of a task that explains why this task's connections failed; None if it does not."""
        is_victim = (self._record().error or {}).get("type") in _CONNECTION_ERRORS
        if not is_victim and (failure := self.failure()):
            return failure
        if self._address and not self._has_beaten and not self._accepts:  # without a shared folder
            return self._lost("accepts no connections")
        return self.loss(CONFIRMED_ROUNDS)

    def restart(self) -> LostTaskError | None:
        """Returns the error of a task that its platform has started again; None if it has run all the time."""
        return self._lost("was lost, and has been started again") if len(self._runs) > 1 else None

    def _lost(self, how: str) -> LostTaskError:
        return LostTaskError(f"{self.name} {how}. {_REMEDY}")

    def _record(self) -> RunRecord:
        with contextlib.suppress(OSError):  # the folder's machine may be gone as well
            return run_record.read(self._folder, cluster_records.record_name(self.task))
        return RunRecord.missing()

    def _read_heartbeat(self) -> str:
        with contextlib.suppress(Exception):  # of any file system, for a file that is being replaced
            return file_io.read_text(self._path) if file_io.exists(self._path) else ""
        return ""


class TaskWatch:
    """Watches the other tasks of this process's cluster; calling it returns whether this task may end.

    Args:
      task: This process's task.
      model_run_dir: The model run folder, which all tasks share.
    """

    def __init__(self, task: ClusterTask, model_run_dir: str) -> None:
        self._task, self._folder = task, model_run_dir
        self._stop_condition = None if task.is_chief else StopCondition(task, model_run_dir)
        self._peers = [_Peer(other, model_run_dir) for other in task.others]
        self._own_address = Address.parse(task.address)
        self._accepts = False  # whether this task's own server has accepted a connection
        self._losses: dict[str, TrainingProcessError] = {}  # by role
        self._awaits_evaluator = False
        self._rounds = 0
        self._looks_everywhere = False

    def __call__(self) -> bool:
        """Returns whether this task may end, because the chief's run has ended.

        Raises:
          EndAtOnce: When the chief's run has failed. Its next run must not connect to this task's process, because it
            would lose it then.
          LostTaskError: When another task was lost.
          TrainingProcessError: When another task has failed, and was not started again.
        """
        if self._stop_condition is not None and self._stop_condition():
            if self._stop_condition.has_failed:
                raise EndAtOnce
            return True
        for loss in self._losses.values():
            raise loss
        return False

    def require_evaluator(self) -> None:
        """Checks that the evaluator was not lost; called when the training is over, which needs no other task then.

        Raises:
          LostTaskError: When it was lost.
          TrainingProcessError: When it has failed, and was not started again.
        """
        self._awaits_evaluator = True
        if EVALUATOR in self._losses:
            raise self._losses[EVALUATOR]

    def require_success(self) -> None:
        """Checks that the chief has not failed; see `StopCondition.require_success`."""
        if self._stop_condition is not None:
            self._stop_condition.require_success()

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[None]:
        """Writes this task's heartbeat during the block, and watches the other tasks.

        Args:
          run_id: Id of this task's run record, by which the other tasks see that it was started again.
        """
        ended = threading.Event()
        threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (
                ("heartbeat", lambda: _write_heartbeats(self._folder, self._task, run_id, ended)),
                ("task watch", lambda: self._watch(ended)),
            )
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join(_CONNECT_SECONDS)  # they may be waiting for a file system or a machine that is gone

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Replaces an error of connections in the block by the loss of a task that caused it, if there is evidence.

        Raises:
          LostTaskError: When a task was lost.
          TrainingProcessError: When another task has failed; or on a time-out, which names the missing tasks.
        """
        try:
            yield
        except ProcessTimeoutError as error:
            if not (missing := self.missing()):
                raise
            raise ProcessTimeoutError(f"{error} It was waiting for {missing}.") from error.__cause__
        except Exception as error:
            if not _is_of_a_connection(error) or (cause := self._cause()) is None:
                raise
            raise cause from error

    def missing(self) -> str:
        """Returns the names and addresses of the tasks that have not come; "" if all have.

        If this task has a server, so must the others: a task without it counts as missing. Not all modules start one.
        """
        return _listed([peer.name for peer in self._peers if self._is_missing(peer)])

    def _is_missing(self, peer: _Peer) -> bool:
        has_server = self._accepts and peer.task.type != EVALUATOR
        has_come = peer.has_accepted or (peer.has_come and not has_server) or peer.has_succeeded()
        return not has_come and (peer.task.type != EVALUATOR or self._awaits_evaluator)

    def _watch(self, ended: threading.Event) -> None:
        due = time.monotonic() + WAITING_SECONDS
        while not ended.wait(ROUND_SECONDS):
            self._look()
            self._losses = {
                peer.task.type: loss for peer in self._watched() if (loss := peer.loss(LOST_ROUNDS)) is not None
            }
            if time.monotonic() >= due:
                due = time.monotonic() + WAITING_SECONDS
                if missing := self.missing():
                    logging.info("Waiting for %s.", missing)

    def _look(self) -> None:
        if not self._accepts and self._own_address is not None:
            self._accepts = self._own_address.accepts_connections(_CONNECT_SECONDS)
        watched = self._watched()
        for peer in self._peers:
            if self._looks_everywhere or not peer.has_accepted or peer in watched:
                peer.look()
        self._rounds += 1

    def _watched(self) -> Sequence[_Peer]:
        """Returns the tasks whose loss ends this one."""
        return [peer for peer in self._peers if self._task.is_chief or peer.task.is_chief]

    def _cause(self) -> TrainingProcessError | None:
        """Waits for evidence that another task is gone; returns its error, or None if all are alive."""
        self._looks_everywhere = True
        # The first round may still see the last heartbeat of a task that has died.
        last, end = self._rounds + CONFIRMED_ROUNDS + 2, time.monotonic() + _CAUSE_SECONDS
        while self._rounds < last and time.monotonic() < end:
            rounds = self._rounds
            while self._rounds == rounds and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
            if cause := next(filter(None, (peer.cause() for peer in self._peers)), None):
                return cause
        return next(filter(None, (peer.restart() for peer in self._watched())), None)


def _is_of_a_connection(error: Exception) -> bool:
    if isinstance(error, StorageError):
        return error.errno in storage_errors.TRANSIENT
    if isinstance(error, ProcessDiedError):  # TensorFlow aborts a process that has lost its cluster
        return not error.was_killed
    return type(error).__module__.startswith("tensorflow.") and type(error).__name__ in _CONNECTION_ERRORS


def _heartbeat_name(task: ClusterTask) -> str:
    return os.path.join(run_record.TASKS_DIR, f"{task.type}-{task.index}.alive")


def _is_recent(heartbeat: str) -> bool:
    """Whether the task was alive a moment ago. Clocks that disagree make it False: then only a change counts."""
    _, _, written = heartbeat.rpartition(" ")
    return written.isdecimal() and abs(time.time() - int(written)) < LOST_ROUNDS * ROUND_SECONDS


def _write_heartbeats(folder: str, task: ClusterTask, run_id: str, ended: threading.Event) -> None:
    """Writes the run's id, a number, which all clocks agree on, and the time, until the task has ended."""
    path, count = os.path.join(folder, _heartbeat_name(task)), 0
    while True:
        with contextlib.suppress(Exception):  # of any file system; the training reports a full disk
            file_io.write_text(path, f"{run_id} {count} {time.time():.0f}", synced=False)
        if ended.wait(ROUND_SECONDS):
            break
        count += 1
    with contextlib.suppress(Exception):
        file_io.file_system(path).remove(path)


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_NAMED_TASKS])
    if more := len(names) - len(shown):
        shown.append(f"{more} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
