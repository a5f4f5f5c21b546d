"""The request that is sent to a worker process, and its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource
from ..options import TrainingOptions
from ..runtime.files.json_data import JsonData
from ..runtime.logs.redaction import remember_secrets


@dataclasses.dataclass(frozen=True)
class TrainingRequest(JsonData):
    """A request to train a module.

    Attributes:
      source: The module.
      function: The name of the function to run; None to choose it by dialect.
      fn_args: The argument of `run_fn`.
      options: The training options.
      keras: The Keras version that `tf.keras` must be.
      key: `Identity.result_key` of a training that publishes its model; "" for others.
    """

    source: ModuleSource
    function: str | None
    fn_args: FnArgs
    options: TrainingOptions
    keras: KerasChoice
    key: str = ""

    @property
    def is_restartable(self) -> bool:
        """Whether the worker can be started again with environment variables that the module sets."""
        return self.options.isolate and "variables" not in self.keras.restarts

    def __post_init__(self) -> None:
        """Redacts the secrets in its configuration, from now on and in each process that gets it."""
        remember_secrets([self.fn_args.custom_config, self.fn_args.hyperparameters])


@dataclasses.dataclass(frozen=True)
class TrainingResult(JsonData):
    """The result of a training.

    Attributes:
      dialect: Name of the dialect.
      evidence: Why the dialect was chosen.
      phases: Durations in seconds by phase name.
      keras: The settings if the module's use of `tf.estimator` changed them; else None.
      parts: Results of the callbacks, by their names.
    """

    dialect: str = ""
    evidence: str = ""
    phases: Mapping[str, float] = dataclasses.field(default_factory=dict)
    keras: KerasChoice | None = None
    parts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
