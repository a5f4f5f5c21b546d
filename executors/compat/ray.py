"""Private names of Ray 2.55 to 2.60."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def data_parallel_trainer() -> type[DataParallelTrainer]:
    """Returns the trainer class of Ray Train v2, which accepts a custom backend.

    `ray.train.data_parallel_trainer` has the class of v1. Only the framework-specific trainers are public.

    Raises:
      ImportError: If Ray Train is not installed.
    """
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    found: type[DataParallelTrainer] = DataParallelTrainer
    return found
