"""What a pipeline is to do, whoever runs it."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

from ...executors.errors import InputError
from ...executors.modules.pipeline_modules import PipelineModules, tuner_candidates
from ...executors.modules.source import ModuleSource
from ...executors.options import TrainingOptions

AUTO, CSV, TFRECORD, SPLITS = DATA_FORMATS = ("auto", "csv", "tfrecord", "splits")  # see `example_gen_for`
BASELINE = "baseline_model"  # the step that imports one
HYPERPARAMETERS = "hyperparameters"  # the same
TRAIN_EXAMPLES = ("auto", "raw", "transformed")
SCHEMA_SHAPES = ("auto", "yes", "no")


class PipelineKeywords(TypedDict):
    """The keyword arguments of `PipelineOptions` that the commands which make pipelines give."""

    data: str
    module_file: str
    pipeline_root: str
    name: str
    train_steps: int
    eval_steps: int
    label: str
    task: str
    scores: str
    eval_signature: str
    eval_output: str
    slice_by: tuple[str, ...]
    eval_config: str
    schema: str
    train_examples: str
    schema_shapes: str
    custom_config: dict[str, object] | None
    push: bool
    push_to: str
    warm_start: bool
    baseline_model: str
    tune: bool | None
    tune_steps: int
    hyperparameters: str
    cache: bool
    beam_args: tuple[str, ...]
    training: TrainingOptions
    transform_module: str
    tuner_module: str


@dataclasses.dataclass(frozen=True)
class PipelineOptions:
    """What to run, on what, and where.

    Attributes:
      data: Folder with CSV files, or with TFRecord files of tf.Examples (in `train/` and `eval/`
        if they are split already, else a third of them becomes the eval split).
      module_file: The training module: a file, `package.module`, or `name@archive.zip`.
      transform_module: The module with `preprocessing_fn`, in the same forms; "" for the training module or, where
        that reads Transform's output and has no `preprocessing_fn`, the one file near it that does.
      tuner_module: The module with `tuner_fn`; "" for the training module.
      pipeline_root: Folder for all outputs.
      name: The pipeline's name (default: the module's). A root belongs to one pipeline.
      train_steps: Steps to train; 0 leaves it to the module.
      eval_steps: Steps to evaluate while training; 0 leaves it to the module.
      label: The label's feature name, in the data or among the transformed features; for several outputs,
        "OUTPUT=FEATURE,OUTPUT=FEATURE". Without it there is no Evaluator, and every model that passes the trainer's
        check is pushed.
      task: What kind of label it is; "auto" decides by the model's loss, outputs and labels.
      scores: What the model's answers are; "auto" decides, too.
      eval_signature: The signature to evaluate; "" for the one that serves.
      eval_output: The signature's output to evaluate; "" for all that have a label, or the main one.
      slice_by: Features of the raw examples; the model is evaluated for each of their values as well.
      eval_config: A JSON file with a tfma.EvalConfig, instead of label, task and slices.
      evaluation_plan: The plan that a check made, as `EvaluationPlan.to_json` returns it; None to make it from the
        trained model.
      schema: A Schema file to use instead of an inferred one.
      train_examples: What the Trainer and the Tuner read after a Transform: "transformed" examples, or the "raw" ones
        for a module that transforms in its own input pipeline. "auto" stands for transformed ones; `run` replaces it by
        what its check found.
      schema_shapes: Whether the inferred schema holds the features' shapes: "yes", so that parsing gives dense tensors,
        or "no", so that it gives sparse ones, as before TFX 1.0. "auto" is as with `train_examples`; it stands for yes.
      custom_config: For `fn_args.custom_config`.
      push: Push the model if it is blessed.
      push_to: Where the model is pushed (default: `serving` in the root).
      warm_start: Give the last blessed model, or `baseline_model`, to the module as `fn_args.base_model`.
      baseline_model: Folder of a Model artifact to compare with, instead of the last blessed model.
      tune: Search with `tuner_fn` before training; None: if there is one, and no hyperparameters are given.
      tune_steps: Steps to train in each trial of the search; 0 for `train_steps`.
      hyperparameters: KerasTuner's configuration as JSON, for `fn_args.hyperparameters`: a file, or a Tuner's artifact.
      cache: Take the outputs of unchanged steps from earlier runs.
      beam_args: Further Beam arguments for the components.
      training: Options of the training run.
    """

    data: str
    module_file: str
    pipeline_root: str = "pipeline"
    name: str = ""
    train_steps: int = 0
    eval_steps: int = 0
    label: str = ""
    task: str = "auto"
    scores: str = "auto"
    eval_signature: str = ""
    eval_output: str = ""
    slice_by: tuple[str, ...] = ()
    eval_config: str = ""
    evaluation_plan: dict[str, Any] | None = None
    schema: str = ""
    train_examples: str = "auto"
    schema_shapes: str = "auto"
    custom_config: dict[str, Any] | None = None
    push: bool = True
    push_to: str = ""
    warm_start: bool = False
    baseline_model: str = ""
    tune: bool | None = None
    tune_steps: int = 0
    hyperparameters: str = ""
    cache: bool = True
    beam_args: tuple[str, ...] = ()
    training: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)
    transform_module: str = ""
    tuner_module: str = ""

    def name_for(self, source: ModuleSource) -> str:
        """Returns the pipeline's name."""
        return self.name or source.name.rpartition(".")[2]


def tunes_with(modules: PipelineModules, tune: bool | None, tune_steps: int, hyperparameters: str) -> bool:
    """Returns whether there is a search for hyper-parameters; see `PipelineOptions`.

    Raises:
      InputError: When one is asked for that there cannot be.
    """
    reference = modules.trainer.reference
    if tune and modules.tuner is None:
        raise InputError(
            f"--tune: {reference} defines no tuner_fn(fn_args), which the Tuner would call.{_where(modules)}"
        )
    if tune and hyperparameters:
        raise InputError("--tune and --hyperparameters exclude each other: the Trainer gets one or the other.")
    tunes = modules.tuner is not None and not hyperparameters if tune is None else tune
    if tune_steps and not tunes:
        reason = "it is turned off" if modules.tuner else f"{reference} defines no tuner_fn.{_where(modules)}"
        raise InputError(f"--tune-steps {tune_steps}: there is no search for hyper-parameters; {reason.rstrip('.')}.")
    return tunes


def notices_of(options: PipelineOptions, modules: PipelineModules) -> list[str]:
    """Returns which files the pipeline's steps use that nobody named, a sentence each."""
    tunes = tunes_with(modules, options.tune, options.tune_steps, options.hyperparameters)
    return [notice for notice in (modules.notice, modules.tuner_notice if tunes else "") if notice]


def _where(modules: PipelineModules) -> str:
    """Returns which files near the training module have a tuner_fn, as a sentence with the option to give; or ""."""
    found = tuner_candidates(modules.trainer)
    if not found:
        return " For one in another file give --tuner-module FILE."
    does = "do; name one" if len(found) > 1 else "does; name it"
    return f" {' and '.join(found)} {does} with --tuner-module."
