"""What a pipeline is to do, whoever runs it."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..executors.errors import InputError
from ..executors.module_source import ModuleSource, defines
from ..executors.options import TrainingOptions

AUTO, CSV, TFRECORD, SPLITS = DATA_FORMATS = ("auto", "csv", "tfrecord", "splits")  # see `example_gen_for`
BASELINE = "baseline_model"  # the step that imports one
HYPERPARAMETERS = "hyperparameters"  # the same


@dataclasses.dataclass(frozen=True)
class PipelineOptions:
    """What to run, on what, and where.

    Attributes:
      data: Folder with CSV files, or with TFRecord files of tf.Examples (in `train/` and `eval/`
        if they are split already, else a third of them becomes the eval split).
      module_file: The training module: a file, `package.module`, or `name@archive.zip`.
      pipeline_root: Folder for all outputs.
      name: The pipeline's name (default: the module's). A root belongs to one pipeline.
      train_steps: Steps to train; 0 leaves it to the module.
      eval_steps: Steps to evaluate while training; 0 leaves it to the module.
      label: The label's feature name, in the data or among the transformed features. Without it
        there is no Evaluator, and every model that passes the trainer's check is pushed.
      task: What kind of label it is; "auto" reads it off the loss that the module names.
      slice_by: Features of the raw examples; the model is evaluated for each of their values as well.
      eval_config: A JSON file with a tfma.EvalConfig, instead of label, task and slices.
      schema: A Schema file to use instead of an inferred one.
      custom_config: For `fn_args.custom_config`.
      push_to: Where the model is pushed (default: `serving` in the root).
      warm_start: Give the last blessed model, or `baseline_model`, to the module as `fn_args.base_model`.
      baseline_model: Folder of a Model artifact to compare with, instead of the last blessed model.
      tune: Search with the module's `tuner_fn` before training; None: if it has one, and no hyperparameters are given.
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
    slice_by: tuple[str, ...] = ()
    eval_config: str = ""
    schema: str = ""
    custom_config: dict[str, Any] | None = None
    push_to: str = ""
    warm_start: bool = False
    baseline_model: str = ""
    tune: bool | None = None
    tune_steps: int = 0
    hyperparameters: str = ""
    cache: bool = True
    beam_args: tuple[str, ...] = ()
    training: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)

    def name_for(self, source: ModuleSource) -> str:
        """Returns the pipeline's name."""
        return self.name or source.name.rpartition(".")[2]


def tunes_with(source: ModuleSource, tune: bool | None, tune_steps: int, hyperparameters: str) -> bool:
    """Returns whether there is a search for hyper-parameters; see `PipelineOptions`.

    Raises:
      InputError: When one is asked for that there cannot be.
    """
    has_tuner_fn = defines(source.path, "tuner_fn")
    if tune and not has_tuner_fn:
        raise InputError(f"--tune: {source.reference} defines no tuner_fn(fn_args), which the Tuner would call.")
    if tune and hyperparameters:
        raise InputError("--tune and --hyperparameters exclude each other: the Trainer gets one or the other.")
    tunes = has_tuner_fn and not hyperparameters if tune is None else tune
    if tune_steps and not tunes:
        reason = "it is turned off" if has_tuner_fn else f"{source.reference} defines no tuner_fn"
        raise InputError(f"--tune-steps {tune_steps}: there is no search for hyper-parameters; {reason}.")
    return tunes
