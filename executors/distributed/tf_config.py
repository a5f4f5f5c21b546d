"""Parses this process's cluster task from the environment variable TF_CONFIG.

    {"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222"], "ps": ["host2:2222"]},
     "task": {"type": "worker", "index": 0}}

The variable, its roles and the choice of the chief are TensorFlow's: see
https://www.tensorflow.org/guide/distributed_training and `tensorflow.python.distribute.multi_worker_util`. An evaluator
is not part of the cluster and needs no address in it.

Usage:

    task = task_from_environment()     # None on one machine
    task.is_chief, str(task)           # True, "worker 0"
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import socket
from collections.abc import Mapping
from typing import cast

from ..errors import InputError
from ..number_range import PORTS, TASKS
from ..runtime.files.plain_values import parsed_json

VARIABLE = "TF_CONFIG"
CHIEF, MASTER, WORKER, PS, EVALUATOR = "chief", "master", "worker", "ps", "evaluator"
# TensorFlow appends a cluster's latest warnings to each of its errors. If a warning contains bytes that are not UTF-8,
# Python raises UnicodeDecodeError in place of the error, even in place of OutOfRangeError at the end of the data.
LOGS_IN_ERRORS = "TF_WORKER_NUM_FORWARDED_LOG_MESSAGES"
ROLES = (CHIEF, WORKER, PS, EVALUATOR, MASTER)  # `master`: TensorFlow 1's chief, which evaluates as well
_EXAMPLE = '{"cluster": {"chief": ["host:port"], "worker": ["host:port"]}, "task": {"type": "chief", "index": 0}}'


@dataclasses.dataclass(frozen=True)
class ClusterTask:
    """One process of a cluster.

    Attributes:
      type: Its role: "chief", "worker", "ps", "evaluator" or "master".
      index: Its index among the tasks of its role, from 0.
      jobs: The addresses of the cluster by role, each "host:port".
    """

    type: str
    index: int
    jobs: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        return f"{self.type} {self.index}"

    @property
    def is_chief(self) -> bool:
        """Whether this task exports the model: chief or master, or worker 0 if there is neither."""
        if self.type in (CHIEF, MASTER):
            return True
        return self.type == WORKER and self.index == 0 and not self._leaders

    @property
    def address(self) -> str:
        """Its address, "host:port"; "" for an evaluator without one."""
        return "".join(self.jobs.get(self.type, ())[self.index : self.index + 1])

    @property
    def others(self) -> list[ClusterTask]:
        """All other tasks of the cluster, and the evaluator, which may not be listed."""
        counts = {job: len(addresses) for job, addresses in self.jobs.items()} | {EVALUATOR: 1}
        tasks = [ClusterTask(job, index, self.jobs) for job, count in counts.items() for index in range(count)]
        return [task for task in tasks if (task.type, task.index) != (self.type, self.index)]

    @property
    def chief_address(self) -> str:
        """The address of the chief, "host:port"."""
        return next(self.jobs[role][0] for role in (CHIEF, MASTER, WORKER) if self.jobs.get(role))

    @property
    def worker_index(self) -> int:
        """Index among the training tasks, the chief first; for other roles the task's own index."""
        return self.index + (self._leaders if self.type == WORKER else 0)

    @property
    def num_workers(self) -> int:
        """Number of training tasks: chief, master and workers."""
        return self._leaders + len(self.jobs.get(WORKER, ()))

    @property
    def cluster_id(self) -> str:
        """A short hash of the addresses without the evaluator's; identical in every process of the cluster."""
        known_to_all = sorted(item for item in self.jobs.items() if item[0] != EVALUATOR)
        return hashlib.sha256(json.dumps(known_to_all).encode()).hexdigest()[:12]

    @property
    def _leaders(self) -> int:
        return len(self.jobs.get(CHIEF, ())) + len(self.jobs.get(MASTER, ()))

    def to_tf_config(self) -> str:
        """Returns the value of TF_CONFIG for this task."""
        cluster = {job: list(addresses) for job, addresses in self.jobs.items()}
        return json.dumps({"cluster": cluster, "task": {"type": self.type, "index": self.index}})

    def environment(self) -> dict[str, str]:
        """Returns the environment variables for the task's process."""
        return {VARIABLE: self.to_tf_config(), LOGS_IN_ERRORS: "0"}

    def require_free_port(self) -> None:
        """Checks that TensorFlow's server can listen on this task's port.

        TensorFlow's server shares the port with another process that also sets SO_REUSEPORT, and then hangs.

        Raises:
          InputError: When another process of this machine listens on the port, or this user may not use it.
        """
        if self.type == EVALUATOR:
            return
        address = self.address
        port = int(address.rpartition(":")[2])
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    return  # other network errors are left to TensorFlow
                raise InputError(
                    f"{VARIABLE}: {self} cannot listen on {address}: {os.strerror(error.errno)}. Stop the process that "
                    "uses the port, or choose another port."
                ) from error


