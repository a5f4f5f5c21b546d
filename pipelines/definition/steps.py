"""Builds the steps of a pipeline for any runner: from data to an evaluated, pushed model.

    nodes = steps_of(options, modules, example_gen)

ExampleGen, StatisticsGen, SchemaGen, ExampleValidator, Transform (if there is a `preprocessing_fn`), Tuner
(if there is a `tuner_fn`), Trainer, Evaluator (if a label or an `eval_config` is given) and Pusher (unless it is
turned off).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from tfx.components import (
    ExampleValidator,
    SchemaGen,
    StatisticsGen,
)
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.proto import pusher_pb2, trainer_pb2
from tfx.types import Channel
from tfx.types.standard_artifacts import HyperParameters, Model, ModelBlessing

from ...components.evaluator import Evaluator
from ...components.pusher import Pusher
from ...components.trainer import Trainer
from ...components.transform import Transform
from ...components.tuner import Tuner
from ...executors.compat.beam import IN_PROCESS
from ...executors.evaluation.metrics import read_eval_config
from ...executors.evaluation.overrides import overrides_of
from ...executors.evaluation.plan import EvaluationPlan
from ...executors.modules.defined_names import has
from ...executors.modules.pipeline_modules import STATISTICS_OPTIONS_FN, PipelineModules
from ...executors.options import declared_options
from ...executors.runtime.files import file_io
from ...executors.runtime.files.artifact_files import read_hyperparameters
from ...executors.runtime.files.content_digests import digests_in
from ...executors.runtime.files.schema import read_schema
from .examples import TEST
from .options import BASELINE, HYPERPARAMETERS, PipelineOptions, has_tuner_step

# For remote Beam workers TFX builds a source distribution of itself once per component, which takes seconds and leaves
# 50 MB behind, unless a container image is set. Here the workers run in this process, which ignores the image.
_NO_TFX_BUILD = "--sdk_container_image=none"
_BEAM_ARGS = (IN_PROCESS, "--direct_running_mode=in_memory", "--direct_num_workers=1")
# {execution property with a path: execution property with the fingerprint of its content}
FINGERPRINTS = {
    "input_base": "input_fingerprint",
    "input_config": "input_fingerprint",  # patterns of file names
    "module_file": "module_fingerprint",
    "preprocessing_fn": "module_fingerprint",
    "schema_file": "fingerprint",
}


def beam_args_of(options: PipelineOptions) -> list[str]:
    """Returns the Beam arguments: those for the in-process runner, then the user's, which take precedence."""
    return [*_BEAM_ARGS, *(options.beam_args or [_NO_TFX_BUILD])]


def steps_of(
    options: PipelineOptions,
    modules: PipelineModules,
    example_gen: BaseNode,
    *,
    can_resolve_models: bool = True,
    can_read_files: bool = True,
    has_test_split: bool = False,
) -> list[BaseNode]:
    """Builds the steps without running them.

    Args:
      options: The pipeline's options.
      modules: The training module and the modules of the other steps.
      example_gen: The first step.
      can_resolve_models: Whether the runner supports a Resolver for the last blessed model.
      can_read_files: Whether the schema and hyper-parameters can be read from this machine.
      has_test_split: Whether the examples have a split `test`, on which the Evaluator evaluates then.

    Raises:
      InputError: When the options conflict with each other or with the module.
    """
    examples = example_gen.outputs["examples"]
    statistics_gen = StatisticsGen(examples=examples)
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = _schema_gen(options, statistics, can_read_files)
    schema = schema_gen.outputs["schema"]
    nodes = [
        example_gen,
        statistics_gen,
        schema_gen,
        ExampleValidator(statistics=statistics, schema=schema),
    ]
    trainer_inputs: dict[str, Channel] = {"examples": examples, "schema": schema, "statistics": statistics}
    if modules.transform is not None:
        transform = Transform(
            modules.transform.reference,
            examples=examples,
            schema=schema,
            custom_config=options.custom_config,
            # They take a third of Transform's time on small data, and no other step or report reads them.
            disable_statistics=not has(modules.transform, STATISTICS_OPTIONS_FN),
        )
        nodes.append(transform)
        if options.train_examples != "raw":
            trainer_inputs |= {"examples": transform.outputs["transformed_examples"], "raw_examples": examples}
        trainer_inputs["transform_graph"] = transform.outputs["transform_graph"]
    has_evaluator = bool(options.label or options.eval_config)
    baseline = None
    if has_evaluator or options.warm_start:
        baseline = _baseline(options, nodes, can_resolve_models=can_resolve_models, can_read_files=can_read_files)
    if options.warm_start:
        trainer_inputs["base_model"] = baseline
    if (hyperparameters := _hyperparameters(options, modules, nodes, trainer_inputs, can_read_files)) is not None:
        trainer_inputs["hyperparameters"] = hyperparameters
    training = dataclasses.asdict(options.training)
    if has_evaluator and not options.eval_config:
        training["analysis_seconds"] = 0.0  # the Evaluator analyzes the errors
    trainer = Trainer(
        module_file=options.module_file,
        train_args=trainer_pb2.TrainArgs(num_steps=options.train_steps),
        eval_args=trainer_pb2.EvalArgs(num_steps=options.eval_steps),
        custom_config=options.custom_config,
        **trainer_inputs,
        **training,
    )
    nodes.append(trainer)
    model, blessing = trainer.outputs["model"], None
    if has_evaluator:
        evaluator = Evaluator(
            examples=examples,
            model=model,
            baseline_model=baseline,
            model_run=trainer.outputs["model_run"],
            schema=schema,
            transform_graph=trainer_inputs.get("transform_graph"),
            overrides=overrides_of(vars(options)),
            plan=EvaluationPlan.from_json(options.evaluation_plan) if options.evaluation_plan else None,
            slice_by=options.slice_by,
            allow_trivial=options.allow_trivial,
            analysis_seconds=options.training.analysis_seconds,
            allow_batch_dependent=options.allow_batch_dependent,
            example_splits=[TEST] if has_test_split and not options.eval_config else None,
            eval_config=read_eval_config(options.eval_config) if options.eval_config else None,
        )
        nodes.append(evaluator)
        blessing = evaluator.outputs["blessing"]
    if not options.push:
        return nodes
    destination = pusher_pb2.PushDestination(
        filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=serving_folder(options))
    )
    pusher = Pusher(
        model=model,
        model_blessing=blessing,
        push_destination=destination,
        allow_batch_dependent=options.allow_batch_dependent,
    )
    nodes.append(pusher)
    return nodes


