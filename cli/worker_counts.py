"""Numbers of workers and parameter servers from the flags of ElasticDL and DLRover.

Usage:

    options = with_counts(options_from(flags), flags)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..executors.engines.cluster_options import worker_range
from ..executors.options import LOCAL, TrainingOptions

WORKERS = ("num_workers", "worker_num")
SERVERS = ("num_ps_pods", "ps_num")


def with_counts(options: TrainingOptions, values: Mapping[str, Any], needs_server: bool = False) -> TrainingOptions:
    """Returns the options with numbers from ElasticDL's and DLRover's flags; --workers and --ps take precedence.

    Args:
      options: Options of a command line; returned unchanged for a single process (`engine="local"`).
      values: The command's values by parameter.
      needs_server: Whether several workers get one parameter server if no number is given.
    """
    if options.engine == LOCAL:
        return options
    workers, servers = (
        next((values[name] for name in names if values.get(name) is not None), None) for names in (WORKERS, SERVERS)
    )
    if workers is not None and options.workers == TrainingOptions.workers:
        options = dataclasses.replace(options, workers=str(workers))
    if servers is None:
        servers = int(needs_server and worker_range(options.workers)[1] > 1)
    return options if options.ps else dataclasses.replace(options, ps=servers)
