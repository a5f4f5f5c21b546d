"""DLRover's dotted names and what stands behind each.

Names are those that public confs and model files import, of every version; of DLRover's own workings (executors,
failover, hooks, master) and of its PyTorch side there is nothing.
"""

from __future__ import annotations

import functools

from ....modules.import_shims import provide

# Module of DLRover's trainer, our module beside this one: the first is a package where others are below it.
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
    # Its first commits had no `trainer` in the names.
    *((f"dlrover.{name}", ours) for name, ours in _OF_TRAINER),
    ("dlrover.python.common.log", "log_util"),
    ("dlrover.python.elastic_agent.sharding.client", "sharding_client"),
)


def provide_dlrover() -> None:
    """Makes DLRover's modules importable in this process, and TensorFlow behave as its trainer made it.

    A DLRover that is installed is left as it is.
    """
    _behave_as_tensorflow_1()
    provide(_MODULES, beside=__name__)


@functools.cache
def _behave_as_tensorflow_1() -> None:
    """Does what importing DLRover's executor did to TensorFlow: model files were written for that."""
    import tensorflow as tf

    tf.compat.v1.disable_v2_behavior()
