"""TFX's face of the trainer: an executor for any of its orchestrators, and for a plain call.

    GenericExecutor().Do(input_dict, output_dict, exec_properties)

Its class path, `generic_trainer.executors.generic_executor.GenericExecutor`, works wherever TFX takes
one: LocalDagRunner, BeamDagRunner, and the container command that TFX compiles for Kubeflow Pipelines.
"""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_executor

from .runtime.logs.exceptions import remembered
from .training.step import train_from_artifacts


class GenericExecutor(base_executor.BaseExecutor):
    """Trains a module of any dialect and leaves a checked SavedModel in the Model artifact."""

    @remembered()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, object],
    ) -> None:
        """Runs the training module.

        Args:
          input_dict: examples (required); transform_graph, schema, base_model, hyperparameters and
            statistics where wired.
          output_dict: model and model_run. The model's `Format-Serving` appears when training has
            finished and the model has passed the check; metrics, signatures and sizes become its
            custom properties.
          exec_properties: As TFX's trainer has them (train_args, eval_args, module_file or module_path or
            run_fn, custom_config), and the fields of `TrainingOptions`.

        Raises:
          TrainerError: When the input is not usable or the model is not one.
          Exception: What the module raises, with its own type and traceback.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        train_from_artifacts(input_dict, output_dict, exec_properties)
