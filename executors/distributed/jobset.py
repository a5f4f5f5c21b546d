"""Sets TF_CONFIG in the pods of a JobSet, such as those of Kubeflow Trainer, which has no runtime for TensorFlow.

A pod gets TASKS from its manifest, the JobSet's name and its role from its own labels, and its index from Kubernetes:

    GENERIC_TRAINER_JOBSET_TASKS={"chief": 1, "worker": 2, "ps": 1}
    JOBSET_NAME=taxi  REPLICATED_JOB_NAME=worker  JOB_COMPLETION_INDEX=1

Each role is a replicated job with one indexed Job. Pods are reachable by the host names of JobSet's headless service,
such as `taxi-worker-0-1.taxi`: https://jobset.sigs.k8s.io/docs/concepts/#dns-hostnames-for-pods.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from ..errors import InputError
from ..number_range import STEPS, WORKERS
from ..runtime.files.plain_values import parsed_json
from .tf_config import ROLES, VARIABLE, ClusterTask

TASKS, NAME, ROLE, INDEX = (
    "GENERIC_TRAINER_JOBSET_TASKS", "JOBSET_NAME", "REPLICATED_JOB_NAME", "JOB_COMPLETION_INDEX",
)  # fmt: skip
PORT = 2222


def set_tf_config(environment: MutableMapping[str, str]) -> None:
    """Sets TF_CONFIG from the variables of a JobSet's pod, if there are any and more than one task.

    Raises:
      InputError: When a variable is missing or has another form.
    """
    if not (text := environment.get(TASKS)) or environment.get(VARIABLE):
        return
    counts = _counts(text)
    task = _task(environment, counts)
    if sum(counts.values()) > 1:
        environment.update(task.environment())


def host(name: str, role: str, index: int) -> str:
    """Returns the host name of a pod."""
    return f"{name}-{role}-0-{index}.{name}"


def _counts(text: str) -> dict[str, int]:
    counts = parsed_json(text, f"{TASKS}={text}")
    if not isinstance(counts, dict) or not all(
        role in ROLES and WORKERS.includes(count) for role, count in counts.items()
    ):
        raise InputError(f'{TASKS}={text}: expected numbers of tasks by role, such as {{"worker": 2}}.')
    return counts


def _task(environment: MutableMapping[str, str], counts: dict[str, int]) -> ClusterTask:
    missing = [name for name in (NAME, ROLE, INDEX) if not environment.get(name)]
    if missing:
        raise InputError(
            f"{TASKS} is set, but {' and '.join(missing)} missing. The pod's template sets them from its labels; see "
            "`generic-trainer submit --to kubeflow-trainer`."
        )
    name, role, index = environment[NAME], environment[ROLE], environment[INDEX]
    if role not in counts or (place := STEPS.parse(index)) is None or place >= counts[role]:
        raise InputError(f"{TASKS}={environment[TASKS]} has no task {role} {index}.")
    jobs = {
        replicated: tuple(f"{host(name, replicated, number)}:{PORT}" for number in range(count))
        for replicated, count in counts.items()
    }
    return ClusterTask(role, int(place), jobs)
