"""A Ray Train backend that sets each worker's TF_CONFIG. Imported only where Ray is installed.

Ray's own TensorFlow backend does the same, but does not support parameter servers, and imports TensorFlow in each Ray
worker, although only the worker's subprocess needs it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from ..distributed.tf_config import CHIEF, PS, VARIABLE, WORKER, ClusterTask


class TfConfig(BackendConfig):
    """Configuration of the backend.

    Args:
      parameter_servers: How many of the workers are parameter servers, the last ones. With parameter servers, the first
        worker is the chief, which schedules the steps; without, worker 0 acts as chief, as MultiWorkerMirroredStrategy
        requires. A single worker gets the role `chief`, which Estimators require.
    """

    def __init__(self, parameter_servers: int = 0) -> None:
        self.parameter_servers = parameter_servers

    @property
    def backend_cls(self) -> type[Backend]:
        """The backend class."""
        return _TfConfigBackend


class _TfConfigBackend(Backend):
    def on_start(self, worker_group: Any, backend_config: TfConfig) -> None:
        """Sets TF_CONFIG in all workers; called by Ray Train when the workers of a try have started."""
        addresses = worker_group.execute(_free_address)
        tasks = tasks_of(addresses, backend_config.parameter_servers)
        ray.get(
            [
                worker_group.execute_single_async(rank, _set_tf_config, task.to_tf_config())
                for rank, task in enumerate(tasks)
            ]
        )


def tasks_of(addresses: list[str], parameter_servers: int) -> list[ClusterTask]:
    """Returns the cluster task of each worker, in the order of the addresses."""
    training = len(addresses) - parameter_servers
    if not parameter_servers and training > 1:
        return [ClusterTask(WORKER, index, {WORKER: tuple(addresses)}) for index in range(training)]
    parts = {CHIEF: addresses[:1], WORKER: addresses[1:training], PS: addresses[training:]}
    jobs = {role: tuple(found) for role, found in parts.items() if found}
    return [ClusterTask(role, index, jobs) for role, found in jobs.items() for index in range(len(found))]


def _free_address() -> str:
    """Returns this machine's address with a free port."""
    host = ray.util.get_node_ip_address()
    with contextlib.closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _set_tf_config(tf_config: str) -> None:
    os.environ[VARIABLE] = tf_config
