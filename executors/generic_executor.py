"""TFX executor of the Generic Trainer, for any TFX orchestrator or a direct call.

    GenericExecutor().Do(input_dict, output_dict, exec_properties)

Its class path, `generic_trainer.executors.generic_executor.GenericExecutor`, can be used wherever TFX accepts an
executor class path: LocalDagRunner, BeamDagRunner, and the container command that TFX compiles for Kubeflow Pipelines.
"""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_executor

from .runtime.logs.remembered_error import remember_error
from .training.step import train_from_artifacts


class GenericExecutor(base_executor.BaseExecutor):
    """Trains a module of any dialect and writes a checked SavedModel to the Model artifact."""

    @remember_error()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, object],
    ) -> None:
        """Runs the training module.

        Args:
          input_dict: Artifacts by key: examples (required); transform_graph, schema, base_model, hyperparameters and
            statistics if connected.
          output_dict: Artifacts by key: model and model_run. The model's `Format-Serving` folder is created after
            training has finished and the model has passed its check; metrics, signatures and sizes become custom
            properties of the artifact.
          exec_properties: Execution properties of TFX's Trainer (train_args, eval_args, module_file, module_path or
            run_fn, custom_config), and the fields of `TrainingOptions`.

        Raises:
          TrainerError: If an input is invalid or the model fails its check.
          Exception: Exceptions raised by the module, with their original type and traceback.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        train_from_artifacts(input_dict, output_dict, exec_properties)
