"""Notebook visualizations of the Trainer's outputs for TFX's InteractiveContext.

context.run(trainer)
context.show(trainer.outputs["model_run"])    # the run: status, module, times, metrics, loss
context.show(trainer.outputs["model"])        # the model: metrics, signatures, results of the SavedModel check
"""

from __future__ import annotations

from typing import ClassVar

from tfx.orchestration.experimental.interactive import visualizations
from tfx.types import standard_artifacts
from tfx.types.artifact import Artifact

from ..executors.monitoring import run_record
from ..executors.monitoring.notebook_html import record_view, small_table

_MODEL_PROPERTIES = ("dialect", "keras", "signatures", "checks", "answer", "size_bytes", "module_fingerprint")


class ModelRunVisualization(visualizations.ArtifactVisualization):  # type: ignore[misc]
    """Displays the run record of a ModelRun artifact; nothing if there is none, as with other trainers."""

    ARTIFACT_TYPE: ClassVar[type[Artifact]] = standard_artifacts.ModelRun

    def display(self, artifact: Artifact) -> None:
        """Displays the run in the notebook."""
        if record := run_record.read(artifact.uri):
            _display(record_view(record, artifact.uri))


class ModelVisualization(visualizations.ArtifactVisualization):  # type: ignore[misc]
    """Displays the custom properties and metrics that the Trainer set on a Model artifact."""

    ARTIFACT_TYPE: ClassVar[type[Artifact]] = standard_artifacts.Model

    def display(self, artifact: Artifact) -> None:
        """Displays the model's table in the notebook."""
        known = artifact.mlmd_artifact.custom_properties
        metrics: dict[str, dict[str, float]] = {}
        for name, value in sorted(known.items()):
            split, separator, metric = name.partition("/")
            if separator and split in ("train", "eval"):
                metrics.setdefault(split, {})[metric] = value.double_value
        rows = {
            name: known[name].string_value or str(known[name].int_value) for name in _MODEL_PROPERTIES if name in known
        }
        if rows or metrics:
            _display(small_table("Model", rows, metrics))


def register() -> None:
    """Registers the visualizations for `InteractiveContext.show`, unless their artifact types already have others."""
    registry = visualizations.get_registry()
    for visualization in (ModelRunVisualization, ModelVisualization):
        if registry.get_visualization(visualization.ARTIFACT_TYPE.TYPE_NAME) is None:
            registry.register(visualization)


def _display(text: str) -> None:
    from IPython.display import HTML, display

    display(HTML(text))  # type: ignore[no-untyped-call]
