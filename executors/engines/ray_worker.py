"""What runs on a Ray cluster: in each worker one task of the training, and one actor that knows of all of them.

Ray Train starts the workers, and starts all of them again when one has failed; `ray_backend.py` tells each where the
others are. Each has its task done in a process of its own, as everywhere else; see `child_process.py`.
"""

from __future__ import annotations

import dataclasses
import io
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ..distributed.tf_config import ClusterTask, task_from_environment
from ..errors import ProcessDiedError, TrainingProcessError
from ..modules.bundle import unpack
from ..monitoring import progress
from ..monitoring.throughput import Pace
from ..runtime.logs.exceptions import describe
from ..runtime.process.preemption import Preempted
from . import child_process
from .ray_losses import Member

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from ..modules.bundle import Parcel
    from ..monitoring.throughput import Account, Whole
    from ..runtime.logs.exceptions import Described
    from .training_request import RequestJson

_MODEL_FOLDERS = ("serving_model_dir", "eval_model_dir")
# Of TensorFlow, when another worker has died or cannot be reached.
_TRANSIENT = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
_LASTING = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError)


class WorkOrder(TypedDict):
    """What each worker is asked to do; see `work`."""

    worker: str
    request: RequestJson
    parcel: Parcel
    environment: dict[str, str]
    board: ActorHandle


class Place(TypedDict):
    """Where a worker runs, by the attributes of `Member`."""

    task: str
    node: str
    address: str
    actor: ActorHandle


class Failure(TypedDict):
    """What became of a worker that failed.

    Attributes:
      task: Its task in the cluster.
      error: What it raised, as `exceptions.describe` has it.
      attempt: The number of the try, from 1.
      alone: Whether it failed because it did not reach the others.
    """

    task: str
    error: Described
    attempt: int
    alone: bool


class Summary(TypedDict):
    """What the board has to tell at the end.

    Attributes:
      pace: Of the whole run.
      result: The chief's; {} without one.
      verdict: The error that ends the run for good, described; None without one.
      tries: How many workers trained in each.
      failures: In their order.
      unheard: The workers that have reported neither a result nor an error.
    """

    pace: Account
    result: dict[str, object]
    verdict: Described | None
    tries: list[int]
    failures: list[Failure]
    unheard: list[Member]


class Board:
    """Where the workers of a run, in all of its tries, tell what became of them: an actor, called with plain values.

    Args:
      parameter_servers: How many of the workers are that, the last ones.
    """

    def __init__(self, parameter_servers: int) -> None:
        self._parameter_servers = parameter_servers
        self._name = ""  # of the try
        self._tries: list[int] = []  # how many trained in each
        self._finished: dict[int, str] = {}
        self._result: dict[str, object] = {}
        self._failures: list[Failure] = []
        self._members: list[Member] = []
        self._heard_of: set[tuple[int, str]] = set()  # (try, task) with a result or an error
        self._verdict: Described | None = None
        self._is_stopped = False
        self._said: list[str] = []
        self._pace = Pace(parameter_servers)

    def begin(self, name: str, size: int, place: Place | None = None) -> bool:
        """Notes that a worker begins; returns whether there is anything left to do.

        Args:
          name: Of the try, each has its own.
          size: How many workers it has.
          place: The worker's `task`, `node`, `address` and `actor`, as in `Member`.
        """
        if self._verdict is not None or self._is_stopped:
            return False  # Ray Train starts them again all the same
        if name != self._name:
            self._name, self._finished = name, {}
            self._tries.append(size - self._parameter_servers)
            self._pace.begin(name, self._tries[-1])
        if place:
            self._members.append(Member(attempt=len(self._tries), **place))
        return True

    def finish(self, rank: int, what: str, result: dict[str, object] | None) -> None:
        """Notes that a worker has done its part; the chief with a result."""
        self._finished[rank] = what
        self._heard_of.add((len(self._tries), what))
        self._pace.end(self._name, rank)
        if result:
            self._result = result

    def fail(self, what: str, error: Described, final: bool, alone: bool = False) -> None:
        """Notes that a worker has failed.

        Args:
          what: Which.
          error: What it raised.
          final: Whether another try would end the same way.
          alone: Whether it failed because it did not reach the others: that is final where they had done their part.
        """
        self._failures.append({"task": what, "error": error, "attempt": len(self._tries), "alone": alone})
        self._heard_of.add((len(self._tries), what))
        done = [name for rank, name in self._finished.items() if rank < self._tries[-1]]
        if alone and done:
            uneven = TrainingProcessError(
                f"{what} was waiting for {', '.join(done)}, who had ended. All workers have to do the same number of "
                "steps: share one dataset among them (tf.distribute does that), or give each as many batches."
            )
            error, final = cast("Described", describe(uneven)), True
        if final and self._verdict is None:
            self._verdict = error

    def is_over(self, rank: int) -> bool:
        """Whether a worker may be ended: nobody needs a parameter server any more, or the run is over for all."""
        training = self._tries[-1]
        if self._verdict is not None:
            return True
        if rank >= training:
            return all(other in self._finished for other in range(training))
        return self._is_stopped

    def stop(self) -> None:
        """Has all workers end, each by SIGTERM: those that heed it save first, with the parameter servers' help."""
        self._is_stopped = True

    def say(self, text: str) -> None:
        """Takes what a task prints, whole lines."""
        self._said.append(text)

    def advance(self, name: str, rank: int, what: str, reported: Mapping[str, Any]) -> None:
        """Takes how far a worker of a try is: a `Progress`, by its attributes."""
        self._pace.note(name, rank, what, progress.Progress(**reported))

    def heard(self, last: bool = False, with_progress: bool = True) -> str:
        """Returns what was said since it was called before, and from time to time how far all are; see `Pace.lines`."""
        said, self._said = self._said, []
        return "".join(said) + self._pace.lines(last, with_progress)

    def whole(self) -> Whole:
        """Returns how far all workers are together; see `Pace.whole`."""
        return self._pace.whole()

    def members(self) -> list[Member]:
        """Returns the workers of all tries so far."""
        return self._members

    def summary(self, seconds: float | None = None) -> Summary:
        """Returns what there is to tell at the end.

        Args:
          seconds: How long all has taken.
        """
        return {
            "pace": self._pace.summary(seconds),
            "result": self._result,
            "verdict": self._verdict,
            "tries": self._tries,
            "failures": self._failures,
            "unheard": [one for one in self._members if (one.attempt, one.task) not in self._heard_of],
        }


