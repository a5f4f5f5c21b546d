"""The MaxCompute names that model files import. Using them says what takes their place.

Model files import them for a prediction processor or a reader that is only made where `is_odps_configured()`.
"""

from __future__ import annotations

import os

from ....errors import InputError
from .constants import MaxComputeConfig

_REQUIRED = (MaxComputeConfig.PROJECT_NAME, MaxComputeConfig.ACCESS_ID, MaxComputeConfig.ACCESS_KEY)


def is_odps_configured() -> bool:
    """Returns whether the environment names a MaxCompute project and its keys."""
    return all(name in os.environ for name in _REQUIRED)


class _NotHere:
    """Says what to do instead, as soon as it is made."""

    _advice = ""

    def __init__(self, *unused: object, **unused_options: object) -> None:
        raise InputError(f"ElasticDL's {type(self).__name__} is not part of Generic Trainer. {self._advice}")


class ODPSReader(_NotHere):
    """Read a MaxCompute table."""

    _advice = "Give the table's name as the training data, or read it with the package pyodps (odps.ODPS)."


class ODPSDataReader(ODPSReader):
    """Read a MaxCompute table, shard by shard."""


class ParallelODPSDataReader(ODPSReader):
    """Read a MaxCompute table in several processes."""


class ODPSWriter(_NotHere):
    """Wrote predictions to a MaxCompute table."""

    _advice = "Write the predictions with the package pyodps (odps.ODPS(…).write_table), or without MAXCOMPUTE_* set."
