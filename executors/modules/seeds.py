"""Seeds the random number generators that training may use."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..fn_args import FnArgs


def make_repeatable(fn_args: FnArgs, deterministic: bool = False) -> None:
    """Seeds all generators if `fn_args.seed` is set; `deterministic` enables op determinism, with seed 0 if none is."""
    if deterministic:
        import tensorflow as tf

        if fn_args.seed is None:
            fn_args.seed = 0
        tf.config.experimental.enable_op_determinism()
    if fn_args.seed is not None:
        seed_all(fn_args.seed)


def seed_all(seed: int) -> None:
    """Seeds Python, NumPy and TensorFlow; Keras derives its seeds from them."""
    import numpy as np
    import tensorflow as tf

    random.seed(seed)
    np.random.seed(seed % 2**32)
    tf.random.set_seed(seed)
