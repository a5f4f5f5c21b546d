"""Finds the workers of a Ray run that were lost together with their process or node.

A worker that dies with its node reports nothing. The surviving workers then fail because they cannot reach it, and are
not the cause. The loss is found from Ray's state of each actor and node:

    losses(summary["silent"], patience=30)  # [Loss(1, "worker 1", "10.0.0.7", "its node has died: …")]
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_POLL_SECONDS = 1.0
_REQUEST_TIMEOUT = 5.0  # timeout for an actor whose node does not respond
_CAUSE = re.compile(r"The actor (?:is dead|died) because (?P<cause>.+?)(?: Some common causes| To see more|\n|$)")
_KILLED_BY_RAY = "killed by `ray.kill`"  # how hosts that do not answer are ended


@dataclasses.dataclass(frozen=True)
class Member:
    """A worker of one try and its location.

    Attributes:
      attempt: The number of the try, from 1.
      task: Its task in the cluster, such as "worker 1".
      node: The id of its Ray node.
      address: That node's address.
      actor: The handle of its actor.
    """

    attempt: int
    task: str
    node: str
    address: str
    actor: ActorHandle = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Loss:
    """A lost worker; `str` gives its task, its node's address, and Ray's cause of death."""

    attempt: int
    task: str
    address: str
    cause: str

    def __str__(self) -> str:
        return f"{self.task} on the node {self.address} was lost: {self.cause}"


def losses(members: Sequence[Member], patience: float = 0.0) -> list[Loss]:
    """Returns the lost workers among `members`.

    Args:
      members: Workers that have reported neither a result nor an error.
      patience: Seconds to wait for the first loss. Ray takes about 15 s to declare a node dead.
    """
    end = time.monotonic() + patience
    while True:
        found = [
            Loss(member.attempt, member.task, member.address, cause) for member in members if (cause := _cause(member))
        ]
        if found or not members or time.monotonic() >= end:
            return found
        time.sleep(_POLL_SECONDS)


def lost_nodes(members: Sequence[Member]) -> list[Loss]:
    """Returns the workers whose node Ray reports dead; does not contact the workers."""
    deaths = _node_deaths()
    return [
        Loss(member.attempt, member.task, member.address, deaths[member.node])
        for member in members
        if member.node in deaths
    ]


def _node_deaths() -> dict[str, str]:
    """Returns the cause of death of each dead node, by its id."""
    import ray

    return {
        node["NodeID"]: ": ".join(filter(None, ["its node has died", str(node.get("DeathReasonMessage", ""))]))
        for node in ray.nodes()
        if not node["Alive"]
    }


def _cause(member: Member) -> str:
    """Returns how a worker was lost; "" if its host was ended by this run, or still runs."""
    import ray

    if death := _node_deaths().get(member.node):
        return death
    try:
        ray.get(member.actor.__ray_ready__.remote(), timeout=_REQUEST_TIMEOUT)
    except ray.exceptions.RayActorError as error:
        cause = cause_in(str(error))
        return "" if _KILLED_BY_RAY in cause else cause
    except ray.exceptions.GetTimeoutError:
        return ""  # busy, or not yet declared dead
    return ""


def cause_in(message: str) -> str:
    """Returns the cause in the message of Ray's dead actor error, without Ray's advice."""
    found = _CAUSE.search(message)
    return (found["cause"] if found else message.strip().splitlines()[-1]).strip().rstrip(".")
