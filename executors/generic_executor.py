"""TFX's face of the trainer: an executor for any of its orchestrators, and for a plain call.

    GenericExecutor().Do(input_dict, output_dict, exec_properties)

Its class path, `generic_trainer.executors.generic_executor.GenericExecutor`, works wherever TFX takes
one: LocalDagRunner, BeamDagRunner, and the container command that TFX compiles for Kubeflow Pipelines.
"""

from __future__ import annotations

from typing import Any

from absl import logging
from tfx import types
from tfx.dsl.components.base import base_executor

from .artifacts import fn_args_from_artifacts
from .errors import ModuleError
from .options import TrainingOptions
from .raised_errors import remembered
from .run_record import RunRecord
from .training_run import train


class GenericExecutor(base_executor.BaseExecutor):
    """Trains a module of any dialect and leaves a checked SavedModel in the Model artifact."""

    @remembered()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
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
        options = TrainingOptions.from_exec_properties(exec_properties)
        fn_args = fn_args_from_artifacts(input_dict, output_dict, exec_properties)
        module, function = _module_of(exec_properties)
        record = train(module, fn_args, options, function=function)
        [model], [model_run] = output_dict["model"], output_dict["model_run"]
        model_run.set_string_custom_property("run_record", record.path)
        if not record.check:
            logging.info("This task of a cluster has done its part; the chief publishes the model.")
            return
        _describe(model, record)
        logging.info("Model published to %s; TensorBoard logs are below %s.", fn_args.serving_model_dir, model_run.uri)


def _module_of(properties: dict[str, Any]) -> tuple[str, str | None]:
    """Returns the module's reference and the name of the function to run in it, by TFX's precedence."""
    module_path, module_file, run_fn = (properties.get(key) or None for key in ("module_path", "module_file", "run_fn"))
    if module_path or module_file:
        return str(module_path or module_file), run_fn
    if run_fn:
        return str(run_fn), None
    raise ModuleError("no module is given: set module_file (a path) or run_fn (package.module.function).")


def _describe(model: types.Artifact, record: RunRecord) -> None:
    """Puts what is known of the model on its artifact, where lineage tools look for it."""
    for split, values in record.metrics.items():
        for name, value in values.items():
            model.set_float_custom_property(f"{split}/{name}", float(value))
    model.set_string_custom_property("signatures", ", ".join(record.check["signatures"]))
    model.set_string_custom_property("checks", "; ".join(f"{k}: {v}" for k, v in record.check["checks"].items()))
    model.set_string_custom_property("answer", f"{record.check['answer']} to {record.check['example']}")
    model.set_int_custom_property("size_bytes", record.check["size_bytes"])
    model.set_string_custom_property("dialect", record.dialect["name"])
    model.set_string_custom_property("keras", record.keras["version"])
    model.set_string_custom_property("module_fingerprint", record.code["fingerprint"])
