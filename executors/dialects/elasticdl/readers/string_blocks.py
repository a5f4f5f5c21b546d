"""Passes blocks of strings to TensorFlow as one value, without a Python object for each string.

Converting an array of Python's bytes to a tensor takes about 100 ns per string, and creating it as long again; parsing
a serialized tensor takes 15 ns. A `TensorProto` holds strings as their lengths, followed by their concatenated bytes.

Usage:

    block = serialized_strings(np.array([[1, 2], [0, 1]]), b"abbc")
    tf.io.parse_tensor(block, tf.string)     # [["a", "bb"], ["", "c"]]
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_BITS: np.ndarray = 7 * np.arange(5)  # of the groups in a varint of up to 32 bits


def serialized_strings(lengths: np.ndarray, content: bytes) -> bytes:
    """Returns a string tensor in the form that `tf.io.parse_tensor` reads.

    Args:
      lengths: Lengths of the strings in bytes, in the shape of the tensor.
      content: The strings, concatenated in the order of the lengths.
    """
    proto = tf.make_tensor_proto([], tf.string)
    proto.tensor_shape.CopyFrom(tf.TensorShape(lengths.shape).as_proto())
    proto.tensor_content = _varints(lengths.ravel()) + content
    serialized: bytes = proto.SerializeToString()
    return serialized


def _varints(numbers: np.ndarray) -> bytes:
    """Returns numbers as protobuf's varints: 7 bits in each byte, lowest first, the top bit set except in the last."""
    if numbers.max(initial=0) < 128:
        return bytes(numbers.astype(np.uint8))
    groups = numbers[:, np.newaxis] >> _BITS
    is_used = groups > 0
    is_used[:, 0] = True
    varints: np.ndarray = ((groups & 127) | ((groups > 127) << 7)).astype(np.uint8)[is_used]
    return varints.tobytes()
