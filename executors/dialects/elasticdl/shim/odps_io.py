"""Stubs of ElasticDL's MaxCompute classes, which raise an error with the replacement when they are created.

They allow importing model files that create such a reader or writer only if `is_odps_configured()`.
"""

from __future__ import annotations

import os

from ....errors import InputError
from .constants import MaxComputeConfig

_REQUIRED = (MaxComputeConfig.PROJECT_NAME, MaxComputeConfig.ACCESS_ID, MaxComputeConfig.ACCESS_KEY)


def is_odps_configured() -> bool:
    """Returns whether environment variables for a MaxCompute project and its access keys are set."""
    return all(name in os.environ for name in _REQUIRED)


class _Unsupported:
    """Base class of stubs, which raise an InputError with advice on creation."""

    _advice = ""

    def __init__(self, *unused: object, **unused_options: object) -> None:
        raise InputError(f"ElasticDL's {type(self).__name__} is not part of Generic Trainer. {self._advice}")


class ODPSReader(_Unsupported):
    """Stub of the reader of a MaxCompute table."""

    _advice = "Set the training data to the table's name, or read it with the package pyodps (odps.ODPS)."


class ODPSDataReader(ODPSReader):
    """Stub of the data reader that read a MaxCompute table shard by shard."""


class ParallelODPSDataReader(ODPSReader):
    """Stub of the data reader that read a MaxCompute table in several processes."""


class ODPSWriter(_Unsupported):
    """Stub of the writer of predictions to a MaxCompute table."""

    _advice = "Write the predictions with the package pyodps (odps.ODPS(…).write_table), or without MAXCOMPUTE_* set."
