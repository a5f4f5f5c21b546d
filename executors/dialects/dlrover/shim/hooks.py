"""The hooks of DLRover's elastic agent, for scripts that pass them to an Estimator. There is no master to report to."""

from __future__ import annotations

import tensorflow as tf

from .sharding_client import ShardingClient


class ElasticDataShardReportHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Reports each batch to the client of the data shards, as DLRover's does.

    Args:
      sharding_client: The client.
    """

    def __init__(self, sharding_client: ShardingClient) -> None:
        self._sharding_client = sharding_client

    def after_run(self, run_context: object, run_values: object) -> None:
        """Reports a batch."""
        self._sharding_client.report_batch_done()


class ReportModelInfoHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Does nothing; DLRover's reports the model's size and steps to the master."""
