"""DLRover's names as a conf imports them, each in a subprocess because TensorFlow is switched to 1.x behavior."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from generic_trainer.executors.modules.keras_version import choose


def run(program: str, folder: pathlib.Path, *path: pathlib.Path) -> list[str]:
    """Runs a program in a folder; returns the lines that it prints."""
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        **choose("2", []).environment(),
    }
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_our_modules_do_not_import_tensorflow(tmp_path: pathlib.Path) -> None:
    program = """
        import importlib, pkgutil, sys
        from generic_trainer.executors.dialects.dlrover import dialect, shim
        from generic_trainer.executors.dialects.dlrover.text import line_file
        from generic_trainer.executors.modules import import_shims

        for module in pkgutil.iter_modules(shim.__path__):
            if module.name == "hooks":  # subclasses of TensorFlow's SessionRunHook
                continue
            importlib.import_module(f"{shim.__name__}.{module.name}")
        print("tensorflow" in sys.modules, "dlrover" in sys.modules)
    """
    assert run(program, tmp_path) == ["False False"]


# The imports of confs and model files of every generation, from DLRover's public repository and documentation.
IMPORTS = """
    from dlrover.trainer.tensorflow.util.column_info import Column
    from dlrover.trainer.tensorflow.reader.base_reader import (  # noqa: F401
        ElasticReader, build_sharding_client,
    )
    from dlrover.trainer.tensorflow.reader.file_reader import FileReader
    from dlrover.trainer.tensorflow.reader.fake_reader import FakeReader
    from dlrover.trainer.tensorflow.reader import FileReader as FromPackage
    from dlrover.trainer.tensorflow import FileReader as FromFurtherUp
    from dlrover.trainer.tensorflow.util import common_util, path_util, reader_util
    from dlrover.trainer.tensorflow.util.path_util import parse_uri, FILE_SCHEME
    from dlrover.trainer.tensorflow.util.reader_util import reader_registery
    from dlrover.trainer.tensorflow.util.common_util import GlobalDict, singleton
    from dlrover.trainer.tensorflow.util.data_mapping_util import data_mapping
    from dlrover.trainer.tensorflow.util.tf_version_util import get_tf_version, is_tf_1, is_tf_113, is_tf_115, is_tf_2
    from dlrover.trainer.util.conf_util import Configuration, ConfigurationManagerInterface, ConfigurationManagerMeta
    from dlrover.trainer.util.conf_util import get_conf
    from dlrover.trainer.util.log_util import default_logger as logger
    from dlrover.trainer.util.reflect_util import get_class
    from dlrover.trainer.constants.constants import Constant
    from dlrover.trainer.constants.platform_constants import PlatformConstants
    from dlrover.trainer.constants.tf_constants import TFConstants
    from dlrover.python.common.log import default_logger
    from dlrover.python.elastic_agent.sharding.client import ShardingClient
    from dlrover.python.elastic_agent.tensorflow.hooks import ElasticDataShardReportHook, ReportModelInfoHook
    import dlrover.trainer.util.log_util as log_util
    from dlrover.trainer.tf_constants import TFConstants as Earlier
    from dlrover.constants.tf_constants import TFConstants as Earliest
    from dlrover.util.log_util import default_logger as earliest_logger
    from dlrover.util.reflect_util import get_class as earliest_get_class
    from dlrover.tensorflow.util import path_util as earliest_path_util
    from dlrover.tensorflow.util.column_info import Column as EarliestColumn
    from dlrover.tensorflow.reader.fake_reader import FakeReader as EarliestFakeReader
