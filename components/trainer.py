"""`Trainer`: a TFX component that trains a model; a drop-in for `tfx.components.Trainer`.

    from generic_trainer import Trainer          # instead of: from tfx.components import Trainer

    trainer = Trainer(
        module_file="taxi_keras.py",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema_gen.outputs["schema"],
        train_args=trainer_pb2.TrainArgs(num_steps=1000),
        eval_args=trainer_pb2.EvalArgs(num_steps=100),
    )

It depends on `tfx.types` and `tfx.dsl` only: importing it imports neither `tfx.components` nor TFMA nor Beam.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from absl import logging
from tfx import types
from tfx.dsl.components.base import executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import trainer_pb2
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.types.system_executions import Train

from ..executors.generic_executor import GenericExecutor
from ..executors.options import declared_options
from .module_component import ModuleComponent, fingerprint, serialize_config
from .option_keywords import execution_parameters, options_from_keywords, takes_options
from .trainer_driver import TrainerDriver

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..executors.option_types import TrainerKeywords

_OPTIONS = declared_options()


class TrainerSpec(ComponentSpec):
    """The keys of TFX's TrainerSpec, plus an execution parameter for each training option."""

    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "train_args": ExecutionParameter(type=trainer_pb2.TrainArgs),
        "eval_args": ExecutionParameter(type=trainer_pb2.EvalArgs),
        "module_file": ExecutionParameter(type=str, optional=True),
        "module_path": ExecutionParameter(type=str, optional=True),
        "run_fn": ExecutionParameter(type=str, optional=True),
        "trainer_fn": ExecutionParameter(type=str, optional=True),
        "custom_config": ExecutionParameter(type=str, optional=True),
        "train_steps": ExecutionParameter(type=int, optional=True),
        "eval_steps": ExecutionParameter(type=int, optional=True),
        "module_fingerprint": ExecutionParameter(type=str, optional=True),
        **execution_parameters(_OPTIONS),
    }
    INPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph, optional=True),
        "schema": ChannelParameter(type=standard_artifacts.Schema, optional=True),
        "base_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
        "hyperparameters": ChannelParameter(type=standard_artifacts.HyperParameters, optional=True),
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics, optional=True),
        "raw_examples": ChannelParameter(type=standard_artifacts.Examples, optional=True),
    }
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "model_run": ChannelParameter(type=standard_artifacts.ModelRun),
    }
    TYPE_ANNOTATION = Train


class Trainer(ModuleComponent):
    """Trains a TensorFlow model with a training module of any dialect.

    Outputs:
      model: `standard_artifacts.Model`; its `Format-Serving` holds a SavedModel that was checked by loading it again
        and running inference.
      model_run: `standard_artifacts.ModelRun`; holds TensorBoard logs, an Estimator's checkpoints and `run.json`.
    """

    SPEC_CLASS = TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(GenericExecutor)
    DRIVER_CLASS = TrainerDriver

    @takes_options(_OPTIONS)
    def __init__(  # noqa: PLR0913 (the arguments of TFX's component, and ours)
        self,
        statistics: types.BaseChannel | None = None,
        examples: types.BaseChannel | None = None,
        transformed_examples: types.BaseChannel | None = None,
        transform_graph: types.BaseChannel | None = None,
        schema: types.BaseChannel | None = None,
        base_model: types.BaseChannel | None = None,
        hyperparameters: types.BaseChannel | None = None,
        module_file: str | RuntimeParameter | None = None,
        run_fn: str | RuntimeParameter | None = None,
        train_args: trainer_pb2.TrainArgs | RuntimeParameter | None = None,
        eval_args: trainer_pb2.EvalArgs | RuntimeParameter | None = None,
        custom_config: dict[str, Any] | RuntimeParameter | None = None,
        custom_executor_spec: executor_spec.ExecutorSpec | None = None,
        *,
        trainer_fn: str | RuntimeParameter | None = None,
        raw_examples: types.BaseChannel | None = None,
        train_steps: int | RuntimeParameter | None = None,
        eval_steps: int | RuntimeParameter | None = None,
        **options: Unpack[TrainerKeywords],
    ) -> None:
        """Constructs the component; the first thirteen arguments are those of `tfx.components.Trainer`.

        Args:
          statistics: Channel of ExampleStatistics; fills `fn_args.num_examples`.
          examples: Channel of Examples, raw or transformed (required).
          transformed_examples: Deprecated in TFX; the same as `examples`, requires `transform_graph`.
          transform_graph: Channel of TransformGraph.
          schema: Channel of Schema.
          base_model: Channel of Model to start training from.
          hyperparameters: Channel of HyperParameters, such as a Tuner's `best_hyperparameters`.
          module_file: The training module: a file, `package.module`, or `name@archive.zip`.
          run_fn: `package.module.function`; together with `module_file`, the name of a function in that module.
          train_args: Splits (default: "train") and number of steps (0: the module decides).
          eval_args: Splits (default: "eval") and number of steps.
          custom_config: JSON object passed on as `fn_args.custom_config`.
          custom_executor_spec: Deprecated in TFX; replaces the executor.
          trainer_fn: `package.module.trainer_fn`, as in TFX up to 1.16; see `run_fn`.
          raw_examples: Channel of the Examples that Transform read. If the model takes raw examples, its check runs
            inference on one of them; without this channel, on values made up from the schema.
          train_steps: Number of training steps; overrides that in `train_args`, and may be a RuntimeParameter.
          eval_steps: The same for `eval_args`.
          **options: Training options, such as `keras="2"` or `timeout=3600`; each is a field of `TrainingOptions`.

        Raises:
          ValueError: When there is no module or no examples, or when two arguments exclude each other.
          InputError: When an option's value is not allowed.
          ModuleError: When the module is a path or a name that does not exist.
        """
        if not (module_file or run_fn or trainer_fn) or (run_fn and trainer_fn):
            raise ValueError(
                "Exactly one of 'module_file', 'run_fn' and 'trainer_fn' must be supplied; "
                f"got {module_file=}, {run_fn=}, {trainer_fn=}."
            )
        if module_file and "." in str(run_fn or trainer_fn or ""):
            raise ValueError(f"{module_file=} and the function {run_fn or trainer_fn} both name a module; supply one.")
        if bool(examples) == bool(transformed_examples):
            raise ValueError("Exactly one of 'examples' or 'transformed_examples' must be supplied.")
        if transformed_examples and not transform_graph:
            raise ValueError("If 'transformed_examples' is supplied, 'transform_graph' must be supplied too.")
        for name, value in {
            "custom_executor_spec": custom_executor_spec,
            "transformed_examples": transformed_examples,
        }.items():
            if value:
                logging.warning("Trainer's argument %r is deprecated.", name)
        training = options_from_keywords(options)
        spec = TrainerSpec(
            statistics=statistics,
            examples=examples or transformed_examples,
            transform_graph=transform_graph,
            schema=schema,
            base_model=base_model,
            hyperparameters=hyperparameters,
            train_args=train_args or trainer_pb2.TrainArgs(),
            eval_args=eval_args or trainer_pb2.EvalArgs(),
            module_file=module_file,
            run_fn=run_fn,
            trainer_fn=trainer_fn,
            raw_examples=raw_examples,
            custom_config=serialize_config(custom_config),
            train_steps=train_steps,
            eval_steps=eval_steps,
            module_fingerprint=fingerprint(module_file),
            model=types.Channel(type=standard_artifacts.Model),
            model_run=types.Channel(type=standard_artifacts.ModelRun),
            **training.to_exec_properties(),
        )
        super().__init__(spec, module_file, custom_executor_spec=custom_executor_spec)
