"""Measures how long a worker waits for the others where several train by all-reduce.

    waited = measured()  # before the first step is traced
    …
    waited()  # seconds until now

They all go at one pace, the slowest one's. Which one that is shows in the waiting: all others have their gradients
early, and wait for the last. So in TensorFlow's all-reduce (`tf.distribute.MultiWorkerMirroredStrategy`, by `fit` or by
a loop) the time is noted at which this worker's values are there, and at which the result is. Both are noted beside the
computation, which waits for neither.

Not seen are: the time on the wire, which all have in common and which is part of it; what is gathered instead of
reduced (gradients of embeddings, `tf.IndexedSlices`); what a GPU does after TensorFlow has handed it its work, as the
times are the host's; and why a worker is late: its input, its processor, or a larger share of the batch.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..compat.tensorflow import collective_all_reduce, device_of
from ..distributed.tf_config import PS, task_from_environment


def measured() -> Callable[[], float] | None:
    """Begins to measure, from the next all-reduce that is traced.

    Returns:
      A function that returns the seconds of waiting until now; None where no workers train by TensorFlow's all-reduce,
      and for an Estimator, whose graph is built before it begins.
    """
    task = task_from_environment()
    if task is None or task.num_workers == 1 or PS in task.jobs or "tensorflow" not in sys.modules:
        return None
    import tensorflow as tf

    if not tf.executing_eagerly():
        return None
    made: list[Any] = []
    # In a thread of its own, where no strategy's scope is open that would make one for all workers of it.
    maker = threading.Thread(target=lambda: made.append(tf.Variable(0.0, dtype=tf.float64, trainable=False)))
    maker.start()
    maker.join()
    [sum_of_all] = made
    devices: set[str] = set()  # of this worker, which wait side by side
    launcher, name = collective_all_reduce()
    all_reduce = getattr(launcher, name)

    @functools.wraps(all_reduce)
    def timed(self: Any, input_tensor: Any, *arguments: Any, **options: Any) -> Any:
        devices.add(device_of(self))
        begin = _time_of(input_tensor)
        reduced = all_reduce(self, input_tensor, *arguments, **options)
        sum_of_all.assign_add(_time_of(reduced) - begin, read_value=False)
        return reduced

    setattr(launcher, name, timed)
    return lambda: float(sum_of_all.numpy()) / max(1, len(devices))


def _time_of(tensor: Any) -> Any:
    """Returns when a tensor was there."""
    import tensorflow as tf

    with tf.device("CPU:0"), tf.control_dependencies([tensor]):
        return tf.timestamp()
