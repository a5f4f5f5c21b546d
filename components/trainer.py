"""`Trainer`: the component to put into a TFX pipeline, a drop-in for `tfx.components.Trainer`.

    from generic_trainer import Trainer          # instead of: from tfx.components import Trainer

    trainer = Trainer(
        module_file="taxi_keras.py",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema_gen.outputs["schema"],
        train_args=trainer_pb2.TrainArgs(num_steps=1000),
        eval_args=trainer_pb2.EvalArgs(num_steps=100),
    )

It is defined on `tfx.types` and `tfx.dsl` alone: importing it brings in neither `tfx.components` nor
TFMA nor Beam.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from absl import logging
from tfx import types
from tfx.dsl.components.base import executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import trainer_pb2
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.types.system_executions import Train

from ..executors.generic_executor import GenericExecutor
from ..executors.options import STORED_AS, TrainingOptions
from . import notebook_display
from .module_component import ModuleComponent, fingerprint, serialized
from .trainer_driver import TrainerDriver

notebook_display.register()


class TrainerSpec(ComponentSpec):
    """TFX's TrainerSpec, key for key, and an execution parameter for each training option."""

    PARAMETERS: ClassVar[dict[str, Any]] = {
        "train_args": ExecutionParameter(type=trainer_pb2.TrainArgs),
        "eval_args": ExecutionParameter(type=trainer_pb2.EvalArgs),
        "module_file": ExecutionParameter(type=str, optional=True),
        "module_path": ExecutionParameter(type=str, optional=True),
        "run_fn": ExecutionParameter(type=str, optional=True),
        "custom_config": ExecutionParameter(type=str, optional=True),
        "train_steps": ExecutionParameter(type=int, optional=True),
        "eval_steps": ExecutionParameter(type=int, optional=True),
        "module_fingerprint": ExecutionParameter(type=str, optional=True),
        **{
            field.name: ExecutionParameter(type=STORED_AS.get(field.name, str), optional=True)
            for field in dataclasses.fields(TrainingOptions)
        },
    }
    INPUTS: ClassVar[dict[str, Any]] = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph, optional=True),
        "schema": ChannelParameter(type=standard_artifacts.Schema, optional=True),
        "base_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
        "hyperparameters": ChannelParameter(type=standard_artifacts.HyperParameters, optional=True),
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics, optional=True),
    }
    OUTPUTS: ClassVar[dict[str, Any]] = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "model_run": ChannelParameter(type=standard_artifacts.ModelRun),
    }
    TYPE_ANNOTATION = Train


