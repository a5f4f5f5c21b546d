from __future__ import annotations

import pathlib

import pytest

from generic_trainer.executors.dialects.dlrover.dialect import find_dlrover_use
from generic_trainer.executors.dialects.needs import choose_keras, uses_estimators

CONF = "class TrainConf(object):\n    classifier_class = 'my.Estimator'\n    train_set = {}\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import os\nfrom dlrover.trainer.tensorflow.util.column_info import Column\n",
            (2, "from dlrover.trainer.tensorflow.util.column_info import Column"),
        ),
        ("def f():\n    import dlrover.trainer as t\n", (2, "import dlrover.trainer as t")),
        (f"import os\n{CONF}", (2, "class TrainConf with train_set and classifier_class, as in DLRover")),
        (
            "class C:\n    classifier_class: str = 'e'\n    train_set: dict = {}\n",
            (1, "class C with train_set and classifier_class, as in DLRover"),
        ),
        ("class C:\n    classifier_class: str\n    train_set: dict = {}\n", None),
        ("class A:\n    classifier_class = 'e'\n\nclass B:\n    train_set = {}\n", None),
        ("classifier_class = 'e'\ntrain_set = {}\n", None),
        ("class C:\n    def f(self):\n        classifier_class = train_set = 1\n", None),
        ("import dlrover_of_mine\nfrom . import dlrover\nfrom .dlrover import Column\n", None),
        ("x = 'import dlrover'\n", None),
        ("import dlrover\n this does not parse", None),
    ],
)
def test_dlrover_is_found_by_imports_and_by_conf_classes(source: str, expected: object, tmp_path: pathlib.Path) -> None:
    (tmp_path / "conf.py").write_text(source)
    assert find_dlrover_use(str(tmp_path / "conf.py")) == expected


@pytest.mark.parametrize("source", ["from dlrover.trainer.util.log_util import default_logger\n", CONF])
def test_a_conf_is_a_module_with_estimators_and_for_keras_2(source: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "conf.py").write_text(source)
    assert uses_estimators([str(tmp_path / "conf.py")])
    assert choose_keras("auto", [str(tmp_path / "conf.py")]).version == "2"
