"""The actors of a run on a Ray cluster: the host of each worker, and the collector of their reports.

`group.py` starts the hosts, and `driver.py` gives each of them a task per try. A host runs its task in a subprocess,
as the other engines do; see `child_process.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ...distributed.tf_config import ClusterTask
from ...errors import ProcessDiedError, TrainingProcessError
from ...monitoring import progress_reports
from ...runtime.logs.exceptions import describe
from ...runtime.process.preemption import Preempted
from .. import child_process, fork_server
from .bundle import unpack
from .losses import Member
from .throughput import ThroughputTracker

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from ...monitoring.run_json import Account
    from ...runtime.logs.exceptions import Described
    from .bundle import SourceBundle
    from .throughput import CombinedProgress

WRITE_SECONDS = 30.0  # how long a process that is to be killed may write a checkpoint
_POLL_SECONDS = 0.05
_MODEL_FOLDERS = ("serving_model_dir", "eval_model_dir")
# Raised by TensorFlow when another worker has died or cannot be reached.
_TRANSIENT = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
_PERMANENT = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError)


class WorkerRequest(TypedDict):
    """The request to each worker; see `WorkerHost.run`.

    Attributes:
      worker: See `child_process.run`.
      request: See `child_process.run`.
      bundle: The module's files.
      collector: The `ReportCollector`.
    """

    worker: str
    request: Mapping[str, Any]
    bundle: SourceBundle
    collector: ActorHandle


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
        self._has_failed = False  # in the current try, and the worker cannot be replaced alone
        self._to_replace: list[int] = []
        self._replaced: set[int] = set()  # in the current try
        self._is_stopped = False
        self._output: list[str] = []
        self._pace = ThroughputTracker(parameter_servers)

    def begin(self, name: str, size: int, members: Sequence[tuple[str, str, str, ActorHandle]] = ()) -> bool:
        """Records the start of a try; returns whether there is work to do.

        Args:
          name: The name of the try, different for each try.
          size: The number of its workers, including parameter servers.
          members: The `task`, `node`, `address` and `actor` of each worker, as in `Member`.
        """
        if self._verdict is not None or self._is_stopped:
            return False
        self._name, self._finished, self._has_failed = name, {}, False
        self._to_replace, self._replaced = [], set()
        self._tries.append(size - self._parameter_servers)
        self._pace.begin(name, self._tries[-1])
        self._members += [Member(len(self._tries), *member) for member in members]
        return True

    def finish(self, rank: int, what: str, result: dict[str, object] | None) -> None:
        """Records that a worker has finished; the chief passes its result."""
        self._finished[rank] = what
        self._reported.add((len(self._tries), what))
        self._pace.end(self._name, rank)
        if result:
            self._result = result

    def fail(self, rank: int, what: str, error: Described, final: bool, alone: bool = False) -> None:
        """Records that a worker has failed.

        Args:
          rank: The worker's rank.
          what: The worker's task.
          error: Its exception, described.
          final: Whether another try would fail in the same way.
          alone: Whether it failed because it could not reach the others; this is final if other training workers had
            finished.
        """
        is_replaced = not final and self._can_replace(rank)
        if is_replaced and 0 in self._finished:
            self._finished[rank] = what  # the chief no longer needs it
        elif is_replaced:
            self._to_replace.append(rank)
        else:
            self._has_failed = True
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

    def end(self, what: str) -> None:
        """Records that a worker was killed because the try has ended."""
        self._reported.add((len(self._tries), what))

    def _can_replace(self, rank: int) -> bool:
        """Whether the others can continue without a worker: with parameter servers, if the chief has reported that."""
        return 0 < rank < self._tries[-1] and bool(self._pace.combined().get("details", {}).get("replaces_workers"))

    def is_to_restart(self) -> bool:
        """Whether a worker of the current try has failed that the others need, and another try may succeed."""
        return self._has_failed and self._verdict is None and not self._is_stopped

    def take_to_replace(self) -> list[int]:
        """Returns the workers that have failed and are to be started again while the others continue, each once."""
        ranks, self._to_replace = self._to_replace, []
        if self._verdict is not None or self._is_stopped:
            return []
        for rank in ranks:
            self._replaced.add(rank)
            self._pace.replace(self._name, rank)
        return ranks

    def is_over(self, rank: int) -> bool:
        """Whether a worker may be ended: no worker needs the parameter server anymore, or the run is over.

        A worker that was replaced while the chief was finishing may have missed the end.
        """
        training = self._tries[-1]
        if self._verdict is not None:
            return True
        if rank >= training:
            return all(other in self._finished for other in range(training))
        return self._is_stopped or (rank in self._replaced and 0 in self._finished)

    def over(self, ranks: Sequence[int]) -> list[int]:
        """Returns those of the ranks for which `is_over`."""
        return [rank for rank in ranks if self.is_over(rank)]

    def stop(self) -> None:
        """Ends the training workers by SIGTERM, so that they save checkpoints; parameter servers end after them."""
        self._is_stopped = True

    def add_output(self, text: str) -> None:
        """Adds output of a task; whole lines."""
        self._output.append(text)

    def advance(self, name: str, rank: int, what: str, reported: Mapping[str, Any]) -> None:
        """Records the progress of a worker in a try; `reported` has the fields of `Progress`."""
        self._pace.note(name, rank, what, progress_reports.Progress(**reported))

    def take_output(self, last: bool = False, with_progress: bool = True) -> str:
        """Returns the output since the last call, and periodically a progress line; see `ThroughputTracker.lines`."""
        said, self._output = self._output, []
        return "".join(said) + self._pace.lines(last, with_progress)

    def total_progress(self) -> CombinedProgress:
        """Returns the progress of all workers together; see `ThroughputTracker.combined`."""
        return self._pace.combined()

    def optimal_save_steps(self, deaths: int) -> int | None:
        """Returns the number of steps between checkpoints for the next try; see `ThroughputTracker`."""
        return self._pace.optimal_save_steps(deaths)

    def members(self) -> list[Member]:
        """Returns the workers of the last two tries: Ray declares a node dead when the next try has begun."""
        return [member for member in self._members if member.attempt >= len(self._tries) - 1]

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


class WorkerHost:
    """The actor that runs one worker's tasks, one after the other, in processes forked from its fork server.

    It outlives its training processes, so that a new try needs no interpreter start and no import of TensorFlow. Its
    methods are called concurrently.

    Args:
      environment: Variables to add to the environment of the training processes.
      libraries: See `fork_server.prepare`.
    """

    def __init__(self, environment: Mapping[str, str], libraries: Sequence[str] = ()) -> None:
        self._environment, self._libraries = dict(environment), list(libraries)
        self._task: _RunningTask | None = None

    def prepare(self) -> tuple[str, str]:
        """Starts the fork server and waits for it; returns the id and the address of this node."""
        import ray
        import ray.util

        fork_server.prepare(self._environment, self._libraries, wait=True)
        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()

    def free_address(self) -> str:
        """Returns this machine's address with a free port."""
        import ray.util

        host = ray.util.get_node_ip_address()
        with contextlib.closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def run(self, order: WorkerRequest, task: ClusterTask, rank: int, environment: Mapping[str, str]) -> None:
        """Runs a task and reports its result or its error to the collector.

        Args:
          order: See `WorkerRequest`.
          task: The cluster task.
          rank: The task's rank among all tasks of the try.
          environment: Variables of this try to add to the environment of the training process.
        """
        self._task = _RunningTask(order, task, rank, {**self._environment, **environment})
        self._task.run()

    def end(self, is_graceful: bool = False) -> None:
        """Ends the running task, if there is one; its result is not reported.

        Args:
          is_graceful: Whether its process gets a SIGTERM and time to save a checkpoint; otherwise it is killed.
        """
        if self._task is not None:
            self._task.end(is_graceful)


