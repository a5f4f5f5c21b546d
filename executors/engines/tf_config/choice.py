"""Chooses the engine of a process that TF_CONFIG makes a task of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.process.run_environment import inherited_environment

if TYPE_CHECKING:
    from ..base import Engine


def engine_of_task() -> type[Engine] | None:
    """Returns the engine if TF_CONFIG names a cluster, else None."""
    environment = inherited_environment()
    if "TF_CONFIG" not in environment:
        return None
    from ...distributed.tf_config import task_from_environment
    from .engine import TaskEngine

    return TaskEngine if task_from_environment(environment) else None
