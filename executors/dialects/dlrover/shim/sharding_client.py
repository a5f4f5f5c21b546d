"""The client of DLRover's data shards, for confs that create one themselves. It assigns ranges without a master.

Its state is not saved in checkpoints: when a job resumes, a reader that uses it reads from the first row again, and the
rows that have been trained on are dropped.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading


@dataclasses.dataclass(frozen=True)
class Shard:
    """A range of rows.

    Attributes:
      name: The data set's name.
      start: The 0-based index of the first row.
      end: The index after the last row.
    """

    name: str | None
    start: int
    end: int


class ShardingClient:
    """Assigns the ranges of a data set in order, epoch by epoch. It is thread-safe."""

    def __init__(  # noqa: PLR0913 (DLRover's signature)
        self,
        dataset_name: str | None,
        batch_size: int,
        num_epochs: int,
        dataset_size: int,
        shuffle: bool = False,
        task_type: object = None,
        num_minibatches_per_shard: int = 10,
        storage_type: str = "",
    ) -> None:
        """Creates a client for a data set.

        Args:
          dataset_name: The data set's name.
          batch_size: Rows per batch.
          num_epochs: Number of passes over the data; 0 or less to repeat without end.
          dataset_size: Rows in the data set.
          shuffle: Ignored; DLRover did not shuffle in TensorFlow jobs, either.
          task_type: Ignored (training or evaluation).
          num_minibatches_per_shard: Batches per shard.
          storage_type: Ignored.
        """
        size = max(batch_size * num_minibatches_per_shard, 1)
        starts = range(0, dataset_size, size)
        epochs = range(num_epochs) if num_epochs > 0 else itertools.count()
        ranges = (start for _ in epochs for start in starts) if starts else iter(())
        self._shards = (Shard(dataset_name, start, min(start + size, dataset_size)) for start in ranges)
        self._lock = threading.Lock()

    def fetch_shard(self) -> Shard | None:
        """Returns the next shard; None when all shards have been assigned."""
        with self._lock:
            return next(self._shards, None)

    def report_batch_done(self, batch_size: int | None = None, err_msg: str = "", task_ids: object = ()) -> bool:
        """No-op, since there is no master; returns False."""
        return False
