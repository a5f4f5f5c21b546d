"""Runs the tries of a training on a group of worker hosts, until one succeeds or no other one may follow.

A try gives each host a cluster task. When a worker fails, the training processes of all others are killed at once, and
the next try begins on the same hosts, from the last checkpoint. The same happens when the group has grown: after the
next checkpoint, so that no step is lost.

With parameter servers, a worker that is not the chief is only started again, at the same address, while the others
continue, if its process has died but its host has not, and if the dialect allows it (`Details.replaces_workers`).
"""

from __future__ import annotations

import dataclasses
import enum
import time
from typing import TYPE_CHECKING

import ray
from absl import logging

from ...distributed.tf_config import CHIEF, PS, WORKER, ClusterTask
from ...monitoring import save_interval
from ...runtime.process.preemption import is_preempted
from .group import Host, HostGroup
from .worker import WRITE_SECONDS

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

_POLL_SECONDS = 0.3
_END_SECONDS = WRITE_SECONDS + 10.0  # for the reports of killed workers
_CHECKPOINT_SECONDS = 60.0  # how long a larger group waits for a reported checkpoint


class _End(enum.Enum):
    """How a try has ended."""

    OVER = enum.auto()  # no other try must follow
    FAILED = enum.auto()
    GROWN = enum.auto()


@dataclasses.dataclass
class Tries:
    """The tries of a run.

    Attributes:
      group: The hosts.
      collector: The `ReportCollector` of the run.
      order: Reference to the `WorkerRequest` of each worker.
      parameter_servers: How many of the workers are parameter servers.
      max_failures: Maximum number of failed tries that are followed by another one, and of workers that are started
        again; -1 for no limit.
      waiting_seconds: Seconds between log lines that name the tasks that are waited for.
    """

    group: HostGroup
    collector: ActorHandle
    order: ObjectRef
    parameter_servers: int
    max_failures: int
    waiting_seconds: float
    _failures: int = 0

    def run(self) -> str:
        """Trains; returns "", or a description if the last try has failed."""
        restarts = 0
        while True:
            hosts = self.group.assemble(is_preempted)
            end = self._run(hosts, self._save_interval(restarts))
            if end is _End.OVER:
                return ""
            restarts += end is _End.FAILED
            self._failures += end is _End.FAILED
            if 0 <= self.max_failures < self._failures:
                return "a worker was lost"

    def _save_interval(self, restarts: int) -> dict[str, str]:
        """Returns the environment variable with the optimal number of steps between checkpoints; {} if unknown."""
        steps = ray.get(self.collector.optimal_save_steps.remote(restarts))
        if steps is None:
            return {}
        logging.info("Checkpoints are due every %d steps, unless the module sets another interval.", steps)
        return {save_interval.VARIABLE: str(steps)}

    def _run(self, hosts: list[Host], environment: dict[str, str]) -> _End:
        """Runs one try."""
        try:
            addresses = ray.get([host.actor.free_address.remote() for host in hosts])
        except ray.exceptions.RayActorError:
            self.group.end(hosts)  # drops the lost ones
            return _End.FAILED
        attempt = _Try(hosts, tasks_of(addresses, self.parameter_servers), self.order, environment)
        cluster = attempt.tasks[0].cluster_id
        if not ray.get(self.collector.begin.remote(cluster, len(attempt.tasks), attempt.members())):
            return _End.OVER
        for rank in range(len(hosts)):
            attempt.start(rank)
        end = self._watch(attempt)
        if end is not _End.OVER:
            self.group.end(hosts)
            if running := attempt.running:
                _, stuck = ray.wait([*running], num_returns=len(running), timeout=_END_SECONDS)
                self.group.drop([hosts[running[call]] for call in stuck])
        return end

    def _watch(self, attempt: _Try) -> _End:
        """Waits until all tasks have ended or the try must be ended."""
        growth = _Growth(self.group, self.collector, attempt.hosts)
        reminder = float("inf")
        while attempt.running:
            try:
                has_ended = attempt.take_ended()
            except ray.exceptions.RayActorError:
                return _End.FAILED
            if has_ended:
                reminder = min(reminder, time.monotonic() + self.waiting_seconds)
            if attempt.running and time.monotonic() >= reminder:
                logging.info("Waiting for %s to end; the other tasks have ended.", attempt.describe_running())
                reminder = time.monotonic() + self.waiting_seconds
            if ray.get(self.collector.is_to_restart.remote()) or (has_ended and not self._replace_dead(attempt)):
                return _End.FAILED
            if has_ended or is_preempted():
                for rank in ray.get(self.collector.over.remote([*attempt.running.values()])):
                    attempt.hosts[rank].actor.end.remote(is_graceful=True)
            if growth.is_due():
                return _End.GROWN
        return _End.OVER

    def _replace_dead(self, attempt: _Try) -> bool:
        """Starts dead workers again that may be replaced; returns whether the failures are within `max_failures`."""
        for rank in ray.get(self.collector.take_to_replace.remote()):
            if self._failures == self.max_failures:
                return False
            self._failures += 1
            logging.warning("%s has died and is started again; the others continue.", attempt.tasks[rank])
            attempt.start(rank)
        return True