def serving_folder(options: PipelineOptions) -> str:
    """Returns the serving folder, which contains one folder per pushed model."""
    return _canonical_path(options.push_to or os.path.join(options.pipeline_root, "serving"))


def _baseline(
    options: PipelineOptions, nodes: list[BaseNode], *, can_resolve_models: bool, can_read_files: bool
) -> Channel | None:
    """Adds the step that provides the baseline model for evaluation and warm start, and returns its output."""
    if options.baseline_model:
        uri = _canonical_path(options.baseline_model)
        content = _fingerprint_of_foreign(uri, options) if can_read_files else None
        importer = Importer(source_uri=uri, artifact_type=Model, custom_properties=content)
        node: BaseNode = importer.with_id(BASELINE)
        nodes.append(node)
        return node.outputs["result"]
    if not can_resolve_models:
        return None
    node = Resolver(
        strategy_class=LatestBlessedModelStrategy,
        model=Channel(type=Model),
        model_blessing=Channel(type=ModelBlessing),
    ).with_id("latest_blessed_model_resolver")
    nodes.append(node)
    return node.outputs["model"]


def _fingerprint_of_foreign(model: str, options: PipelineOptions) -> dict[str, str] | None:
    """Returns the property that invalidates the cache when a model's content has changed.

    None for a model that this pipeline has trained: a property would make it another artifact, without lineage. Its
    content is verified like that of all outputs.
    """
    root, served = _canonical_path(options.pipeline_root), serving_folder(options)
    if model.startswith(f"{root}/") and not model.startswith(f"{served}/"):
        return None
    return {"fingerprint": digests_in(options.pipeline_root).of_tree(model)}


def _hyperparameters(
    options: PipelineOptions,
    modules: PipelineModules,
    nodes: list[BaseNode],
    inputs: Mapping[str, Channel],
    can_read_files: bool,
) -> Channel | None:
    """Adds the step that searches for or imports the Trainer's hyper-parameters, and returns its output."""
    tunes = has_tuner_step(modules, options.tune, options.tune_steps, options.hyperparameters)
    if options.hyperparameters:
        node = _imported_hyperparameters(_canonical_path(options.hyperparameters), can_read_files)
        nodes.append(node)
        return node.outputs["result"]
    if not tunes or modules.tuner is None:
        return None
    training: dict[str, Any] = {
        option.name: getattr(options.training, option.name)
        for option in declared_options()
        if option.tuner and option.name != "timeout"  # limits the training, not the search
    }
    tuner = Tuner(
        module_file=modules.tuner.reference,
        train_args=trainer_pb2.TrainArgs(num_steps=options.tune_steps or options.train_steps),
        eval_args=trainer_pb2.EvalArgs(num_steps=options.eval_steps),
        custom_config=options.custom_config,
        **training,
        **{name: inputs[name] for name in ("examples", "schema", "transform_graph", "base_model") if inputs.get(name)},
    )
    nodes.append(tuner)
    return tuner.outputs["best_hyperparameters"]


def _imported_hyperparameters(place: str, can_read_files: bool) -> BaseNode:
    properties: dict[str, dict[str, str]] = {}
    if can_read_files:  # the fingerprint of its content invalidates the cache after an edit
        content = json.dumps(read_hyperparameters(place, "--hyperparameters"), sort_keys=True)
        properties["custom_properties"] = {"fingerprint": hashlib.sha256(content.encode()).hexdigest()}
    return Importer(source_uri=place, artifact_type=HyperParameters, **properties).with_id(HYPERPARAMETERS)


def _schema_gen(options: PipelineOptions, statistics: Channel, can_read_files: bool) -> BaseNode:
    if not options.schema:
        return SchemaGen(statistics=statistics, infer_feature_shape=options.schema_shapes != "no")
    node = ImportSchemaGen(schema_file=file_io.absolute_path(options.schema))
    if can_read_files:
        read_schema(options.schema)
        node.spec.exec_properties["fingerprint"] = digests_in(options.pipeline_root).of_tree(options.schema)
    return node


def _canonical_path(path: str) -> str:
    """Returns one path for all ways to write it: absolute, without links to folders; with a scheme unchanged.

    A link to a file keeps its name, from which formats are detected.
    """
    if file_io.is_remote(path):
        return path
    if os.path.isdir(path):
        return os.path.realpath(path)
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)