def task_from_environment(environment: Mapping[str, str] = os.environ) -> ClusterTask | None:
    """Returns this process's task, or None when TF_CONFIG names no cluster.

    Args:
      environment: The variables; those of this process by default.

    Raises:
      InputError: When TF_CONFIG does not have the form above; the message names the wrong part.
    """
    text = environment.get(VARIABLE, "").strip()
    return parse(text) if text else None


def parse(text: str) -> ClusterTask | None:
    """Parses a value of TF_CONFIG; see `task_from_environment`."""
    try:
        config = parsed_json(text, "its text")
    except InputError as error:
        raise _malformed(text, f"is not usable ({str(error).rstrip('.')})") from error
    if not isinstance(config, dict):
        raise _malformed(text, "is not a JSON object")
    cluster = config.get("cluster")
    if cluster is None or cluster == {}:
        return None
    if not isinstance(cluster, dict):
        raise _malformed(text, f"has a cluster that is not an object of lists: {cluster!r}")
    jobs = {job: _addresses(text, job, addresses) for job, addresses in cluster.items()}
    jobs = {job: addresses for job, addresses in jobs.items() if addresses}  # a role with 0 replicas is as none
    _require_one_chief(text, jobs)
    _require_different(text, jobs)
    return _task(text, config.get("task"), jobs)


def _addresses(text: str, job: str, addresses: object) -> tuple[str, ...]:
    if job not in ROLES:
        raise _malformed(text, f"has the unknown role {job!r}; the roles are {', '.join(ROLES)}")
    if isinstance(addresses, dict):  # TensorFlow accepts {"0": "host:port"} too
        by_index = {_index(text, key): address for key, address in addresses.items()}
        if sorted(by_index) != list(range(len(addresses))):
            raise _malformed(text, f"needs the indexes 0 to {len(addresses) - 1} for {job!r}, not {list(addresses)}")
        addresses = [by_index[index] for index in range(len(addresses))]
    if not isinstance(addresses, list):
        raise _malformed(text, f"needs a list of addresses for {job!r}, not {addresses!r}")
    from .address import Address

    for address in addresses:
        if not isinstance(address, str) or Address.parse(address) is None:
            raise _malformed(
                text,
                f"has the address {address!r} for {job!r}; it must be host:port, with {PORTS} as port and an IPv6 "
                "address in brackets",
            )
    return tuple(addresses)


def _require_one_chief(text: str, jobs: Mapping[str, tuple[str, ...]]) -> None:
    """Checks that the cluster trains: TensorFlow has one chief or master, or else worker 0; and one evaluator."""
    leaders = [address for role in (CHIEF, MASTER) for address in jobs.get(role, ())]
    if len(leaders) > 1:
        raise _malformed(text, f"has {len(leaders)} chiefs, {' and '.join(leaders)}; a cluster has only one")
    if not leaders and WORKER not in jobs:
        raise _malformed(text, f"has no chief and no worker, only {', '.join(jobs) or 'empty lists'}")
    if len(evaluators := jobs.get(EVALUATOR, ())) > 1:
        raise _malformed(text, f"has {len(evaluators)} evaluators, {' and '.join(evaluators)}; a cluster has only one")


def _require_different(text: str, jobs: Mapping[str, tuple[str, ...]]) -> None:
    from .address import Address

    owners: dict[Address | None, str] = {}
    for job, addresses in jobs.items():
        for index, address in enumerate(addresses):
            task = f"{job} {index}"
            if (owner := owners.setdefault(Address.parse(address), task)) != task:
                raise _malformed(text, f"has the address {address!r} twice, for {owner} and {task}")


def _task(text: str, task: object, jobs: Mapping[str, tuple[str, ...]]) -> ClusterTask:
    if not isinstance(task, dict) or not isinstance(task.get("type"), str):
        raise _malformed(text, f"needs a task with type and index, not {task!r}")
    kind, count = task["type"], 1 if task["type"] == EVALUATOR else len(jobs.get(task["type"], ()))
    if not count:
        raise _malformed(text, f"has the task type {kind!r}, which is not in its cluster of {', '.join(jobs)}")
    if "index" not in task and count > 1:
        raise _malformed(text, f"has no task index, but its cluster has {count} tasks of the type {kind!r}")
    index = _index(text, task.get("index", 0))
    if index >= count:
        raise _malformed(text, f"has the task {kind} {index}, but its cluster has only {count} of them")
    return ClusterTask(kind, index, {EVALUATOR: (), **jobs} if kind == EVALUATOR else jobs)


def _index(text: str, value: object) -> int:
    # Some platforms write it as a string. 1.0 and true are no indexes for TensorFlow either.
    index = TASKS.parse(value) if isinstance(value, str) else value if TASKS.includes(value) else None
    if index is None:
        raise _malformed(text, f"has the task index {value!r}, which is not {TASKS}")
    return int(cast("int", index))


def _malformed(text: str, what: str) -> InputError:
    return InputError(f"{VARIABLE}={text[:300]!r} {what}. Expected {_EXAMPLE}")
