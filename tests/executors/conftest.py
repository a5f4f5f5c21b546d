"""Fixtures of the tests of training and of its models."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from generic_trainer import FnArgs

from ..world.data import outputs_in


@pytest.fixture
def fn_args(iris: Any, tmp_path: pathlib.Path) -> FnArgs:
    """The arguments of a training on iris, which writes to `out`."""
    return FnArgs(train_files=[iris.train], eval_files=[iris.eval], **outputs_in(tmp_path / "out"))
