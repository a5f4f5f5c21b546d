"""Shims for the names that confs and model files import from DLRover's TensorFlow trainer.

    from generic_trainer.executors.dialects.dlrover.shim import provide_dlrover

    provide_dlrover()
    from dlrover.trainer.tensorflow.util.column_info import Column    # as in a conf

Names and behavior are those of DLRover from its first commits to 0.6.1 (contract dlrover.md); `names` has the mapping
of module names. The modules import TensorFlow lazily.
"""

from __future__ import annotations

from .names import provide_dlrover

__all__ = ["provide_dlrover"]