class Trainer(ModuleComponent):
    """Trains a TensorFlow model with a training module of any dialect.

    Outputs:
      model: `standard_artifacts.Model`; its `Format-Serving` is a SavedModel that was loaded again and answered.
      model_run: `standard_artifacts.ModelRun`; TensorBoard logs, an Estimator's checkpoints and `run.json`.
    """

    SPEC_CLASS = TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(GenericExecutor)
    DRIVER_CLASS = TrainerDriver

    def __init__(
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
        train_steps: int | RuntimeParameter | None = None,
        eval_steps: int | RuntimeParameter | None = None,
        dialect: str = "auto",
        engine: str = "local",
        workers: str = "1",
        ps: int = 0,
        cluster_address: str | None = None,
        cpus_per_worker: float = 1.0,
        gpus_per_worker: float = 0.0,
        memory_gb_per_worker: float | None = None,
        max_failures: int = 3,
        isolate: bool = True,
        keras: str = "auto",
        required_signatures: Sequence[str] = (),
        skip_checks: Sequence[str] = (),
        timeout: float | None = None,
        seed: int | None = None,
        deterministic: bool = False,
        early_stop: str | None = None,
        best_model: str | None = None,
        stop_on_nan: bool = False,
        on_bad_records: str = "error",
        profile: bool = False,
        tune_loop: str = "off",
        input_cache: str | None = None,
        input_cache_gb: float = 10.0,
    ) -> None:
        """Constructs the component; the first thirteen arguments are those of `tfx.components.Trainer`.

        Args:
          statistics: Channel of ExampleStatistics; fills `fn_args.num_examples`.
          examples: Channel of Examples, raw or transformed (required).
          transformed_examples: Deprecated in TFX; the same as `examples`.
          transform_graph: Channel of TransformGraph.
          schema: Channel of Schema.
          base_model: Channel of Model to start from.
          hyperparameters: Channel of HyperParameters, such as a Tuner's best ones.
          module_file: The training module: a file, `package.module`, or `name@archive.zip`.
          run_fn: `package.module.function`; or, beside `module_file`, the function's name in it.
          train_args: Splits (default "train") and number of steps (0: the module decides).
          eval_args: Splits (default "eval") and number of steps.
          custom_config: JSON object passed on as `fn_args.custom_config`.
          custom_executor_spec: Deprecated in TFX; replaces the executor.
          train_steps: Number of steps, in place of that in `train_args`; a parameter of a pipeline may be one.
          eval_steps: The same for `eval_args`.
          dialect: How the module is written; "auto" decides by what it defines.
          engine: Where `run_fn` is executed: "local", or by workers on a "ray" cluster.
          workers: How many train, "N" or "MIN:MAX"; needs a cluster, as the next ones do.
          ps: How many parameter servers there are beside them.
          cluster_address: Address of a Ray cluster; default: RAY_ADDRESS, else one on this machine for the run.
          cpus_per_worker: Processors that each worker gets.
          gpus_per_worker: GPUs that each worker gets.
          memory_gb_per_worker: Memory that each worker gets, in 10^9 bytes.
          max_failures: How often training goes on from its last checkpoint after a worker has failed; -1 for always.
          isolate: Train in a process of its own.
          keras: "auto", "2" or "3".
          required_signatures: Signatures that the model must have.
          skip_checks: Checks of the model to leave out.
          timeout: Seconds after which training fails.
          seed: Seed of Python, NumPy and TensorFlow.
          deterministic: Have TensorFlow compute the same in every run with the same seed, where it can.
          early_stop: End the training when a metric has not become better: "METRIC[:EVALUATIONS][:min|max]".
          best_model: Have Keras's fit end with the weights of its best epoch: "METRIC[:min|max]".
          stop_on_nan: Fail when the loss becomes NaN or infinite.
          on_bad_records: What becomes of a record that cannot be read: "error", or "skip:N" to leave out N at most.
          profile: Profile some seconds of the training, and tell where a step's time goes.
          tune_loop: "off", "exact" (steps at a time, threads, by a trial) or "any" (also XLA and mixed precision).
          input_cache: Local folder where `fn_args.data_accessor` keeps parsed examples.
          input_cache_gb: How much may lie there, in 10^9 bytes.

        Raises:
          ValueError: When there is no module, no examples, or both of two that exclude each other.
          InputError: When an option's value is not allowed.
          ModuleError: When the module is a path or a name that does not exist.
        """
        if not module_file and not run_fn:
            raise ValueError("Exactly one of 'module_file' or 'run_fn' must be supplied; got neither.")
        if module_file and run_fn and "." in str(run_fn):
            raise ValueError(f"'module_file' and run_fn={run_fn!r} both name a module; supply one of them.")
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
        options = TrainingOptions(
            dialect=dialect,
            engine=engine,
            workers=str(workers),
            ps=ps,
            cluster_address=cluster_address,
            cpus_per_worker=cpus_per_worker,
            gpus_per_worker=gpus_per_worker,
            memory_gb_per_worker=memory_gb_per_worker,
            max_failures=max_failures,
            isolate=isolate,
            keras=keras,
            required_signatures=tuple(required_signatures),
            skip_checks=tuple(skip_checks),
            timeout=timeout,
            seed=seed,
            deterministic=deterministic,
            early_stop=early_stop,
            best_model=best_model,
            stop_on_nan=stop_on_nan,
            on_bad_records=on_bad_records,
            profile=profile,
            tune_loop=tune_loop,
            input_cache=input_cache,
            input_cache_gb=input_cache_gb,
        )
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
            custom_config=serialized(custom_config),
            train_steps=train_steps,
            eval_steps=eval_steps,
            module_fingerprint=fingerprint(module_file),
            model=types.Channel(type=standard_artifacts.Model),
            model_run=types.Channel(type=standard_artifacts.ModelRun),
            **options.to_exec_properties(),
        )
        super().__init__(spec, module_file, custom_executor_spec=custom_executor_spec)
