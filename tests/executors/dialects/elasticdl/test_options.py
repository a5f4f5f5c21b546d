"""Impossible and misspelled options of an ElasticDL job in `custom_config`."""

from __future__ import annotations

import pytest

from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.fn_args import FnArgs


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"minibatch_size": 0}, "minibatch_size=0: give an integer from 1"),
        ({"evaluation_steps": -5}, "evaluation_steps=-5: give an integer from 0"),
        ({"max_step": -1}, "max_step=-1: give an integer from 0"),
        ({"num_epochs": 0}, "num_epochs=0 trains indefinitely"),
        ({"checkpoint_step": 5}, "ElasticDL has no flag 'checkpoint_step'. Did you mean 'checkpoint_steps'?"),
        ({"minibatchsize": 5}, "ElasticDL has no flag 'minibatchsize'. Did you mean 'minibatch_size'?"),
    ],
)
def test_an_impossible_or_misspelled_option_is_an_error(config: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        ElasticDLOptions.of(FnArgs(custom_config=config))
    assert message in str(raised.value)


def test_other_entries_of_custom_config_are_left_to_the_module() -> None:
    assert (
        ElasticDLOptions.of(FnArgs(custom_config={"learning_rate": 0.1, "evaluation_steps": 0})).evaluation_steps == 0
    )
