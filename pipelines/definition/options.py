"""Options of a pipeline, independent of the runner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar

from ...executors.errors import InputError
from ...executors.modules.pipeline_modules import PipelineModules, tuner_candidates
from ...executors.modules.source import ModuleSource
from ...executors.number_range import PIPELINE_STEPS
from ...executors.options import TrainingOptions, declared_options

AUTO, CSV, TFRECORD, SPLITS = DATA_FORMATS = ("auto", "csv", "tfrecord", "splits")  # see `example_gen_for`
BASELINE = "baseline_model"  # ID of the Importer node of a baseline model
HYPERPARAMETERS = "hyperparameters"  # ID of the Importer node of hyper-parameters
TRAIN_EXAMPLES = ("auto", "raw", "transformed")
SCHEMA_SHAPES = ("auto", "yes", "no")
_LONGEST_NAME = 255  # of the columns of ML Metadata in MySQL
Options = TypeVar("Options", bound="PipelineOptions")


class PipelineKeywords(TypedDict):
    """The keyword arguments of `PipelineOptions` that are passed by the commands that create pipelines."""

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
    allow_trivial: bool
    schema: str
    train_examples: str
    schema_shapes: str
    test_split: bool
    custom_config: dict[str, object] | None
    push: bool
    push_to: str
    allow_batch_dependent: bool
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
    """Options of a pipeline: modules, data, evaluation, outputs and training.

    Attributes:
      data: Folder with CSV files, or with TFRecord files of tf.Examples (in `train/` and `eval/`
        if they are already split, with `test/` as well if there is a test split; otherwise a third of the examples
        becomes the eval split).
      module_file: The training module: a file, `package.module`, or `name@archive.zip`.
      transform_module: The module with `preprocessing_fn`, in the same forms. "" for the training module or, if
        that reads Transform's output and has no `preprocessing_fn`, the one file near it that defines it.
      tuner_module: The module with `tuner_fn`; "" for the training module.
      pipeline_root: Folder for all outputs.
      name: The pipeline's name (default: the module's name). A root can be used by one pipeline only.
      train_steps: Number of training steps; 0: the module decides.
      eval_steps: Number of evaluation steps during training; 0: the module decides.
      label: The label's feature name, in the raw or the transformed examples; for several outputs,
        "OUTPUT=FEATURE,OUTPUT=FEATURE". Without a label there is no Evaluator, and every model that passes the
        Trainer's SavedModel check is pushed.
      task: The kind of task, such as regression; "auto" derives it from the model's loss, outputs and labels.
      scores: How to read the model's outputs (such as logits or probabilities); "auto" derives that, too.
      eval_signature: The signature to evaluate; "" for the serving signature.
      eval_output: The signature's output to evaluate; "" for all outputs that have a label, or the main one.
      slice_by: Features of the raw examples; metrics are also computed for each of their values.
      eval_config: A JSON file with a tfma.EvalConfig, instead of label, task and slices.
      allow_trivial: Whether to bless a model that is no better than a trivial one, such as the mean of the labels.
      evaluation_plan: The plan from an earlier check, as returned by `EvaluationPlan.to_json`; None to make the plan
        from the trained model.
      schema: A Schema file to use instead of an inferred schema.
      train_examples: Examples that the Trainer and the Tuner read if there is a Transform: "transformed", or "raw"
        for a module that applies the transform in its own input pipeline. "auto" means transformed, unless the check
        of the `run` command determines otherwise.
      schema_shapes: Whether the inferred schema includes feature shapes: "yes" to parse dense tensors, "no" to parse
        sparse tensors, as before TFX 1.0. "auto" means yes, unless the check of `run` determines otherwise.
      test_split: Whether to put a fifth of the examples into a split `test`, which training does not see, and evaluate
        the model on it. Data with folders `train`, `eval` and `test` always have one.
      custom_config: JSON object passed on as `fn_args.custom_config`.
      push: Whether to push the model if it is blessed.
      push_to: Folder to push the model to (default: `serving` in the root).
      allow_batch_dependent: Whether to push a model whose answer for an example depends on the others of its batch.
      warm_start: Whether to pass the last blessed model, or `baseline_model`, to the module as `fn_args.base_model`.
      baseline_model: Folder of a Model artifact to compare with, instead of the last blessed model.
      tune: Whether to search with `tuner_fn` before training; None: if the module defines it and `hyperparameters` is
        not given.
      tune_steps: Training steps per trial of the search; 0 for `train_steps`.
      hyperparameters: KerasTuner's configuration as JSON, for `fn_args.hyperparameters`: a file, or a Tuner's artifact.
      cache: Whether to reuse the outputs of unchanged steps from earlier runs.
      beam_args: Additional Beam arguments for the components.
      training: Options of the training run.

    Raises:
      InputError: From the constructor, if a number of steps is out of range, or the name cannot be stored.
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
    allow_trivial: bool = False
    evaluation_plan: dict[str, Any] | None = None
    schema: str = ""
    train_examples: str = "auto"
    schema_shapes: str = "auto"
    test_split: bool = False
    custom_config: dict[str, Any] | None = None
    push: bool = True
    push_to: str = ""
    allow_batch_dependent: bool = False
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

    def __post_init__(self) -> None:
        for option in ("train_steps", "eval_steps", "tune_steps"):
            if not PIPELINE_STEPS.includes(value := getattr(self, option)):
                raise InputError(f"{option}={value!r}: give {PIPELINE_STEPS}.")
        if len(self.name) > _LONGEST_NAME or not self.name.isprintable():
            raise InputError(
                f"--pipeline-name {self.name!r}: control characters are not allowed, nor more than {_LONGEST_NAME} "
                "characters."
            )

    def name_for(self, source: ModuleSource) -> str:
        """Returns the pipeline's name: `name`, or the last part of the module's name."""
        return self.name or source.name.rpartition(".")[2]


