"""What is to be checked: a module and what a run would give it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..fn_args import FnArgs
from ..modules.pipeline_modules import PipelineModules, find_modules
from ..modules.source import with_tuples
from ..options import TrainingOptions
from .adaptation import AUTO

LIMIT = 60.0  # seconds; a first step that takes longer is rare, and who waits for it knows of it


@dataclasses.dataclass(frozen=True)
class CheckRequest:
    """A run that nobody has started yet.

    Attributes:
      module: The training module, in any form that `find_source` takes.
      fn_args: What the run would be given; its output folders are not used.
      options: The run's options. Engine and workers are left aside: one process tries the training.
      function: The function to run, when it is not to be found by the dialect.
      data: A folder of raw data, as for a pipeline; "" to take `fn_args.train_files`.
      label: The label's feature name, raw or transformed, or OUTPUT=FEATURE,…; "" when none was given.
      evaluation: Further options that decide about the evaluation plan, as `evaluation.overrides` reads them.
      hyperparameters: The file for `fn_args.hyperparameters`; "" for none.
      transform_module: The module with `preprocessing_fn`; "" for the training module, or a file near it.
      tuner_module: The module with `tuner_fn`; "" for the training module.
      tunes: Whether a search with the module's `tuner_fn` would find the hyper-parameters; its defaults are tried.
      base_model: The folder that `fn_args.base_model` is to be found in; "" for none.
      train_examples: What a Trainer after a Transform reads: "raw" or "transformed" examples; "auto" to find out.
      schema_shapes: Whether an inferred schema holds the features' shapes: "yes" or "no"; "auto" to find out.
      problems: What is wrong with an item that was read before, such as custom_config: {item: message}.
      limit: Seconds after which loading, reading or training is ended.
      modules: The modules, when the command has found them before; None to find them.
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
          ModuleError: When there is no such module.
        """
        return self.modules or find_modules(self.module, scratch, self.transform_module, self.tuner_module)

    def to_json(self) -> dict[str, Any]:
        """Returns the request as JSON values, for `from_json`."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        modules = dataclasses.asdict(self.modules) if self.modules else None
        options = dataclasses.asdict(self.options)
        return {**plain, "fn_args": self.fn_args.to_json(), "options": options, "modules": modules}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> CheckRequest:
        """Rebuilds the request."""
        fn_args, options = FnArgs.from_json(state["fn_args"]), TrainingOptions(**with_tuples(state["options"]))
        modules = PipelineModules.of(state["modules"]) if state["modules"] else None
        return cls(**{**state, "fn_args": fn_args, "options": options, "modules": modules})
