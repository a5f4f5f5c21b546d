"""A whole pipeline on this machine: from a folder of data to a pushed, evaluated model.

    outcome = run_pipeline(LocalPipeline(data="taxi/", module_file="taxi_keras.py", label="big_tip"))
    outcome.pushed_model

ExampleGen, StatisticsGen, SchemaGen, ExampleValidator, Transform (when the module has a
`preprocessing_fn`), Trainer, Evaluator (when the label is known) and Pusher, run by Beam in this
process, with training in a process of its own. A second run takes from the cache what has not changed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from typing import Any

from tfx.components import (
    Evaluator,
    ExampleValidator,
    Pusher,
    SchemaGen,
    StatisticsGen,
)
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.orchestration import pipeline
from tfx.proto import pusher_pb2, trainer_pb2
from tfx.types import Channel
from tfx.types.standard_artifacts import Model, ModelBlessing

from ..components.trainer import Trainer
from ..components.transform import Transform
from ..executors import file_io
from ..executors.errors import InputError, did_you_mean
from ..executors.module_source import ModuleSource, defines, find_source
from ..executors.options import TrainingOptions
from ..executors.raised_errors import last_remembered
from ..executors.schema_file import read_schema
from . import evaluation
from .estimator_predictions import predictions_of
from .examples import example_gen_for
from .metadata_store import connection_config, shown
from .outcome import Outcome, outcome_of
from .raw_features import raw_feature_names

_MARKER = "generic_trainer_pipeline.json"
_BEAM_ARGS = ("--direct_running_mode=in_memory", "--direct_num_workers=1")
# For workers elsewhere TFX packs all of itself, once for every component: seconds, and 50 MB that are left behind. Not
# so when these have an image with TFX in it; here the workers are this process, and Beam takes no image.
_NO_PACKING = "--sdk_container_image=none"


@dataclasses.dataclass(frozen=True)
class LocalPipeline:
    """What to run, on what, and where.

    Attributes:
      data: Folder with CSV files, or with TFRecord files of tf.Examples (in `train/` and `eval/`
        if they are split already, else a third of them becomes the eval split).
      module_file: The training module: a file, `package.module`, or `name@archive.zip`.
      pipeline_root: Folder for all outputs.
      name: The pipeline's name (default: the module's). A root belongs to one pipeline.
      runner: "beam" or "local".
      train_steps: Steps to train; 0 leaves it to the module.
      eval_steps: Steps to evaluate while training; 0 leaves it to the module.
      label: The label's feature name, in the data or among the transformed features. Without it
        there is no Evaluator, and every model that passes the trainer's check is pushed.
      task: What kind of label it is; "auto" reads it off the loss that the module names.
      slice_by: Features of the raw examples; the model is evaluated for each of their values as well.
      eval_config: A JSON file with a tfma.EvalConfig, instead of label, task and slices.
      schema: A Schema file to use instead of an inferred one.
      custom_config: For `fn_args.custom_config`.
      metadata: `mysql://user:password@host:port/database`, or a SQLite file (default: in the root).
      push_to: Where the model is pushed (default: `serving` in the root).
      warm_start: Give the last blessed model to the module as `fn_args.base_model`.
      cache: Take the outputs of unchanged steps from earlier runs.
      beam_args: Further Beam arguments for the components.
      training: Options of the training run.
    """

    data: str
    module_file: str
    pipeline_root: str = "pipeline"
    name: str = ""
    runner: str = "beam"
    train_steps: int = 0
    eval_steps: int = 0
    label: str = ""
    task: str = "auto"
    slice_by: tuple[str, ...] = ()
    eval_config: str = ""
    schema: str = ""
    custom_config: dict[str, Any] | None = None
    metadata: str = ""
    push_to: str = ""
    warm_start: bool = False
    cache: bool = True
    beam_args: tuple[str, ...] = ()
    training: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)


def run_pipeline(options: LocalPipeline) -> Outcome:
    """Runs the pipeline and returns what came of it.

    Raises:
      InputError: When data, schema or root cannot be used, with nothing started.
      ModuleError: When there is no such module.
      TrainerError: From the Trainer step, as `executors.training_run.train` raises it.
      Exception: What the module raises in the Trainer step, with its own type and traceback.
    """
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        source = find_source(options.module_file, scratch)
        dag = create_pipeline(options, source)
    if options.runner == "beam":
        from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner as Runner
    else:
        from tfx.orchestration.local.local_dag_runner import LocalDagRunner as Runner
    last_remembered()  # an earlier run's
    try:
        Runner().run(dag)
    except Exception:
        if (real := last_remembered()) is not None:
            raise real from real.__cause__
        raise
    return outcome_of(dag.metadata_connection_config, dag.pipeline_info.pipeline_name, shown(_metadata_url(options)))


def create_pipeline(options: LocalPipeline, source: ModuleSource) -> pipeline.Pipeline:
    """Builds the pipeline without running it."""
    name = options.name or source.name.rpartition(".")[2]
    root = os.path.abspath(options.pipeline_root)
    examples = example_gen_for(options.data)
    connection = connection_config(_metadata_url(options))
    nodes = _components(options, source, examples, options.push_to or os.path.join(root, "serving"))
    _claim_root(root, name)
    file_io.makedirs(file_io.parent(connection.sqlite.filename_uri))
    return pipeline.Pipeline(
        pipeline_name=name,
        pipeline_root=root,
        components=nodes,
        enable_cache=options.cache,
        metadata_connection_config=connection,
        beam_pipeline_args=[*_BEAM_ARGS, *(options.beam_args or [_NO_PACKING])],
    )


def _metadata_url(options: LocalPipeline) -> str:
    return options.metadata or os.path.join(os.path.abspath(options.pipeline_root), "metadata.sqlite")


def _components(options: LocalPipeline, source: ModuleSource, example_gen: BaseNode, push_to: str) -> list[BaseNode]:
    examples = example_gen.outputs["examples"]
    statistics_gen = StatisticsGen(examples=examples)
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = _schema_gen(options.schema, statistics)
    schema = schema_gen.outputs["schema"]
    nodes = [
        example_gen,
        statistics_gen,
        schema_gen,
        ExampleValidator(statistics=statistics, schema=schema),
    ]
    trainer_inputs: dict[str, Any] = {"examples": examples, "schema": schema, "statistics": statistics}
    if defines(source.path, "preprocessing_fn"):
        transform = Transform(
            options.module_file, examples=examples, schema=schema, custom_config=options.custom_config
        )
        nodes.append(transform)
        trainer_inputs["examples"] = transform.outputs["transformed_examples"]
        trainer_inputs["transform_graph"] = transform.outputs["transform_graph"]
    config = _eval_config(options, source)
    blessed = None
    if config is not None or options.warm_start:
        resolver = Resolver(
            strategy_class=LatestBlessedModelStrategy,
            model=Channel(type=Model),
            model_blessing=Channel(type=ModelBlessing),
        ).with_id("latest_blessed_model_resolver")
        nodes.append(resolver)
        blessed = resolver.outputs["model"]
    if options.warm_start:
        trainer_inputs["base_model"] = blessed
    trainer = Trainer(
        module_file=options.module_file,
        train_args=trainer_pb2.TrainArgs(num_steps=options.train_steps),
        eval_args=trainer_pb2.EvalArgs(num_steps=options.eval_steps),
        custom_config=options.custom_config,
        **trainer_inputs,
        **dataclasses.asdict(options.training),
    )
    nodes.append(trainer)
    model, blessing = trainer.outputs["model"], None
    if config is not None:
        evaluator = Evaluator(examples=examples, model=model, baseline_model=blessed, eval_config=config)
        nodes.append(evaluator)
        blessing = evaluator.outputs["blessing"]
    destination = pusher_pb2.PushDestination(
        filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=os.path.abspath(push_to))
    )
    nodes.append(Pusher(model=model, model_blessing=blessing, push_destination=destination))
    return nodes


def _schema_gen(schema: str, statistics: Any) -> BaseNode:
    if not schema:
        return SchemaGen(statistics=statistics, infer_feature_shape=True)
    read_schema(schema)
    return ImportSchemaGen(schema_file=os.path.abspath(schema))


def _eval_config(options: LocalPipeline, source: ModuleSource) -> Any:
    if options.eval_config:
        return evaluation.read_eval_config(options.eval_config)
    if not options.label:
        return None
    estimator = predictions_of(source.files)
    if estimator is not None and not estimator.labelled:
        _require_raw_label(options)
    task = options.task
    if task == "auto":
        task = estimator.task if estimator and estimator.task != "unknown" else evaluation.task_of(source.files)
    return evaluation.eval_config(
        options.label,
        task,
        transform_features=evaluation.exports_transform_signature(source.files),
        estimator=estimator,
        slice_by=options.slice_by,
    )


def _require_raw_label(options: LocalPipeline) -> None:
    """Makes sure that the label can be had: an Estimator's serving model has no signature for transformed features.

    Raises:
      InputError: When the raw examples do not have it.
    """
    names = raw_feature_names(options.data)
    if names and options.label not in names:
        raise InputError(
            f"--label {options.label}: the examples in {options.data} have no such feature."
            f"{did_you_mean(options.label, names)} For a label that only Transform makes, the Estimator's module must "
            "come with an eval_input_receiver_fn (see module_files/taxi_estimator.py)."
        )


def _claim_root(root: str, name: str) -> None:
    """Marks a folder as this pipeline's, so that two pipelines never mix their artifacts in one.

    Raises:
      InputError: When the root is another pipeline's, holds something else, or cannot be written.
    """
    marker = os.path.join(root, _MARKER)
    try:
        if file_io.exists(marker):
            owner = json.loads(file_io.read_text(marker)).get("pipeline_name")
            if owner != name:
                raise InputError(
                    f"--pipeline-root {root} belongs to the pipeline {owner!r}; this one is {name!r}. "
                    "Choose another root, or give the same --pipeline-name."
                )
            return
        if file_io.exists(root) and file_io.listdir(root):
            raise InputError(
                f"--pipeline-root {root} is not empty and no pipeline of generic-trainer made it. Choose another root."
            )
        file_io.write_text(marker, json.dumps({"pipeline_name": name}) + "\n")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"--pipeline-root {root}: cannot write there ({reason}). Choose another root.") from error
