"""The parts of a model file that return nothing."""

from __future__ import annotations

import types

import pytest

from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
from generic_trainer.executors.dialects.elasticdl.parts import Parts
from generic_trainer.executors.errors import ModuleError


def test_a_loss_that_returns_none_is_named() -> None:
    module = types.ModuleType("model")
    module.__file__ = "model.py"
    module.loss = lambda labels, predictions: None  # type: ignore[attr-defined]
    with pytest.raises(ModuleError, match=r"model\.py: loss returned None\. Return the loss, .* a return statement"):
        Parts(module, None, ElasticDLOptions()).loss(1, 2)  # type: ignore[arg-type]
