"""Runs the tries of a training on a group of worker hosts, until one succeeds or no other one may follow.

A try gives each host a cluster task. When a worker fails, the training processes of all others are killed at once, and
the next try begins on the same hosts, from the last checkpoint. The same happens when the group has grown: after the
next checkpoint, so that no step is lost.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from typing import TYPE_CHECKING

import ray
from absl import logging

from ..distributed.tf_config import CHIEF, PS, WORKER, ClusterTask
from ..monitoring import save_interval
from ..runtime.process.preemption import is_preempted
from .ray_group import Host, HostGroup
from .ray_worker import WRITE_SECONDS

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
      max_failures: Maximum number of failed tries that are followed by another one; -1 for no limit.
    """

    group: HostGroup
    collector: ActorHandle
    order: ObjectRef
    parameter_servers: int
    max_failures: int

    def run(self) -> str:
        """Trains; returns "", or a description if the last try has failed."""
        failures = 0
        while True:
            hosts = self.group.assemble(is_preempted)
            end = self._run(hosts, self._save_interval(failures))
            if end is _End.OVER:
                return ""
            failures += end is _End.FAILED
            if 0 <= self.max_failures < failures:
                return "a worker was lost"

    def _save_interval(self, failures: int) -> dict[str, str]:
        """Returns the environment variable with the optimal number of steps between checkpoints; {} if unknown."""
        steps = ray.get(self.collector.optimal_save_steps.remote(failures))
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
        tasks = tasks_of(addresses, self.parameter_servers)
        members = [(str(task), host.node, host.address, host.actor) for task, host in zip(tasks, hosts, strict=True)]
        if not ray.get(self.collector.begin.remote(tasks[0].cluster_id, len(tasks), members)):
            return _End.OVER
        running = {
            host.actor.run.remote(self.order, task, rank, environment): rank
            for rank, (task, host) in enumerate(zip(tasks, hosts, strict=True))
        }
        end = self._watch(hosts, running)
        if end is not _End.OVER:
            self.group.end(hosts)
            if running:
                _, stuck = ray.wait([*running], num_returns=len(running), timeout=_END_SECONDS)
                self.group.drop([hosts[running[call]] for call in stuck])
        return end

    def _watch(self, hosts: list[Host], running: dict[ObjectRef, int]) -> _End:
        """Waits until all have ended or the try must be ended; removes tasks that have ended from `running`."""
        growth = _Growth(self.group, self.collector, hosts)
        while running:
            done, _ = ray.wait([*running], timeout=_POLL_SECONDS)
            for call in done:
                del running[call]
                try:
                    ray.get(call)
                except ray.exceptions.RayActorError:
                    return _End.FAILED
            if ray.get(self.collector.is_to_restart.remote()):
                return _End.FAILED
            if done or is_preempted():
                for rank in ray.get(self.collector.over.remote([*running.values()])):
                    hosts[rank].actor.end.remote(is_graceful=True)
            if growth.is_due():
                return _End.GROWN
        return _End.OVER


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
