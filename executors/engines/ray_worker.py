"""The code that runs on a Ray cluster: the training function of each worker, and the actor that collects their reports.

Ray Train starts the workers, and restarts all of them when one has failed; `ray_backend.py` sets each worker's
TF_CONFIG. Each worker runs its task in a subprocess, as the other engines do; see `child_process.py`.
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
from ..monitoring.throughput import ThroughputTracker
from ..runtime.logs.exceptions import describe
from ..runtime.process.preemption import Preempted
from . import child_process
from .ray_losses import Member

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from ..modules.bundle import SourceBundle
    from ..monitoring.throughput import Account, CombinedProgress
    from ..runtime.logs.exceptions import Described
    from .training_request import RequestJson

_MODEL_FOLDERS = ("serving_model_dir", "eval_model_dir")
# Raised by TensorFlow when another worker has died or cannot be reached.
_TRANSIENT = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
_PERMANENT = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError)


class WorkerRequest(TypedDict):
    """The request to each worker; see `work`."""

    worker: str
    request: RequestJson
    bundle: SourceBundle
    environment: dict[str, str]
    collector: ActorHandle


class WorkerLocation(TypedDict):
    """A worker's location, by the attributes of `Member`."""

    task: str
    node: str
    address: str
    actor: ActorHandle


class Failure(TypedDict):
    """The failure of a worker.

    Attributes:
      task: Its task in the cluster.
      error: Its exception, as returned by `exceptions.describe`.
      attempt: The number of the try, from 1.
      alone: Whether it failed because it could not reach the other workers.
    """

    task: str
    error: Described
    attempt: int
    alone: bool


class Summary(TypedDict):
    """The collector's report at the end of a run.

    Attributes:
      pace: The account of the whole run.
      result: The chief's result; {} without one.
      verdict: The described error that ends the run without another try; None without one.
      tries: The number of training workers in each try.
      failures: The failures in their order.
      silent: The workers that have reported neither a result nor an error.
    """

    pace: Account
    result: dict[str, object]
    verdict: Described | None
    tries: list[int]
    failures: list[Failure]
    silent: list[Member]


class ReportCollector:
    """The actor that collects the workers' reports of all tries of a run; called with plain values.

    Args:
      parameter_servers: How many of the workers are parameter servers; they have the highest ranks.
    """

    def __init__(self, parameter_servers: int) -> None:
        self._parameter_servers = parameter_servers
        self._name = ""  # of the current try
        self._tries: list[int] = []  # number of training workers in each
        self._finished: dict[int, str] = {}
        self._result: dict[str, object] = {}
        self._failures: list[Failure] = []
        self._members: list[Member] = []
        self._reported: set[tuple[int, str]] = set()  # (try, task) pairs with a result or an error
        self._verdict: Described | None = None
        self._is_stopped = False
        self._output: list[str] = []
        self._pace = ThroughputTracker(parameter_servers)

    def begin(self, name: str, size: int, place: WorkerLocation | None = None) -> bool:
        """Records the start of a worker; returns whether it has work to do.

        Args:
          name: The name of the try, different for each try.
          size: The number of its workers, including parameter servers.
          place: The worker's `task`, `node`, `address` and `actor`, as in `Member`.
        """
        if self._verdict is not None or self._is_stopped:
            return False  # Ray Train restarts workers even after a final failure
        if name != self._name:
            self._name, self._finished = name, {}
            self._tries.append(size - self._parameter_servers)
            self._pace.begin(name, self._tries[-1])
        if place:
            self._members.append(Member(attempt=len(self._tries), **place))
        return True

    def finish(self, rank: int, what: str, result: dict[str, object] | None) -> None:
        """Records that a worker has finished; the chief passes its result."""
        self._finished[rank] = what
        self._reported.add((len(self._tries), what))
        self._pace.end(self._name, rank)
        if result:
            self._result = result

    def fail(self, what: str, error: Described, final: bool, alone: bool = False) -> None:
        """Records that a worker has failed.

        Args:
          what: The worker's task.
          error: Its exception, described.
          final: Whether another try would fail in the same way.
          alone: Whether it failed because it could not reach the others; this is final if other training workers had
            finished.
        """
        self._failures.append({"task": what, "error": error, "attempt": len(self._tries), "alone": alone})
        self._reported.add((len(self._tries), what))
        done = [name for rank, name in self._finished.items() if rank < self._tries[-1]]
        if alone and done:
            uneven = TrainingProcessError(
                f"{what} was waiting for {', '.join(done)}, which had ended. All workers must run the same number of "
                "steps: shard one dataset among them (tf.distribute does that), or give each the same number of "
                "batches."
            )
            error, final = cast("Described", describe(uneven)), True
        if final and self._verdict is None:
            self._verdict = error

    def is_over(self, rank: int) -> bool:
        """Whether a worker may be ended: no worker needs the parameter server anymore, or the run is over."""
        training = self._tries[-1]
        if self._verdict is not None:
            return True
        if rank >= training:
            return all(other in self._finished for other in range(training))
        return self._is_stopped

    def stop(self) -> None:
        """Ends the training workers by SIGTERM, so that they save checkpoints; parameter servers end after them."""
        self._is_stopped = True

    def add_output(self, text: str) -> None:
        """Adds output of a task; whole lines."""
        self._output.append(text)

    def advance(self, name: str, rank: int, what: str, reported: Mapping[str, Any]) -> None:
        """Records the progress of a worker in a try; `reported` has the fields of `Progress`."""
        self._pace.note(name, rank, what, progress.Progress(**reported))

    def take_output(self, last: bool = False, with_progress: bool = True) -> str:
        """Returns the output since the last call, and periodically a progress line; see `ThroughputTracker.lines`."""
        said, self._output = self._output, []
        return "".join(said) + self._pace.lines(last, with_progress)

    def total_progress(self) -> CombinedProgress:
        """Returns the progress of all workers together; see `ThroughputTracker.combined`."""
        return self._pace.combined()

    def members(self) -> list[Member]:
        """Returns the workers of all tries so far."""
        return self._members

    def summary(self, seconds: float | None = None) -> Summary:
        """Returns the report at the end of the run.

        Args:
          seconds: The total duration; see `ThroughputTracker.summary`.
        """
        return {
            "pace": self._pace.summary(seconds),
            "result": self._result,
            "verdict": self._verdict,
            "tries": self._tries,
            "failures": self._failures,
            "silent": [one for one in self._members if (one.attempt, one.task) not in self._reported],
        }


