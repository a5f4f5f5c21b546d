"""Batches on a device ahead of their step; a second CPU device stands for a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest


@pytest.mark.thorough
def test_batches_are_there_if_they_can_be() -> None:
    program = """
        import json
        import tensorflow as tf
        from generic_trainer import prefetch_to_device

        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

        def places(dataset, device=None):
            return sorted({tensor.device[-5:] for batch in prefetch_to_device(dataset, device)
                           for tensor in tf.nest.flatten(batch, expand_composites=True)})

        numbers = tf.data.Dataset.range(10).map(lambda i: ({"x": tf.cast(i, tf.float32)}, i)).batch(2)
        words = numbers.map(lambda x, y: ({"x": tf.strings.as_string(y)}, y))
        sparse = numbers.map(lambda x, y: (tf.sparse.from_dense(x["x"]), y))
        values = [int(y) for _, batch in prefetch_to_device(numbers, "/device:CPU:1") for y in batch]
        print("FOUND", json.dumps([places(numbers, "/device:CPU:1"), places(words, "/device:CPU:1"),
                                   places(sparse, "/device:CPU:1"), places(numbers), values]))
    """
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    copied, words, sparse, without, values = json.loads(done.stdout.rpartition("FOUND ")[2])
    assert copied == ["CPU:1"]
    assert (words, sparse, without) == (["CPU:0"], ["CPU:0"], ["CPU:0"])
    assert values == list(range(10))
