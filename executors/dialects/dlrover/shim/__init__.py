"""What confs and model files import from DLRover's TensorFlow trainer, under its names, without it.

    from generic_trainer.executors.dialects.dlrover.shim import provide_dlrover

    provide_dlrover()
    from dlrover.trainer.tensorflow.util.column_info import Column    # as in a conf

Names and behaviour are those of DLRover's first commits to 0.6.1 (contract dlrover.md); the table is in `names`. No
module in here imports TensorFlow before it has to.
"""

from __future__ import annotations

from .names import provide_dlrover

__all__ = ["provide_dlrover"]
