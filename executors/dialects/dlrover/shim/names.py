"""Maps DLRover's module names to shim modules.

It covers the names that public confs and model files import, for all DLRover releases; not DLRover's internals
(executors and their hooks, failover, master) and its PyTorch modules.
"""

from __future__ import annotations

import functools

from ....modules.import_shims import publish_shims

# (module in DLRover's trainer, shim module in this package). Names with submodules become packages.
_OF_TRAINER = (
    ("constants.constants", "constants"),
    ("constants.platform_constants", "constants"),
    ("constants.tf_constants", "constants"),
    ("tf_constants", "constants"),
    ("tensorflow", "file_reader"),
    ("tensorflow.reader", "file_reader"),
    ("tensorflow.reader.base_reader", "base_reader"),
    ("tensorflow.reader.fake_reader", "fake_reader"),
    ("tensorflow.reader.file_reader", "file_reader"),
    ("tensorflow.util.column_info", "column_info"),
    ("tensorflow.util.common_util", "common_util"),
    ("tensorflow.util.data_mapping_util", "data_mapping_util"),
    ("tensorflow.util.path_util", "path_util"),
    ("tensorflow.util.reader_util", "reader_util"),
    ("tensorflow.util.tf_version_util", "tf_version_util"),
    ("util.conf_util", "conf_util"),
    ("util.log_util", "log_util"),
    ("util.reflect_util", "reflect_util"),
)
_MODULES = (
    *((f"dlrover.trainer.{name}", ours) for name, ours in _OF_TRAINER),
    # DLRover's first commits had no `trainer` in the module names.
    *((f"dlrover.{name}", ours) for name, ours in _OF_TRAINER),
    ("dlrover.python.common.log", "log_util"),
    ("dlrover.python.elastic_agent.sharding.client", "sharding_client"),
    ("dlrover.python.elastic_agent.tensorflow.hooks", "hooks"),
)


def provide_dlrover() -> None:
    """Makes DLRover's module names importable in this process, and disables TensorFlow 2 behavior, as DLRover did.

    An installed DLRover takes precedence over the shims.
    """
    _behave_as_tensorflow_1()
    publish_shims(_MODULES, beside=__name__)


@functools.cache
def _behave_as_tensorflow_1() -> None:
    """Disables TensorFlow 2 behavior, as importing DLRover's executor did; model files depend on it."""
    import tensorflow as tf

    tf.compat.v1.disable_v2_behavior()