class _ToBoard(io.TextIOBase):
    """A file whose lines go to the board."""

    def __init__(self, board: ActorHandle) -> None:
        self._board = board

    def write(self, text: str) -> int:
        self._board.say.remote(text)
        return len(text)


class WorkerError(RuntimeError):
    """One worker has failed; what it raised is on the board."""


def work(order: WorkOrder) -> None:
    """Does the part of one worker in one try: called by Ray Train in each of them.

    Args:
      order: `worker`, `request` and `environment` as of `child_process.run`, the `parcel` with the module, and the
        `board`'s handle.

    Raises:
      WorkerError: When the task failed.
    """
    import ray
    import ray.train

    board, context = order["board"], ray.train.get_context()
    rank, task = context.get_world_rank(), task_from_environment()
    assert task is not None, "ray_backend.py has set it"
    if not ray.get(board.begin.remote(task.cluster_id, context.get_world_size(), _place_of(task))):
        return
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        told = progress.watched(scratch)

        def tell() -> None:
            if (reported := progress.read(told)) is not None and reported.seconds >= 0:
                board.advance.remote(task.cluster_id, rank, str(task), dataclasses.asdict(reported))

        def is_over() -> bool:
            tell()
            return bool(ray.get(board.is_over.remote(rank)))

        try:
            result = child_process.run(
                order["worker"],
                request_for(task, order["request"], order["parcel"], scratch),
                environment={**order["environment"], **task.environment(), progress.VARIABLE: told},
                prefix=f"[{task}] ",
                until=is_over,
                what=str(task),
                output=_ToBoard(board),
            )
        except Exception as error:
            tell()
            alone = type(error).__name__ in _TRANSIENT
            ray.get(board.fail.remote(str(task), describe(error), not is_transient(error), alone))
            raise WorkerError(f"{task}: {type(error).__name__}: {error}") from None
        tell()
    ray.get(board.finish.remote(rank, str(task), result if task.is_chief else None))


def _place_of(task: ClusterTask) -> Place:
    """Returns where this worker runs, for `Board.begin`."""
    import ray
    import ray.util

    context = ray.get_runtime_context()
    return {
        "task": str(task),
        "node": context.get_node_id(),
        "address": ray.util.get_node_ip_address(),
        "actor": context.current_actor,
    }


def request_for(task: ClusterTask, request: RequestJson, parcel: Parcel, scratch: str) -> dict[str, object]:
    """Returns what one task is asked to do: with its place in the cluster, and where it may write.

    A task that is not the chief gets model folders in its own scratch folder: whatever it saves is not published.
    """
    fn_args = {**request["fn_args"], "is_chief": task.is_chief}
    fn_args |= {"worker_index": task.worker_index, "num_workers": task.num_workers}
    if not task.is_chief:
        for name in _MODEL_FOLDERS:
            if fn_args[name]:
                fn_args[name] = os.path.join(scratch, "model", os.path.basename(fn_args[name].rstrip("/")))
    source = unpack(parcel, os.path.join(scratch, "code"))
    return {**request, "fn_args": fn_args, "source": dataclasses.asdict(source)}


def is_transient(error: Exception) -> bool:
    """Returns whether another try, from the last checkpoint on, may go well.

    It may when a process died or was asked to end, when another one could not be reached, and when a file system or the
    network failed.
    """
    if isinstance(error, OSError):
        return not isinstance(error, _LASTING)
    return isinstance(error, (ProcessDiedError, Preempted)) or type(error).__name__ in _TRANSIENT
