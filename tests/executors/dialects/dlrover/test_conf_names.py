"""Misspelled and impossible settings of a conf are errors; settings that nothing reads get a warning."""

from __future__ import annotations

import types
from typing import Any

import pytest

from generic_trainer.executors.dialects.dlrover.conf import find_conf, read_conf, unused_settings
from generic_trainer.executors.errors import InputError, ModuleError
from generic_trainer.executors.fn_args import FnArgs
from generic_trainer.executors.monitoring import save_interval

WHERE = "conf.py: TrainConf"
DATA = {"columns": (object(),), "path": "file://a.csv"}


def conf(data: dict[str, Any] | None = None, **attributes: Any) -> type:
    data_set = {**DATA, **(data or {})}
    return type("TrainConf", (), {"classifier_class": object, "train_set": data_set, "eval_set": DATA, **attributes})


@pytest.mark.parametrize(
    ("made", "config", "message"),
    [
        (conf(save_step=5), None, "TrainConf: there is no setting 'save_step'. Did you mean 'save_steps'?"),
        (conf(batchsize=5), None, "TrainConf: there is no setting 'batchsize'. Did you mean 'batch_size'?"),
        (conf({"batchsize": 5}), None, "train_set: there is no setting 'batchsize'. Did you mean 'batch_size'?"),
        (conf({"field_delm": "\t"}), None, "train_set: there is no setting 'field_delm'. Did you mean 'field_delim'?"),
        (conf(), {"max_step": 5}, "custom_config: there is no setting 'max_step'. Did you mean 'max_steps'?"),
        (conf(params={"rate": 1}), {"rat": 1}, "custom_config: there is no setting 'rat'. Did you mean 'rate'?"),
        (conf({"batch_size": 0}), None, "train_set: batch_size is 0; give an integer from 1 to"),
        (conf(batch_size=0), None, "TrainConf: batch_size is 0; give an integer from 1 to"),
        (conf({"epoch": -1}), None, "train_set: epoch is -1; give an integer from 1 to"),
        (conf(eval_steps=-4), None, "eval_steps=-4: give an integer from 0 to"),
        (conf(save_secs="ten"), None, "save_secs='ten': give a number from 0 to"),
    ],
)
def test_a_misspelled_or_impossible_setting_is_an_error(made: type, config: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read_conf(made, FnArgs(custom_config=config), WHERE)
    assert message in str(raised.value)


def test_other_settings_that_nothing_reads_get_a_warning() -> None:
    made = conf({"shuffle": True}, save_min_secs=60, label_rate=0.5)
    read_conf(made, FnArgs(), WHERE)
    assert unused_settings(made, WHERE) == [
        "conf.py: TrainConf: the setting 'label_rate' is not used, unless the model reads it.",
        "conf.py: TrainConf: the setting 'save_min_secs' is not used, unless the model reads it. Did you mean "
        "'save_secs'?",
        "conf.py: TrainConf: train_set: the setting 'shuffle' is not used, unless the model reads it.",
    ]


def test_helpers_of_a_conf_and_its_own_parameters_are_accepted() -> None:
    def compare(best: object, current: object) -> bool:
        return best == current

    made = conf(column=[object()], sparse_features=["a"], _batchsize=5, compare_fn=compare, params={"batchsize": 3})
    assert read_conf(made, FnArgs(custom_config={"batchsize": 4}), WHERE).params == {"batchsize": 4}
    assert unused_settings(made, WHERE) == []


def test_a_misspelled_required_attribute_is_named() -> None:
    module = types.ModuleType("conf")
    module.__file__ = "conf.py"
    module.TrainConf = type("TrainConf", (), {"classifier_class": object, "trian_set": DATA})  # type: ignore[attr-defined]
    with pytest.raises(ModuleError, match=r"lacks train_set: .* Did you mean 'trian_set'\?"):
        find_conf(module, "TrainConf")


@pytest.mark.parametrize(
    ("own", "measured", "expected"),
    [
        ({}, "", (100, None)),
        ({}, "40", (40, None)),
        ({"save_steps": 7}, "40", (7, None)),
        ({"save_secs": 30.0}, "40", (None, 30.0)),
    ],
)
def test_the_model_is_saved_in_the_measured_interval_unless_the_conf_sets_one(
    own: dict[str, float], measured: str, expected: tuple[int | None, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(save_interval.VARIABLE, measured)

    settings = read_conf(conf(**own), FnArgs(), WHERE)

    assert (settings.save_steps, settings.save_secs) == expected
