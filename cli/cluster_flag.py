"""The flag --cluster: the number of tasks by role, and the function that trains on a cluster of local processes.

>>> parse_counts("chief=1,worker=2")
{"chief": 1, "worker": 2}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from ..executors import plugins
from ..executors.distributed.tf_config import CHIEF, EVALUATOR, ROLES, ClusterTask
from ..executors.errors import InputError, did_you_mean
from ..executors.number_range import TASKS

if TYPE_CHECKING:
    from ..executors.monitoring.run_record import RunRecord

_LOCAL_CLUSTERS = "generic_trainer.local_clusters"  # group of entry points


def parse_counts(text: str) -> dict[str, int]:
    """Parses the number of tasks by role, such as "chief=1,worker=2,ps=1,evaluator=1".

    Raises:
      InputError: If the format is wrong, or TensorFlow does not support such a cluster.
    """
    counts: dict[str, int] = {}
    for part in text.split(","):
        role, _, number = (piece.strip() for piece in part.partition("="))
        if role not in ROLES:
            raise InputError(f"--cluster {text}: {role!r} is not one of {', '.join(ROLES)}.{did_you_mean(role, ROLES)}")
        if role in counts:
            raise InputError(f"--cluster {text}: set each role once, such as chief=1,worker=2,ps=1,evaluator=1.")
        if (count := TASKS.parse(number)) is None:
            raise InputError(f"--cluster {text}: give the number of {role} tasks, {TASKS}.")
        counts[role] = int(count)
    for role in (CHIEF, EVALUATOR):
        if counts.get(role, 0) > 1:
            raise InputError(f"--cluster {text}: there can be only one {role}.")
    if not any(_task(role, counts).is_chief for role, count in counts.items() if count):
        raise InputError(f"--cluster {text}: the cluster needs a chief or a worker.")
    return {role: count for role, count in counts.items() if count}


def local_cluster() -> Callable[..., RunRecord]:
    """Returns the registered function that trains on a cluster of local processes.

    Raises:
      InputError: If there is none.
    """
    for function in plugins.load(_LOCAL_CLUSTERS).values():
        return cast("Callable[..., RunRecord]", function)
    raise InputError(f"--cluster: no installed package registers an entry point in {_LOCAL_CLUSTERS}.")


def _task(role: str, counts: Mapping[str, int]) -> ClusterTask:
    return ClusterTask(role, 0, {name: ("",) * count for name, count in counts.items() if count})
