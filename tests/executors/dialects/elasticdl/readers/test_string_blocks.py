"""Strings that are passed to TensorFlow as a serialized tensor."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.readers.string_blocks import serialized_strings


@pytest.mark.parametrize("longest", [0, 127, 128, 16_383, 16_384, 2_097_152])
def test_strings_of_all_lengths_are_parsed(longest: int) -> None:
    strings = [[b"a", b""], [b"\0\xff" * 5, b"x" * longest]]
    lengths = np.array([[len(string) for string in row] for row in strings])

    block = serialized_strings(lengths, b"".join(map(b"".join, strings)))

    assert tf.io.parse_tensor(block, tf.string).numpy().tolist() == strings


def test_no_strings_keep_their_shape() -> None:
    assert tf.io.parse_tensor(serialized_strings(np.zeros((0, 3), np.int64), b""), tf.string).shape == (0, 3)
