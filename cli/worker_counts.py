"""Numbers of workers and parameter servers from a command's own flags, as aliases of --workers and --ps.

Usage:

    options = with_counts(options_from(flags), flags, CountFlags(workers="num_workers", servers="num_ps"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..executors.engines.cluster_options import worker_range
from ..executors.options import LOCAL, TrainingOptions


@dataclasses.dataclass(frozen=True)
class CountFlags:
    """A command's own flags, as names of its parameters.

    Attributes:
      workers: The number of workers.
      servers: The number of parameter servers.
      needs_server: Whether several workers get one parameter server if no number is given.
    """

    workers: str
    servers: str
    needs_server: bool = False


def with_counts(options: TrainingOptions, values: Mapping[str, Any], flags: CountFlags) -> TrainingOptions:
    """Returns the options with the numbers of a command's own flags; --workers and --ps take precedence.

    Args:
      options: Options of a command line; returned unchanged for a single process (`engine="local"`).
      values: The command's values by parameter.
      flags: The command's own flags.
    """
    if options.engine == LOCAL:
        return options
    workers, servers = values.get(flags.workers), values.get(flags.servers)
    if workers is not None and options.workers == TrainingOptions.workers:
        options = dataclasses.replace(options, workers=str(workers))
    if servers is None:
        servers = int(flags.needs_server and worker_range(options.workers)[1] > 1)
    return options if options.ps else dataclasses.replace(options, ps=servers)
