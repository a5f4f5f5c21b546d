"""A ledger of data ranges shared by all workers of a cluster: the chief keeps it, workers use it through `task_mail`.

Each worker requests ranges as it needs them, so faster workers get more (DLRover's dynamic sharding). The progress of
all workers is only consistent while none of them trains: before a checkpoint, every worker pauses between two steps and
reports its progress, and continues after the checkpoint is written. The ledger in a checkpoint therefore matches the
weights in it, and in the training that results each record is used as often as configured.

If a worker is lost, it is not known whether its last step is in the weights: the whole run must restart from the last
checkpoint, as on a Ray cluster. If a platform restarts a single worker, the chief detects that and fails, so that the
platform restarts all of them.

Usage, in the chief and in every worker:

    part = part_of(task)                               # None if no other worker trains
    ledger = part.join(ShardLedger(4000, 640))         # before the first step; the chief's has the restored position
    estimator.train(…, hooks=[…, SharingHook(part, config.master), saver])
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import tensorflow.compat.v1 as tf
from absl import logging

from ....distributed.tf_config import CHIEF, PS, WORKER, ClusterTask
from ....errors import InputError, ProcessDiedError
from .shard_ledger import (
    MAX_TRIES,
    Ledger,
    Shard,
    ShardError,
    ShardLedger,
    ShardsInProgress,
)
from .task_mail import Answer, Mail, Message

_STEP_TIMEOUT = 600.0  # maximum duration of a worker's step in seconds
_AGAIN_SECONDS = 5.0  # until a request to start is repeated
_CHIEF = f"{CHIEF} 0"
_READY, _JOIN, _TAKE, _PUT_BACK, _FAILED = "ready", "join", "take", "put back", "failed"
_PAUSED, _LEAVE = "paused", "leave"
_PAUSE, _RESUME, _STOP = "pause", "resume", "stop"
_ANY_PROCESS = "*"
_RESTART_ALL = "Restart all tasks from the last checkpoint."


class Part(Protocol):
    """A task's role in sharing the ledger."""

    def begin(self, target: str) -> None:
        """Called before the session is created, when the task's server is running."""

    def join(self, ledger: ShardLedger) -> Ledger:
        """Returns the shared ledger.

        Args:
          ledger: This task's ledger of the data; the chief's ledger is the shared one.
        """

    def can_step(self) -> bool:
        """Called before each step; blocks while a checkpoint is written. Returns False when training is over."""

    def workers_paused(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager in which no worker trains."""

    def end(self) -> None:
        """Called after the last step."""


def part_of(task: ClusterTask | None) -> Part | None:
    """Returns the `Part` of a task, or None if no other worker trains.

    Raises:
      InputError: If several workers have no parameter server or no chief.
    """
    if task is None or task.num_workers < 2 or task.type not in (CHIEF, WORKER):
        return None
    if PS not in task.jobs or CHIEF not in task.jobs:
        raise InputError(
            f"{task.num_workers} workers need a chief and a parameter server to share the data, but the cluster has "
            f"{', '.join(task.jobs)}. Start it with a parameter server (--ps 1), or train on one worker."
        )
    return ChiefPart(task) if task.is_chief else WorkerPart(task)


class SharingHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Connects a session to its task's `Part`; must come before the saver hook.

    Args:
      part: The task's part.
      target: Target of the task's server.
    """

    def __init__(self, part: Part, target: str) -> None:
        self._part = part
        self._target = target

    def begin(self) -> None:
        """Waits until the chief is ready, because the session waits for the chief's variables."""
        self._part.begin(self._target)

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        """Blocks while a checkpoint is written; stops the training when it is over."""
        if not self._part.can_step():
            run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        """Signals that this task has finished; the chief waits for the workers."""
        del session
        self._part.end()


@dataclasses.dataclass
class _Member:
    """State of a worker that has joined."""

    id: str
    trained: int = 0
    paused: int = 0
    has_left: bool = False


class ChiefPart:
    """The chief's `Part`, which keeps the ledger.

    Args:
      task: The chief's task.
    """

    def __init__(self, task: ClusterTask) -> None:
        self._task = task
        self._workers = [f"{WORKER} {index}" for index in range(len(task.jobs.get(WORKER, ())))]
        self._members: dict[str, _Member] = {}
        self._changed = threading.Condition()
        self._late: list[Message] = []  # join requests received while a checkpoint is written
        self._pause = 0  # number of the last pause
        self._is_paused = False
        self._is_over = False
        self._lost: Exception | None = None
        self._ledger: ShardLedger | None = None

    def begin(self, target: str) -> None:
        """See `Part`."""
        self._mail = Mail(target, self._task)

    def join(self, ledger: ShardLedger) -> Ledger:
        """See `Part`."""
        if self._ledger is not None:
            raise ProcessDiedError(f"A parameter server was lost. {_RESTART_ALL}")
        self._ledger = ledger
        threading.Thread(target=self._serve, name="shared ledger", daemon=True).start()
        return ledger

    def can_step(self) -> bool:
        """See `Part`."""
        if self._lost is not None:
            raise self._lost
        return True

    @contextlib.contextmanager
    def workers_paused(self) -> Iterator[None]:
        """See `Part`."""
        with self._changed:
            self._pause += 1
            self._is_paused = True
            self._send_order(_PAUSE)
            self._wait_for_workers(lambda member: member.paused == self._pause, "pause for a checkpoint")
        yield
        with self._changed:
            self._is_paused = False
            self._send_order(_RESUME)
            late, self._late = self._late, []
            for message in late:
                self._answer(message)

    def end(self) -> None:
        """See `Part`."""
        assert self._ledger is not None
        with self._changed:
            if not self._ledger.is_handed_out:
                self._send_order(_STOP)  # the chief stopped before the end of the data
            self._wait_for_workers(lambda _: False, "finish")
            self._is_over = True
            for worker in self._workers:
                if worker not in self._members:
                    self._mail.send(worker, {"order": _STOP, "id": _ANY_PROCESS})

    def _serve(self) -> None:
        while True:
            try:
                message = self._mail.receive()
            except tf.errors.OpError:
                return
            with self._changed:
                try:
                    self._answer(message)
                except Exception as error:
                    self._lost = error
                self._changed.notify_all()

    def _answer(self, message: Message) -> None:
        name, ask, member = message["from"], message["ask"], self._members.get(message["from"])
        answer: Answer = {}
        if ask == _JOIN:
            if member is not None and not member.has_left:
                raise _restarted_error(name)
            if self._is_paused:
                self._late.append(message)
                return
            answer = self._joined(message)
        elif ask != _READY:
            if member is None or member.id != message["id"]:
                raise _restarted_error(name)
            assert self._ledger is not None
            self._ledger.trained(message["trained"] - member.trained, name)
            member.trained = message["trained"]
            answer = self._done(self._ledger, name, member, message)
        self._mail.send(name, {"answer": answer, "id": message["id"], "number": message["number"]})

    def _joined(self, message: Message) -> Answer:
        name, ledger = message["from"], self._ledger
        assert ledger is not None
        if not ledger.matches(*message["data"]):
            data, size = message["data"]
            what = f"{name} found {size} rows in {data}, but the chief {ledger.size} in {ledger.data}"
            return {"error": f"{what}. All workers must read the same data."}
        self._members[name] = _Member(message["id"])
        logging.info("%s joined; rows are assigned in ranges of %d.", name, ledger.shard_size)
        return {"over": self._is_over}

    def _done(self, ledger: ShardLedger, name: str, member: _Member, message: Message) -> Answer:
        ask = message["ask"]
        shards = [Shard(*shard) for shard in message.get("shards", ())]
        if ask == _TAKE:
            shard = ledger.take(name)
            return {"shard": dataclasses.astuple(shard) if shard else None}
        if ask == _PUT_BACK:
            ledger.put_back(shards, name)
        elif ask == _FAILED:
            try:
                ledger.failed(shards[0], worker=name)
            except ShardError:
                return {"is_final": True}
        elif ask == _PAUSED:
            member.paused = message["pause"]
        elif ask == _LEAVE:
            ledger.release(name)
            member.has_left = True
        return {}

    def _send_order(self, what: str) -> None:
        for name, member in self._members.items():
            if not member.has_left:
                self._mail.send(name, {"order": what, "id": member.id, "pause": self._pause})

    def _wait_for_workers(self, is_done: Callable[[_Member], bool], what: str) -> None:
        """Waits until a condition holds for every worker that has not left."""

        def missing() -> list[str]:
            return [name for name, member in self._members.items() if not member.has_left and not is_done(member)]

        while missing() and self._lost is None:
            before = [member.trained for member in self._members.values()]
            has_changed = self._changed.wait(_STEP_TIMEOUT)
            if not has_changed and before == [member.trained for member in self._members.values()]:
                raise ProcessDiedError(
                    f"The chief timed out after {_STEP_TIMEOUT:g} s of waiting for {', '.join(missing())} to {what}. "
                    "Check whether the worker's process is running."
                )
        if self._lost is not None:
            raise self._lost


class WorkerPart:
    """A worker's `Part`, which sends requests to the chief; it is also the task's `Ledger`.

    Args:
      task: The worker's task.
    """

    def __init__(self, task: ClusterTask) -> None:
        self._task = task
        self._id = uuid.uuid4().hex
        self._numbers = 0
        self._trained = 0
        self._in_hand = ShardsInProgress()
        self._data = ""
        self._has_joined = False
        self._is_over = False
        self._request_lock = threading.Lock()
        self._answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pause: int | None = None  # number of the requested pause

    def begin(self, target: str) -> None:
        """See `Part`."""
        self._mail = Mail(target, self._task)
        threading.Thread(target=self._listen, name="shared ledger", daemon=True).start()
        logging.info("Waiting for the chief.")
        self._request(_READY, again_after=_AGAIN_SECONDS)

    def join(self, ledger: ShardLedger) -> Ledger:
        """See `Part`."""
        if self._has_joined:
            raise ProcessDiedError(f"A parameter server was lost. {_RESTART_ALL}")
        self._has_joined, self._data = True, ledger.data
        answer = self._request(_JOIN, data=[ledger.data, ledger.size])
        if "error" in answer:
            raise InputError(answer["error"])
        self._is_over = self._is_over or bool(answer.get("over"))
        return self

    def can_step(self) -> bool:
        """See `Part`."""
        while (pause := self._pause) is not None and not self._is_over:
            self._request(_PAUSED, pause=pause)
            with self._changed:
                while self._pause == pause and not self._is_over:
                    self._changed.wait()
        return not self._is_over

    def workers_paused(self) -> contextlib.AbstractContextManager[None]:
        """See `Part`; a no-op, because a worker does not save."""
        return contextlib.nullcontext()

    def end(self) -> None:
        """See `Part`."""
        self._request(_LEAVE)
        self._mail.close()

    def take(self) -> Shard | None:
        """See `Ledger`."""
        assigned = self._request(_TAKE).get("shard")
        if not assigned:
            return None
        shard = Shard(*assigned)
        with self._changed:
            self._in_hand.add(shard)
        return shard

    def taken(self) -> list[Shard]:
        """See `Ledger`."""
        with self._changed:
            return self._in_hand.remainders

    def trained(self, count: int) -> None:
        """See `Ledger`; reported to the chief with the next request."""
        with self._changed:
            self._in_hand.trained(count)
            self._trained += count

    def put_back(self, shards: Iterable[Shard]) -> None:
        """See `Ledger`."""
        shards = list(shards)
        with self._changed:
            self._in_hand.remove(shards)
        self._request(_PUT_BACK, shards=[dataclasses.astuple(shard) for shard in shards])

    def failed(self, shard: Shard, error: BaseException | None = None) -> None:
        """See `Ledger`."""
        with self._changed:
            self._in_hand.remove([shard])
        if self._request(_FAILED, shards=[dataclasses.astuple(shard)]).get("is_final"):
            raise ShardError(shard, MAX_TRIES, self._data) from error

    def _request(self, what: str, again_after: float | None = None, **details: object) -> Answer:
        """Sends a request to the chief, again without an answer after some seconds, and returns its answer.

        The answer is {} when training is over.
        """
        with self._request_lock:
            self._numbers += 1
            number = self._numbers
            own = {"from": str(self._task), "id": self._id, "number": number, "trained": self._trained}
            request, answer = {**own, "ask": what, **details}, Message()
            self._mail.send(_CHIEF, request)
            while answer.get("number") not in (number, _ANY_PROCESS):
                try:
                    answer = self._answers.get(timeout=again_after)
                except queue.Empty:  # the answer can get lost to a process of this task that has died
                    self._mail.send(_CHIEF, request)
            if answer["number"] == _ANY_PROCESS:
                self._answers.put(answer)  # for later requests
        if "gone" in answer:
            raise ProcessDiedError(
                f"The parameter server with the workers' message queues is not reachable: {answer['gone']}"
            )
        reply: Answer = answer["answer"]
        return reply

    def _listen(self) -> None:
        while True:
            try:
                message = self._mail.receive()
            except tf.errors.OpError as error:
                self._answers.put({"number": _ANY_PROCESS, "gone": error.message})
                return
            if message["id"] not in (self._id, _ANY_PROCESS):
                continue  # addressed to an earlier process of this task
            if "answer" in message:
                self._answers.put(message)
                continue
            with self._changed:
                if message["order"] == _STOP:
                    self._is_over = True
                    if message["id"] == _ANY_PROCESS:
                        self._answers.put({"number": _ANY_PROCESS, "answer": {}})  # the chief sends no more answers
                else:
                    self._pause = message["pause"] if message["order"] == _PAUSE else None
                self._changed.notify_all()


def _restarted_error(name: str) -> Exception:
    return ProcessDiedError(
        f"{name} was restarted during the training; it is unknown whether the weights include its last step. "
        f"{_RESTART_ALL}"
    )
