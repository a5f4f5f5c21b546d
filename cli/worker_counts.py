"""How many workers and parameter servers there are: ElasticDL and DLRover have flags of their own for that.

Usage:

    options = with_counts(options_from(flags), flags)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..executors.options import LOCAL, TrainingOptions

WORKERS = ("num_workers", "worker_num")
SERVERS = ("num_ps_pods", "ps_num")


def with_counts(options: TrainingOptions, values: Mapping[str, Any], needs_server: bool = False) -> TrainingOptions:
    """Returns the options with the numbers that stand under the other flags; our own flags come before them.

    Args:
      options: Of a command line. One process has no use for numbers.
      values: What the command got, by parameter.
      needs_server: Whether several workers have one parameter server where nobody says how many.
    """
    if options.engine == LOCAL:
        return options
    workers, servers = (
        next((values[name] for name in names if values.get(name) is not None), None) for names in (WORKERS, SERVERS)
    )
    if workers is not None and options.workers == TrainingOptions.workers:
        options = dataclasses.replace(options, workers=str(workers))
    if servers is None:
        servers = int(needs_server and options.worker_range[1] > 1)
    return options if options.ps else dataclasses.replace(options, ps=servers)
