from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Iterator

import pytest

from generic_trainer import ModuleError
from generic_trainer.executors.dialects.dlrover.shim.common_util import (
    DatasetArgs,
    GlobalDict,
    should_failover,
    singleton,
)
from generic_trainer.executors.dialects.dlrover.shim.conf_util import (
    Configuration,
    ConfigurationManagerInterface,
    ConfigurationManagerMeta,
    get_conf,
)
from generic_trainer.executors.dialects.dlrover.shim.constants import Constant, PlatformConstants, TFConstants
from generic_trainer.executors.dialects.dlrover.shim.reflect_util import get_class


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ConfigurationManagerMeta, "_all_conf_by_name", {})
    monkeypatch.setattr(ConfigurationManagerMeta, "_default_priority", 1 << 30)
    yield
    Configuration().clear()


class TrainConf:
    batch_size = 64
    params = {"l2": 0.0, "optimizer": {"name": "adam"}, "learning.rate": 0.1}  # noqa: RUF012
    train_set = {"columns": ("x", "y"), "epoch": 3}  # noqa: RUF012

    def helper(self) -> None:
        """Not part of the configuration."""


def test_a_conf_class_is_read_with_what_it_inherits() -> None:
    class Child(TrainConf):
        batch_size = 32

    conf = get_conf(Child)
    assert (conf.get("batch_size"), conf.batch_size, conf["batch_size"]) == (32, 32, 32)
    assert conf.get("train_set")["columns"] == ("x", "y")
    assert "helper" not in conf
    assert (conf.get("epoch"), conf.get("epoch", 1), conf.epoch) == (None, 1, None)


def test_dicts_are_read_by_attributes_and_keys_with_dots_are_whole() -> None:
    conf = get_conf(TrainConf)
    assert conf.get("train_set").epoch == 3
    assert conf.params.optimizer.name == "adam"
    assert conf.get("params")["learning.rate"] == 0.1
    with pytest.raises(AttributeError, match=r"there is no 'epohc' among columns, epoch\. Did you mean 'epoch'\?"):
        conf.get("train_set").epohc  # noqa: B018
    assert conf.get("absent", {"a": {"b": 1}}).a.b == 1
    assert "absent" not in conf
    params = copy.deepcopy(conf.params)  # as an Estimator does
    params.optimizer["name"] = "sgd"
    assert conf.params.optimizer.name == "adam"
    assert json.loads(json.dumps(params))["optimizer"] == {"name": "sgd"}


def test_changing_the_configuration_leaves_the_conf_class_alone() -> None:
    conf = get_conf(TrainConf)
    conf.get("train_set")["epoch"] = 100
    assert conf.get("train_set").epoch == 100
    assert TrainConf.train_set["epoch"] == 3


def test_the_smaller_priority_wins_and_dicts_are_merged_key_by_key() -> None:
    class Strong(ConfigurationManagerInterface):
        priority = 9
        batch_size = 10
        train_set = {"path": "231", "sls": {"sk": "44"}}  # noqa: RUF012

    class Weak(ConfigurationManagerInterface):
        priority = 10
        batch_size = 1
        steps = 5
        train_set = {"path": "23", "sls": {"ak": "1", "sk": "2"}, "epoch": 2}  # noqa: RUF012

    conf = ConfigurationManagerMeta.merge_configs()
    assert (conf.batch_size, conf.steps) == (10, 5)
    assert conf.train_set == {"path": "231", "sls": {"ak": "1", "sk": "44"}, "epoch": 2}
    assert ConfigurationManagerMeta._override_order == ["Weak", "Strong"]
    assert Weak.train_set["sls"] == {"ak": "1", "sk": "2"}
    assert Strong.train_set["sls"] == {"sk": "44"}


def test_without_priorities_the_later_class_wins_and_the_conf_over_all_of_them() -> None:
    class First(ConfigurationManagerInterface):
        batch_size = 1
        steps = 1

    class Second:
        steps = 2
        epochs = 2

    ConfigurationManagerMeta.register(Second)
    conf = get_conf(TrainConf)
    assert (conf.batch_size, conf.steps, conf.epochs) == (64, 2, 2)