class _CollectorStream(io.TextIOBase):
    """A text file that sends what is written to the collector."""

    def __init__(self, collector: ActorHandle) -> None:
        self._collector = collector

    def write(self, text: str) -> int:
        self._collector.add_output.remote(text)
        return len(text)


class WorkerError(RuntimeError):
    """A worker has failed; its exception was sent to the collector."""


def work(order: WorkerRequest) -> None:
    """Runs one worker's task in one try; the training function that Ray Train calls in each worker.

    Args:
      order: `worker`, `request` and `environment` as in `child_process.run`, the `bundle` with the module's files, and
        the `collector`'s actor handle.

    Raises:
      WorkerError: When the task failed.
    """
    import ray
    import ray.train

    collector, context = order["collector"], ray.train.get_context()
    rank, task = context.get_world_rank(), task_from_environment()
    assert task is not None, "ray_backend.py has set it"
    if not ray.get(collector.begin.remote(task.cluster_id, context.get_world_size(), _location_of(task))):
        return
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        progress_file = progress.create_progress_file(scratch)

        def report() -> None:
            if (reported := progress.read(progress_file)) is not None and reported.seconds >= 0:
                collector.advance.remote(task.cluster_id, rank, str(task), dataclasses.asdict(reported))

        def is_over() -> bool:
            report()
            return bool(ray.get(collector.is_over.remote(rank)))

        try:
            result = child_process.run(
                order["worker"],
                make_task_request(task, order["request"], order["bundle"], scratch),
                environment={**order["environment"], **task.environment(), progress.VARIABLE: progress_file},
                prefix=f"[{task}] ",
                until=is_over,
                what=str(task),
                output=_CollectorStream(collector),
            )
        except Exception as error:
            report()
            alone = type(error).__name__ in _TRANSIENT
            ray.get(collector.fail.remote(str(task), describe(error), not is_transient(error), alone))
            raise WorkerError(f"{task}: {type(error).__name__}: {error}") from None
        report()
    ray.get(collector.finish.remote(rank, str(task), result if task.is_chief else None))


def _location_of(task: ClusterTask) -> WorkerLocation:
    """Returns this worker's location, for `ReportCollector.begin`."""
    import ray
    import ray.util

    context = ray.get_runtime_context()
    return {
        "task": str(task),
        "node": context.get_node_id(),
        "address": ray.util.get_node_ip_address(),
        "actor": context.current_actor,
    }


def make_task_request(task: ClusterTask, request: RequestJson, bundle: SourceBundle, scratch: str) -> dict[str, object]:
    """Returns the request for one task, with its index in the cluster and its output folders.

    A task that is not the chief gets model folders in its scratch folder: its models are not published.
    """
    fn_args = {**request["fn_args"], "is_chief": task.is_chief}
    fn_args |= {"worker_index": task.worker_index, "num_workers": task.num_workers}
    if not task.is_chief:
        for name in _MODEL_FOLDERS:
            if fn_args[name]:
                fn_args[name] = os.path.join(scratch, "model", os.path.basename(fn_args[name].rstrip("/")))
    source = unpack(bundle, os.path.join(scratch, "code"))
    return {**request, "fn_args": fn_args, "source": dataclasses.asdict(source)}


def is_transient(error: Exception) -> bool:
    """Whether another try from the last checkpoint may succeed.

    True when a process died or was preempted, when another worker could not be reached, and when a file system or the
    network failed.
    """
    if isinstance(error, OSError):
        return not isinstance(error, _PERMANENT)
    return isinstance(error, (ProcessDiedError, Preempted)) or type(error).__name__ in _TRANSIENT
