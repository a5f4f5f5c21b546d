"""The request of a check: a training module and the arguments and options of its run; and those to its processes."""

from __future__ import annotations

import dataclasses

from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..modules.pipeline_modules import PipelineModules, find_modules
from ..options import TrainingOptions
from ..runtime.files.json_data import JsonData
from .adaptation import AUTO

LIMIT = 60.0  # seconds; a first step rarely takes longer, and --limit can raise it


@dataclasses.dataclass(frozen=True)
class CheckRequest(JsonData):
    """A planned run to check.

    Attributes:
      module: The training module, in any form that `find_source` accepts.
      fn_args: The arguments of the run; their output folders are not used.
      options: The run's options. Engine and number of workers are ignored: one process tries the training.
      function: The function to run; None to let the dialect choose it.
      data: A folder of raw data, as for a pipeline; "" to use `fn_args.train_files`.
      label: The label's feature name, raw or transformed, or OUTPUT=FEATURE,…; "" if none was given.
      evaluation: Further options for the evaluation plan, in the form that `evaluation.overrides` parses.
      hyperparameters: The file for `fn_args.hyperparameters`; "" for none.
      transform_module: The module with `preprocessing_fn`; "" for the training module, or a file near it.
      tuner_module: The module with `tuner_fn`; "" for the training module.
      tunes: Whether the run searches hyperparameters with the module's `tuner_fn`; the check uses their defaults.
      base_model: The folder that contains `fn_args.base_model`; "" for none.
      train_examples: Input of a Trainer after a Transform: "raw" or "transformed" examples; "auto" to find out.
      schema_shapes: Whether an inferred schema contains the features' shapes: "yes" or "no"; "auto" to find out.
      problems: Errors of items that were read before, such as custom_config: {item: message}.
      limit: Timeout in seconds of each stage: loading, reading or training.
      modules: The modules, if the command has found them already; None to find them.
    """

    module: str
    fn_args: FnArgs
    options: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)
    function: str | None = None
    data: str = ""
    label: str = ""
    evaluation: dict[str, str] = dataclasses.field(default_factory=dict)
    hyperparameters: str = ""
    tunes: bool = False
    transform_module: str = ""
    tuner_module: str = ""
    base_model: str = ""
    train_examples: str = AUTO
    schema_shapes: str = AUTO
    problems: dict[str, str] = dataclasses.field(default_factory=dict)
    limit: float = LIMIT
    modules: PipelineModules | None = None

    def find_modules(self, scratch: str) -> PipelineModules:
        """Returns the modules; see `pipeline_modules.find_modules`.

        Raises:
          ModuleError: If a module is not found.
        """
        return self.modules or find_modules(self.module, scratch, self.transform_module, self.tuner_module)


@dataclasses.dataclass(frozen=True)
class PartRequest(JsonData):
    """A request to a process of a check.

    Attributes:
      check: The run to check; without `modules` if the training module cannot be run.
      folder: Folder for all output; see `events` for the file in it.
      keras: The Keras version of the training module; None without modules.
      raw: Folder of the process that prepares raw data; "" without raw data.
      failed: Items that have failed before.
    """

    check: CheckRequest
    folder: str
    keras: KerasChoice | None = None
    raw: str = ""
    failed: tuple[str, ...] = ()
