"""The group of worker hosts on a Ray cluster: it is started, completed after a loss, and grown in the same way.

A host is an actor with the resources of one worker. It outlives the training processes that it forks, so a new try
costs a fork instead of an interpreter start and the import of TensorFlow. A placement group reserves the resources of
the minimum number of workers, so that two runs cannot each hold half of a cluster.

    group = HostGroup(least=2, most=4, resources={"CPU": 1}, environment={})
    hosts = group.assemble(is_preempted)   # the ready hosts, new ones in place of those that were lost
    group.end(hosts)                       # kills their training processes and drops hosts that do not answer
    group.has_grown(hosts)                 # whether `assemble` would return more hosts
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
from absl import logging
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .losses import cause_in
from .worker import WorkerHost

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

_POLL_SECONDS = 0.5
_COMPLETION_SECONDS = 30.0  # how long the first try waits for more than the minimum number of hosts
_ANSWER_SECONDS = 5.0  # for a host to end its training process; Ray takes 15 s to declare a node dead
_RETRY_SECONDS = 1.0  # after a host that could not be started
_CONCURRENCY = 4  # calls of a host at a time: a task's run, its end, and questions
_OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}  # of an actor, by resource


@dataclasses.dataclass(eq=False)
class Host:
    """A worker host.

    Attributes:
      actor: The handle of its `WorkerHost`.
      bundle: The index of its reserved resources in the placement group; None without a reservation.
      location: A reference to its node's id and address; resolved when it is ready to fork.
      node: That node's id.
      address: That node's address.
    """

    actor: ActorHandle
    bundle: int | None
    location: ObjectRef
    node: str = ""
    address: str = ""


class HostGroup:
    """The hosts of a run.

    Args:
      least: Minimum number of hosts.
      most: Maximum number of hosts.
      resources: Resources per host, by Ray's names.
      environment: Variables of the training processes in addition to those of the hosts.
      libraries: Modules that each host imports besides TensorFlow; see `fork_server.prepare`.
    """

    def __init__(
        self,
        least: int,
        most: int,
        resources: Mapping[str, float],
        environment: Mapping[str, str],
        libraries: Sequence[str] = (),
    ) -> None:
        self._least, self._most, self._resources = least, most, dict(resources)
        self._environment, self._libraries = dict(environment), list(libraries)
        self._reserved = ray.util.placement_group([self._resources or {"CPU": 0}] * least, strategy="PACK")
        self._ready: list[Host] = []
        self._pending: list[Host] = []
        self._is_assembled = False
        self._retry_at = 0.0

    def assemble(self, is_cancelled: Callable[[], bool]) -> list[Host]:
        """Starts missing hosts and waits for them; returns at least the minimum number, unless it is cancelled.

        The first call waits up to 30 s for as many hosts as the cluster's nodes have room for. Later calls return the
        hosts that are left if they are enough: the others join when they are ready, see `has_grown`.
        """
        patient_until = time.monotonic() + (0.0 if self._is_assembled else _COMPLETION_SECONDS)
        while True:
            self._request_missing()
            enough = self._target() if time.monotonic() < patient_until else self._least
            self._admit(0.0 if len(self._ready) >= enough else _POLL_SECONDS)
            if len(self._ready) >= enough or is_cancelled():
                self._is_assembled = True
                return list(self._ready)
            logging.log_every_n_seconds(
                logging.INFO, "Waiting for workers: %d of %d are ready.", 30, len(self._ready), enough
            )

    def has_grown(self, hosts: Sequence[Host]) -> bool:
        """Whether more hosts are ready to fork than these, which the last `assemble` returned."""
        self._request_missing()  # also for pending hosts that died, such as on a node that Ray did not know to be dead
        self._admit(0.0)
        return len(self._ready) > len(hosts)

    def end(self, hosts: Sequence[Host]) -> None:
        """Kills the training processes of hosts; hosts that were lost or do not answer are dropped from the group."""
        calls = {host.actor.end.remote(): host for host in hosts}
        ray.wait([*calls], num_returns=len(calls), timeout=_ANSWER_SECONDS)
        self.drop([host for call, host in calls.items() if not _is_answered(call)])

    def drop(self, hosts: Sequence[Host]) -> None:
        """Removes hosts from the group, with the processes that may still run on them."""
        for host in hosts:
            if host in self._ready:
                self._ready.remove(host)
                ray.kill(host.actor)

    def _target(self) -> int:
        """Returns the number of hosts that the cluster's living nodes have room for, within the limits."""
        if self._least == self._most:
            return self._most
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(_fits(node, self._resources) for node in nodes)
        return min(self._most, max(self._least, room))

    def _request_missing(self) -> None:
        if time.monotonic() < self._retry_at:
            return
        for _ in range(self._most - len(self._ready) - len(self._pending)):
            taken = {host.bundle for host in (*self._ready, *self._pending)}
            bundle = next((index for index in range(self._least) if index not in taken), None)
            self._pending.append(self._start(bundle))

    def _start(self, bundle: int | None) -> Host:
        options: dict[str, Any] = {_OPTIONS[name]: amount for name, amount in self._resources.items()}
        if bundle is not None:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._reserved, bundle)
        actor = (
            ray.remote(WorkerHost)
            .options(**{"num_cpus": 0, "num_gpus": 0, **options}, max_concurrency=_CONCURRENCY)
            .remote(self._environment, self._libraries)
        )
        return Host(actor, bundle, actor.prepare.remote())

    def _admit(self, timeout: float) -> None:
        """Moves pending hosts that are ready to fork to the group, and removes those that have died."""
        if not self._pending:
            time.sleep(timeout)
            return
        ray.wait([host.location for host in self._pending], timeout=timeout)
        for host in [*self._pending]:
            if not ray.wait([host.location], timeout=0)[0]:
                continue
            self._pending.remove(host)
            try:
                host.node, host.address = ray.get(host.location)
            except ray.exceptions.RayActorError as error:
                logging.warning("A worker's host could not be started; retrying: %s", cause_in(str(error)))
                self._retry_at = time.monotonic() + _RETRY_SECONDS
            else:
                self._ready.append(host)
                self._ready.sort(key=lambda one: (one.bundle is None, one.bundle or 0))


def _is_answered(call: ObjectRef) -> bool:
    try:
        ray.get(call, timeout=0)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return False
    return True


def _fits(available: Mapping[str, float], resources: Mapping[str, float]) -> int:
    return min((int(available.get(name, 0.0) // amount) for name, amount in resources.items()), default=1)
