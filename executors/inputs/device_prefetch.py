"""Prefetching of batches to the GPU while the previous step runs.

    dataset = fn_args.data_accessor.tf_dataset_factory(fn_args.train_files, options, schema)
    model.fit(prefetch_to_device(dataset.map(prepare)), …)

It must be the last transformation of the dataset. Distribution strategies prefetch to their devices themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from absl import logging

if TYPE_CHECKING:
    import tensorflow as tf

_BATCHES = 2  # one in use, one being copied


def prefetch_to_device(dataset: tf.data.Dataset, device: str | None = None) -> tf.data.Dataset:
    """Copies the next batch to a device while the current step runs.

    Falls back to prefetching in host memory if there is no device, or if a batch has tensors that cannot be copied:
    strings, sparse and ragged tensors stay on the CPU.

    Args:
      dataset: Dataset of batches in the form that the training step takes.
      device: Name of the device, such as "/gpu:0". Default: the GPU if there is exactly one and no distribution
        strategy is active, else none.

    Returns:
      The dataset to iterate over; no further transformation may be applied.
    """
    import tensorflow as tf

    if device is None:
        gpus = tf.config.list_logical_devices("GPU")
        device = gpus[0].name if len(gpus) == 1 and not tf.distribute.has_strategy() else None
    if device is not None:
        stays = [spec for spec in tf.nest.flatten(dataset.element_spec) if not _can_be_copied(spec)]
        if not stays:
            return dataset.apply(tf.data.experimental.prefetch_to_device(device, _BATCHES))
        logging.info("Batches are not prefetched to %s: %s cannot be copied.", device, stays[0])
    return dataset.prefetch(tf.data.AUTOTUNE)


def _can_be_copied(spec: tf.TypeSpec) -> bool:
    import tensorflow as tf

    return isinstance(spec, tf.TensorSpec) and spec.dtype not in (tf.string, tf.variant, tf.resource)
