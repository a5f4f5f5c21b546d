"""The options of engines of several processes, and of jobs that are submitted to a cluster."""

from __future__ import annotations

from ..errors import InputError
from ..number_range import AMOUNTS, CPUS, GIGABYTES, RETRIES_OR_NO_LIMIT, TASKS, WORKERS
from ..option import CLUSTER, option


def worker_range(workers: str) -> tuple[int, int]:
    """Returns the minimum and maximum number of workers of the option `workers`.

    Raises:
      InputError: If it is neither N nor MIN:MAX.
    """
    texts = str(workers).split(":")
    least, most = WORKERS.parse(texts[0]), WORKERS.parse(texts[-1])
    if least is None or most is None or least > most or len(texts) > 2:
        raise InputError(f"workers={workers!r}: give {WORKERS}, or the least and most, as in 1:4.")
    return int(least), int(most)


class ClusterOptions:
    """The processes of a cluster, and their resources."""

    workers: str = option(
        "1",
        "Number of workers: N, or MIN:MAX to use as many as the cluster has resources for.",
        group=CLUSTER,
        order=20,
        check=worker_range,
        needs_cluster=True,
    )
    ps: int = option(
        0,
        "Number of parameter servers, in addition to the workers.",
        group=CLUSTER,
        order=20,
        numbers=TASKS,
        needs_cluster=True,
    )
    cpus_per_worker: float = option(
        1.0, "CPUs per worker and parameter server.", group=CLUSTER, order=22, numbers=CPUS, needs_cluster=True
    )
    gpus_per_worker: float = option(
        0.0, "GPUs per worker.", group=CLUSTER, order=22, numbers=AMOUNTS, needs_cluster=True
    )
    memory_gb_per_worker: float | None = option(
        None,
        "Memory per worker, in 10^9 bytes (default: not requested).",
        group=CLUSTER,
        order=22,
        numbers=GIGABYTES,
        needs_cluster=True,
    )
    max_failures: int = option(
        3,
        "Maximum number of restarts from the last checkpoint after worker failures; -1 for no limit.",
        group=CLUSTER,
        order=22,
        numbers=RETRIES_OR_NO_LIMIT,
        needs_cluster=True,
    )