@dataclasses.dataclass
class _Try:
    """A try: one task for each host, by rank.

    Attributes:
      hosts: The hosts.
      tasks: Their tasks in the cluster.
      order: See `Tries`.
      environment: Variables of this try for the training processes.
      running: The ranks of the running tasks, by the reference to their end.
    """

    hosts: list[Host]
    tasks: list[ClusterTask]
    order: ObjectRef
    environment: dict[str, str]
    running: dict[ObjectRef, int] = dataclasses.field(default_factory=dict)

    def start(self, rank: int) -> None:
        """Starts a task, also once more after its process has died."""
        self.running[self.hosts[rank].actor.run.remote(self.order, self.tasks[rank], rank, self.environment)] = rank

    def take_ended(self) -> bool:
        """Removes tasks that have ended from `running`, after at most one polling interval; returns whether any has.

        Raises:
          RayActorError: If the host of one has died.
        """
        ended, _ = ray.wait([*self.running], timeout=_POLL_SECONDS)
        for call in ended:
            del self.running[call]
            ray.get(call)
        return bool(ended)

    def describe_running(self) -> str:
        """Returns the running tasks with the addresses of their nodes."""
        return ", ".join(f"{self.tasks[rank]} on the node {self.hosts[rank].address}" for rank in self.running.values())

    def members(self) -> list[tuple[str, str, str, ActorHandle]]:
        """Returns the workers as `ReportCollector.begin` takes them."""
        pairs = zip(self.tasks, self.hosts, strict=True)
        return [(str(task), host.node, host.address, host.actor) for task, host in pairs]


class _Growth:
    """Finds the moment at which a larger group continues: after the first checkpoint once more hosts are ready."""

    def __init__(self, group: HostGroup, collector: ActorHandle, hosts: list[Host]) -> None:
        self._group, self._collector, self._hosts = group, collector, hosts
        self._since: float | None = None
        self._saved: int | None = None

    def is_due(self) -> bool:
        if not self._group.has_grown(self._hosts):
            return False
        saved = ray.get(self._collector.total_progress.remote()).get("details", {}).get("saved")
        if self._since is None:
            self._since, self._saved = time.monotonic(), saved
        return saved != self._saved or time.monotonic() - self._since > _CHECKPOINT_SECONDS


def tasks_of(addresses: list[str], parameter_servers: int) -> list[ClusterTask]:
    """Returns the cluster task of each worker, in the order of the addresses.

    With parameter servers, which are the last workers, the first one is the chief, which schedules the steps; without,
    worker 0 acts as chief, as MultiWorkerMirroredStrategy requires. A single worker gets the role `chief`, which
    Estimators require.
    """
    training = len(addresses) - parameter_servers
    if not parameter_servers and training > 1:
        return [ClusterTask(WORKER, index, {WORKER: tuple(addresses)}) for index in range(training)]
    parts = {CHIEF: addresses[:1], WORKER: addresses[1:training], PS: addresses[training:]}
    jobs = {role: tuple(found) for role, found in parts.items() if found}
    return [ClusterTask(role, index, jobs) for role, found in jobs.items() for index in range(len(found))]
