"""The training request that is sent to a worker process, as JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypedDict

from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource, with_tuples
from ..options import TrainingOptions
from ..runtime.logs.redaction import remember_secrets


class RequestJson(TypedDict):
    """A `TrainingRequest` as JSON values."""

    source: dict[str, object]
    function: str | None
    fn_args: dict[str, Any]
    options: dict[str, object]
    keras: dict[str, Any]
    key: str


@dataclasses.dataclass(frozen=True)
class TrainingRequest:
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

    def to_json(self) -> dict[str, object]:
        """Returns the request as JSON values, for `from_json`."""
        return {
            "source": dataclasses.asdict(self.source),
            "function": self.function,
            "fn_args": self.fn_args.to_json(),
            "options": dataclasses.asdict(self.options),
            "keras": dataclasses.asdict(self.keras),
            "key": self.key,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> TrainingRequest:
        """Rebuilds the request; from now on this process redacts the secrets in its configuration."""
        remember_secrets([state["fn_args"].get(name) for name in ("custom_config", "hyperparameters")])
        return cls(
            ModuleSource.of(state["source"]),
            state["function"],
            FnArgs.from_json(state["fn_args"]),
            TrainingOptions(**with_tuples(state["options"])),
            KerasChoice(**state["keras"]),
            state["key"],
        )
