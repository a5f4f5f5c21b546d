"""`Tuner`: a TFX component for hyper-parameter search; a drop-in for `tfx.components.Tuner`.

    from generic_trainer import Tuner          # instead of: from tfx.components import Tuner

    tuner = Tuner(
        module_file="iris_tuner.py",           # with tuner_fn(fn_args), which returns TunerFnResult(tuner, fit_kwargs)
        examples=example_gen.outputs["examples"],
        schema=schema_gen.outputs["schema"],
        train_args=trainer_pb2.TrainArgs(num_steps=100),
        eval_args=trainer_pb2.EvalArgs(),
    )
    trainer = Trainer(..., hyperparameters=tuner.outputs["best_hyperparameters"])

The module is loaded as in `Trainer`: it can import sibling modules, pip builds and installs nothing, and an edit to any
user file that it imports invalidates the cache. The search runs in a subprocess, with the Keras version that the
module needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from absl import logging
from tfx import types
from tfx.dsl.components.base import base_executor, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import trainer_pb2, tuner_pb2
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from ..executors.options import declared_options
from ..executors.runtime.logs.remembered_error import remember_error
from ..executors.tuning.step import tune_from_artifacts
from .module_component import ModuleComponent, fingerprint, serialize_config
from .option_keywords import execution_parameters, options_from_keywords, takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..executors.option_types import TunerKeywords

_OPTIONS = tuple(option for option in declared_options() if option.tuner)


class TunerExecutor(base_executor.BaseExecutor):
    """Runs the `tuner_fn` of a training module and writes the best hyper-parameters."""

    @remember_error()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, object],
    ) -> None:
        """Runs the search; see `executors.tuning.step.tune_from_artifacts`."""
        self._log_startup(input_dict, output_dict, exec_properties)
        tune_from_artifacts(input_dict, output_dict, exec_properties)


class TunerSpec(ComponentSpec):
    """The keys of TFX's TunerSpec, plus the parameters of this project's `Trainer` that apply to a search."""

    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "module_file": ExecutionParameter(type=str, optional=True),
        "tuner_fn": ExecutionParameter(type=str, optional=True),
        "train_args": ExecutionParameter(type=trainer_pb2.TrainArgs),
        "eval_args": ExecutionParameter(type=trainer_pb2.EvalArgs),
        "tune_args": ExecutionParameter(type=tuner_pb2.TuneArgs, optional=True),
        "custom_config": ExecutionParameter(type=str, optional=True),
        "train_steps": ExecutionParameter(type=int, optional=True),
        "eval_steps": ExecutionParameter(type=int, optional=True),
        "module_fingerprint": ExecutionParameter(type=str, optional=True),
        **execution_parameters(_OPTIONS),
    }
    INPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "schema": ChannelParameter(type=standard_artifacts.Schema, optional=True),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph, optional=True),
        "base_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
    }
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "best_hyperparameters": ChannelParameter(type=standard_artifacts.HyperParameters),
        "tuner_results": ChannelParameter(type=standard_artifacts.TunerResults),
    }


class Tuner(ModuleComponent):
    """Searches for the best hyper-parameters of a training module.

    Outputs:
      best_hyperparameters: `standard_artifacts.HyperParameters`, for Trainer's input `hyperparameters`.
      tuner_results: `standard_artifacts.TunerResults`: score and hyper-parameters of each trial.
    """

    SPEC_CLASS = TunerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(TunerExecutor)

    @takes_options(_OPTIONS)
    def __init__(  # noqa: PLR0913 (the arguments of TFX's component, and ours)
        self,
        examples: types.BaseChannel,
        schema: types.BaseChannel | None = None,
        transform_graph: types.BaseChannel | None = None,
        base_model: types.BaseChannel | None = None,
        module_file: str | RuntimeParameter | None = None,
        tuner_fn: str | RuntimeParameter | None = None,
        train_args: trainer_pb2.TrainArgs | None = None,
        eval_args: trainer_pb2.EvalArgs | None = None,
        tune_args: tuner_pb2.TuneArgs | None = None,
        custom_config: dict[str, Any] | RuntimeParameter | None = None,
        *,
        train_steps: int | RuntimeParameter | None = None,
        eval_steps: int | RuntimeParameter | None = None,
        **options: Unpack[TunerKeywords],
    ) -> None:
        """Constructs the component; the first ten arguments are those of `tfx.components.Tuner`.

        Args:
          examples: Channel of Examples, raw or transformed.
          schema: Channel of Schema.
          transform_graph: Channel of TransformGraph.
          base_model: Channel of Model to start from.
          module_file: The module with `tuner_fn`: a file, `package.module`, or `name@archive.zip`.
          tuner_fn: `package.module.function`, instead of `module_file`.
          train_args: Splits (default: "train") and number of steps (0: the module decides).
          eval_args: Splits (default: "eval") and number of steps.
          tune_args: TFX's TuneArgs, for executors that run trials in parallel. `TunerExecutor` rejects more than one
            parallel trial at run time.
          custom_config: JSON object passed on as `fn_args.custom_config`.
          train_steps: Number of training steps; overrides that in `train_args`, and may be a RuntimeParameter.
          eval_steps: The same for `eval_args`.
          **options: The Trainer's options that apply to a search: `isolate`, `keras`, `timeout`, `seed` and the data
            options. `timeout` limits the whole search; `seed` is also set before each trial.

        Raises:
          ValueError: When not exactly one of `module_file` and `tuner_fn` is given.
          InputError: When an option's value is not allowed.
          ModuleError: When the module is a path or a name that does not exist.
        """
        if bool(module_file) == bool(tuner_fn):
            raise ValueError("Exactly one of 'module_file' or 'tuner_fn' must be supplied")
        if tune_args is not None and tune_args.num_parallel_trials > 1:
            logging.warning(
                "tune_args: TunerExecutor rejects num_parallel_trials=%d at run time, as TFX's executor does; other "
                "executors may support it.", tune_args.num_parallel_trials,
            )  # fmt: skip
        training = options_from_keywords(options)
        spec = TunerSpec(
            examples=examples,
            schema=schema,
            transform_graph=transform_graph,
            base_model=base_model,
            module_file=module_file,
            tuner_fn=tuner_fn,
            train_args=train_args or trainer_pb2.TrainArgs(),
            eval_args=eval_args or trainer_pb2.EvalArgs(),
            tune_args=tune_args,
            custom_config=serialize_config(custom_config),
            train_steps=train_steps,
            eval_steps=eval_steps,
            module_fingerprint=fingerprint(module_file),
            best_hyperparameters=types.Channel(type=standard_artifacts.HyperParameters),
            tuner_results=types.Channel(type=standard_artifacts.TunerResults),
            **training.to_exec_properties(),
        )
        super().__init__(spec, module_file)
