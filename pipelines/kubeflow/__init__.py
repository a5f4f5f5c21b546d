"""Kubeflow Pipelines support: compiles a TFX pipeline, or provides the trainer as a component for other pipelines.

    from generic_trainer.pipelines.kubeflow import trainer_op                            # in a @kfp.dsl.pipeline
    from generic_trainer.pipelines.kubeflow import KubeflowPipeline, compile_pipeline    # needs TFX

Both need the extra `kfp`. Names are imported lazily: `trainer_op` imports neither TFX nor TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ...executors.errors import InputError

if TYPE_CHECKING:
    from .component import trainer_component, trainer_op
    from .pipeline import (
        CompiledPipeline,
        KubeflowPipeline,
        StepResources,
        compile_pipeline,
    )

__all__ = [
    "CompiledPipeline",
    "KubeflowPipeline",
    "StepResources",
    "compile_pipeline",
    "trainer_component",
    "trainer_op",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = "component" if name in ("trainer_component", "trainer_op") else "pipeline"
        return getattr(importlib.import_module(f".{home}", __package__), name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("kfp"):
            raise
        raise InputError(
            f"Kubeflow Pipelines: {error.name} is not installed: pip install 'generic-trainer[kfp]'."
        ) from error
