"""Seeds the random number generators that training may use."""

from __future__ import annotations

import random


def seed_all(seed: int) -> None:
    """Seeds Python, NumPy and TensorFlow; Keras derives its seeds from them."""
    import numpy as np
    import tensorflow as tf

    random.seed(seed)
    np.random.seed(seed % 2**32)
    tf.random.set_seed(seed)