def test_a_given_priority_counts_also_for_registered_classes() -> None:
    class Winner:
        batch_size = 7

    ConfigurationManagerMeta.register(Winner, priority=1)
    assert get_conf(TrainConf).batch_size == 7


def test_build_may_compute_values_and_is_called_once() -> None:
    class Rules(ConfigurationManagerInterface):
        calls = 0

        @classmethod
        def build(cls) -> None:
            cls.calls += 1
            cls.rules = json.loads('{"steps": 40}')

    class Plain(TrainConf):
        calls = 0

        @classmethod
        def build(cls) -> None:
            cls.calls += 1
            cls.batch_size = 128

    assert get_conf(Rules).rules.steps == 40
    assert get_conf(Plain).batch_size == 128
    assert (Rules.calls, Plain.calls) == (1, 1)


def test_merging_again_forgets_what_is_gone() -> None:
    assert get_conf(TrainConf).batch_size == 64

    class Other:
        steps = 1

    conf = get_conf(Other)
    assert "batch_size" not in conf
    assert conf.to_dict()["steps"] == 1


def test_there_is_one_configuration() -> None:
    get_conf(TrainConf)
    conf = Configuration()
    assert conf.batch_size == 64
    conf.put("steps", 5)
    conf["epochs"] = 6
    conf.from_dict({"seed": 7})
    conf.steps = 8  # which changes only what is not there, as in DLRover
    conf.fresh = 9
    assert (Configuration().steps, conf.epochs, conf.seed, conf.fresh) == (5, 6, 7, 9)
    conf.clear()
    assert str(conf) == "{}"


def test_get_class_by_its_dotted_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dlrover_train_conf.py").write_text("class TrainConf:\n    batch_size = 3\n")
    (tmp_path / "dlrover_broken_conf.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert get_conf("dlrover_train_conf.TrainConf").batch_size == 3
    with pytest.raises(ModuleError, match=r"dlrover_train_conf\.py has no 'TrainCnf'\. Did you mean 'TrainConf'\?"):
        get_class("dlrover_train_conf.TrainCnf")
    with pytest.raises(ModuleError, match=r"no module 'dlrover_train_cnf'\. Did you mean 'dlrover_train_conf'\?"):
        get_class("dlrover_train_cnf.TrainConf")
    with pytest.raises(ModuleError, match=r"no module 'json\.encodr'\. Did you mean 'encoder'\?"):
        get_class("json.encodr.TrainConf")
    with pytest.raises(ModuleError, match=r"'TrainConf' is not a class name: use module\.ClassName"):
        get_class("TrainConf")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        get_class("dlrover_broken_conf.TrainConf")


def test_constants_have_names_and_defaults() -> None:
    assert (TFConstants.SaveSteps.name, TFConstants.SaveSteps()) == ("save_steps", 100)
    assert (TFConstants.FILE_SCHEME(), TFConstants.FAKE_SCHEME()) == ("file://", "fake://")
    assert PlatformConstants.Kubernetes.name == "KUBERNETES"
    mine = Constant("mine")
    mine.default = 5
    assert mine() == mine.default == 5


def test_singletons_and_bundles_of_arguments() -> None:
    made = singleton(list)
    assert made([1]) is made([2])
    assert made() == [1]
    assert GlobalDict() is GlobalDict()
    bundles = [
        (DatasetArgs(*given).args, DatasetArgs(*given).kwargs) for given in ((), ("a",), (5,), ([1, 2], {"k": 3}))
    ]
    assert bundles == [((), {}), (("a",), {}), ((5,), {}), ([1, 2], {"k": 3})]
    with pytest.raises(ValueError, match="must be a dict"):
        DatasetArgs(kwargs=[1])  # type: ignore[arg-type]
    assert (should_failover(0), should_failover(1)) == (False, True)