class _RunningTask:
    """A task of one try, in a subprocess."""

    def __init__(self, order: WorkerRequest, task: ClusterTask, rank: int, environment: Mapping[str, str]) -> None:
        self._order, self._task, self._rank, self._environment = order, task, rank, environment
        self._is_over = threading.Event()
        self._is_killed = threading.Event()
        self._pid = 0
        self._progress_file = ""

    def end(self, is_graceful: bool) -> None:
        """Ends the subprocess; see `WorkerHost.end`."""
        if is_graceful:
            self._is_over.set()
            return
        self._is_killed.set()
        if self._pid:
            threading.Thread(target=kill, args=(self._pid, self._progress_file), name="end of a task").start()

    def _note_start(self, pid: int) -> None:
        self._pid = pid
        if self._is_killed.is_set():
            kill(pid, self._progress_file)

    def run(self) -> None:
        """Runs the subprocess and reports how it ended to the collector."""
        import ray

        task, collector = self._task, self._order["collector"]
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
            progress_file = self._progress_file = progress_reports.create_progress_file(scratch)

            def report() -> None:
                if (reported := progress_reports.read(progress_file)) is not None and reported.seconds >= 0:
                    collector.advance.remote(task.cluster_id, self._rank, str(task), dataclasses.asdict(reported))

            def is_over() -> bool:
                report()
                return self._is_over.is_set()

            try:
                result = self._train(scratch, progress_file, is_over)
            except Exception as error:
                report()
                if self._is_killed.is_set():
                    ray.get(collector.end.remote(str(task)))
                    return
                alone = type(error).__name__ in _TRANSIENT
                ray.get(collector.fail.remote(self._rank, str(task), describe(error), not is_transient(error), alone))
                return
            report()
        ray.get(collector.finish.remote(self._rank, str(task), result if task.is_chief else None))

    def _train(self, scratch: str, progress_file: str, is_over: Callable[[], bool]) -> dict[str, object]:
        task, order = self._task, self._order
        return child_process.run(
            order["worker"],
            make_task_request(task, order["request"], order["bundle"], scratch),
            environment={**self._environment, **task.environment(), progress_reports.VARIABLE: progress_file},
            prefix=f"[{task}] ",
            until=is_over,
            what=str(task),
            forked=True,
            output=_CollectorStream(order["collector"]),
            on_start=self._note_start,
        )


def kill(pid: int, progress_file: str) -> None:
    """Kills a training process and its group, after the checkpoint that it is writing: this saves steps.

    Args:
      pid: The process id.
      progress_file: The file to which it reports its progress.
    """
    end = time.monotonic() + WRITE_SECONDS
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has ended
        while _is_writing(progress_file) and time.monotonic() < end:
            os.kill(pid, 0)
            time.sleep(_POLL_SECONDS)
        os.killpg(pid, signal.SIGKILL)


def _is_writing(progress_file: str) -> bool:
    reported = progress_reports.read(progress_file)
    return reported is not None and "writing" in reported.details


def make_task_request(
    task: ClusterTask, request: Mapping[str, Any], bundle: SourceBundle, scratch: str
) -> dict[str, object]:
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