"""


def test_every_name_exists_and_tensorflow_keeps_the_trainers_configuration(tmp_path: pathlib.Path) -> None:
    program = f"""
        import tensorflow as tf
        from generic_trainer.executors.dialects.dlrover.shim import provide_dlrover

        print(tf.executing_eagerly())
        calls, disable = [], tf.compat.v1.disable_v2_behavior
        tf.compat.v1.disable_v2_behavior = lambda: (calls.append(1), disable())
        provide_dlrover()
        provide_dlrover()
        print(len(calls), tf.executing_eagerly())
        {textwrap.indent(textwrap.dedent(IMPORTS), "        ").strip()}
        assert FromPackage is FromFurtherUp is FileReader
        assert Earlier is Earliest is TFConstants and EarliestColumn is Column and earliest_logger is logger
        assert data_mapping["float"] is tf.float32 and data_mapping["int"] is tf.int8 and len(data_mapping) == 14
        assert is_tf_2() and not (is_tf_1() or is_tf_113() or is_tf_115()) and get_tf_version()[0] == "2"
        assert issubclass(FileReader, ElasticReader)
        client = ShardingClient("rows", 2, 1, 4)
        hooks = [ElasticDataShardReportHook(client), ReportModelInfoHook()]
        x = tf.compat.v1.placeholder_with_default(1.0, [])
        with tf.compat.v1.train.SingularMonitoredSession(hooks=hooks) as session:
            assert session.run(x) == 1.0
        logger.info("a line for whoever looks")
        try:
            from dlrover.trainer.tensorflow.util import nothing_of_that_name
        except ImportError as error:
            print(type(error).__name__)
    """
    assert run(program, tmp_path) == ["True", "1 False", "ImportError"]
    assert not list(tmp_path.iterdir())  # the original DLRover writes a log file on first import


@pytest.mark.thorough
def test_an_installed_dlrover_is_not_replaced(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "installed" / "dlrover" / "trainer" / "tensorflow" / "util"
    package.mkdir(parents=True)
    for folder in (package, *list(package.parents)[:3]):
        (folder / "__init__.py").touch()
    (package / "column_info.py").write_text("WHOSE = 'theirs'\n")
    program = """
        import tensorflow as tf
        from generic_trainer.executors.dialects.dlrover.shim import provide_dlrover

        provide_dlrover()
        from dlrover.trainer.tensorflow.util.column_info import WHOSE
        import dlrover
        print(WHOSE, dlrover.__file__, tf.executing_eagerly())
        try:
            import dlrover.trainer.util.log_util
        except ImportError as error:
            print(error)
    """
    theirs, missing = run(program, tmp_path, tmp_path / "installed")
    assert theirs == f"theirs {tmp_path}/installed/dlrover/__init__.py False"
    assert missing == "No module named 'dlrover.trainer.util'"


MODEL = """
    import tensorflow.compat.v1 as tf
    from dlrover.trainer.util.log_util import default_logger as logger

    tf.disable_v2_behavior()

    class Line(tf.estimator.Estimator):
        def __init__(self, model_dir, config=None, params=None):
            logger.info("config is %s", config)
            super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

        def model_fn(self, features, labels, mode, params):
            weight = tf.Variable(0.0, name="weight")
            loss = tf.reduce_mean(tf.square(labels - weight * features["x"]))
            train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
"""
CONF = """
    from line import Line
    from dlrover.trainer.tensorflow.reader.file_reader import FileReader
    from dlrover.trainer.tensorflow.util.column_info import Column

    class TrainConf(object):
        classifier_class = Line
        params = {"rate": 0.1}
        train_set = {
            "reader": FileReader("train.csv"),
            "columns": (
                Column.create(name="x", dtype="float32", is_label=False),
                Column.create(name="y", dtype="float32", is_label=True),
            ),
        }
"""


def test_a_conf_loads_and_trains_without_affecting_other_modules(tmp_path: pathlib.Path) -> None:
    for name, source in {"line.py": MODEL, "conf.py": CONF, "plain.py": "def run_fn(fn_args): pass"}.items():
        (tmp_path / name).write_text(textwrap.dedent(source))
    (tmp_path / "train.csv").write_text("x,y\n1,2\n2,4\n")
    program = """
        import sys
        import numpy as np
        import tensorflow as tf
        from generic_trainer.executors.dialects.loading import loaded
        from generic_trainer.executors.modules.source import find_source

        with loaded(find_source("plain.py", "scratch")):
            print(tf.executing_eagerly(), "dlrover" in sys.modules)
        with loaded(find_source("conf.py", "scratch")) as module:
            conf = module.TrainConf
            rows = np.loadtxt(conf.train_set["reader"].iterator(), delimiter=",", dtype=np.float32)
            model = conf.classifier_class("model", None, conf.params)
            model.train(lambda: ({"x": tf.constant(rows[:, 0])}, tf.constant(rows[:, 1])), steps=50)
            print(tf.executing_eagerly(), round(float(model.get_variable_value("weight")), 3))
    """
    assert run(program, tmp_path) == ["True False", "False 2.0"]