def with_findings(options: Options, findings: Mapping[str, Any]) -> Options:
    """Returns a pipeline's options updated with the findings of a check; see `Report.findings`."""
    names = {option.name for option in declared_options()}
    training = {name: value for name, value in findings.items() if name in names}
    others = {name: value for name, value in findings.items() if name not in names}
    return dataclasses.replace(options, **others, training=dataclasses.replace(options.training, **training))


def has_tuner_step(modules: PipelineModules, tune: bool | None, tune_steps: int, hyperparameters: str) -> bool:
    """Returns whether the pipeline has a Tuner step; see `PipelineOptions.tune`.

    Raises:
      InputError: When `tune` is set without a `tuner_fn` or together with `hyperparameters`, or `tune_steps` without a
        search.
    """
    reference = modules.trainer.reference
    if tune and modules.tuner is None:
        raise InputError(
            f"--tune: {reference} defines no tuner_fn(fn_args), which the Tuner calls.{_tuner_module_hint(modules)}"
        )
    if tune and hyperparameters:
        raise InputError("--tune and --hyperparameters are mutually exclusive: set only one of them.")
    tunes = modules.tuner is not None and not hyperparameters if tune is None else tune
    if tune_steps and not tunes:
        reason = (
            "it is turned off" if modules.tuner else f"{reference} defines no tuner_fn.{_tuner_module_hint(modules)}"
        )
        raise InputError(
            f"--tune-steps {tune_steps}: the pipeline has no hyper-parameter search; {reason.rstrip('.')}."
        )
    return tunes


def notices_of(options: PipelineOptions, modules: PipelineModules) -> list[str]:
    """Returns a sentence for each module file that was selected automatically instead of by an option."""
    tunes = has_tuner_step(modules, options.tune, options.tune_steps, options.hyperparameters)
    return [notice for notice in (modules.notice, modules.tuner_notice if tunes else "") if notice]


def _tuner_module_hint(modules: PipelineModules) -> str:
    """Returns a sentence that names the files near the training module with a `tuner_fn`, and the option for them."""
    found = tuner_candidates(modules.trainer)
    if not found:
        return " If another file defines it, set --tuner-module FILE."
    choice = "define it; select one" if len(found) > 1 else "defines it; select it"
    return f" {' and '.join(found)} {choice} with --tuner-module."
