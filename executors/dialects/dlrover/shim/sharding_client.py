"""The client of DLRover's data shards, for confs that make one themselves. Here it hands out ranges with no master.

What it has handed out is not in any checkpoint: of a reader that asks it, a resumed job reads the first rows again and
leaves out those that are trained.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading


@dataclasses.dataclass(frozen=True)
class Shard:
    """A range of rows.

    Attributes:
      name: Of the data set.
      start: Number of the first row, counted from 0.
      end: Number of the row to stop before.
    """

    name: str | None
    start: int
    end: int


class ShardingClient:
    """Hands out the ranges of a data set in order, epoch after epoch. Threads may share one."""

    def __init__(
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
        """Describes the data set.

        Args:
          dataset_name: Its name.
          batch_size: Rows in a batch.
          num_epochs: Passes over the data; 0 or less for no end.
          dataset_size: Rows in the data set.
          shuffle: DLRover shuffled nothing in a TensorFlow job, and nor is anything here.
          task_type: Training or evaluation; makes no difference here.
          num_minibatches_per_shard: Batches in a shard.
          storage_type: Makes no difference here.
        """
        size = max(batch_size * num_minibatches_per_shard, 1)
        starts = range(0, dataset_size, size)
        epochs = range(num_epochs) if num_epochs > 0 else itertools.count()
        ranges = (start for _ in epochs for start in starts) if starts else iter(())
        self._shards = (Shard(dataset_name, start, min(start + size, dataset_size)) for start in ranges)
        self._lock = threading.Lock()

    def fetch_shard(self) -> Shard | None:
        """Returns the next shard, or None when all are handed out."""
        with self._lock:
            return next(self._shards, None)

    def report_batch_done(self, batch_size: int | None = None, err_msg: str = "", task_ids: object = ()) -> bool:
        """Does nothing: there is no master that waits for it."""
        return False
