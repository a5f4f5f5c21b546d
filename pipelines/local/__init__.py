"""Runs a whole pipeline on the local machine, from a data folder to an evaluated, pushed model.

from generic_trainer.pipelines.local import LocalPipeline, run_pipeline

outcome = run_pipeline(LocalPipeline(data="taxi/", module_file="taxi_keras.py", label="big_tip"))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .outcome import Outcome
    from .pipeline import LocalPipeline, create_pipeline, run_pipeline

_HOMES = {
    "LocalPipeline": "pipeline",
    "Outcome": "outcome",
    "create_pipeline": "pipeline",
    "run_pipeline": "pipeline",
}

__all__ = ["LocalPipeline", "Outcome", "create_pipeline", "run_pipeline"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __package__), name)
