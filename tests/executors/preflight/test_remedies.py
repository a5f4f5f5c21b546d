"""Advice on an exception fits its cause."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.preflight.remedies import remedy_for

NOT_SET: Any = None
EMPTY = "custom_config contains nothing. Set the key with --custom-config."


@pytest.mark.parametrize(
    ("call", "line", "config", "said"),
    [
        (lambda: {"x": 1}["y"], "features['y']", [], "The name is not in the data; the item `examples` lists"),
        (lambda: os.environ["NO_SUCH_VARIABLE"], "os.environ['NO_SUCH_VARIABLE']", [], ""),
        (lambda: NOT_SET["epochs"], "fn_args.custom_config['epochs']", [], EMPTY),
        (lambda: NOT_SET.get("epochs"), "fn_args.custom_config.get('epochs')", [], EMPTY),
        (lambda: {"epoch": 1}["epochs"], "fn_args.custom_config['epochs']", ["epoch"], "Did you mean 'epoch'?"),
        (lambda: NOT_SET["epochs"], "read(fn_args.custom_config)", ["epoch"], ""),
    ],
)
def test_a_missing_name_is_one_of_the_data_or_of_the_configuration(
    call: Callable[[], object], line: str, config: list[str], said: str
) -> None:
    with pytest.raises((KeyError, TypeError, AttributeError)) as raised:
        call()
    advice = remedy_for(raised.value, [__file__], [], config, line)
    assert said in advice
    assert bool(advice) == bool(said)
