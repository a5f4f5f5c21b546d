"""What a worker process is asked to train, as JSON values that travel between processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypedDict

from ..fn_args import FnArgs
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource, with_tuples
from ..options import TrainingOptions
from ..runtime.logs.redaction import remember


class RequestJson(TypedDict):
    """A `TrainingRequest` as JSON values."""

    source: dict[str, object]
    function: str | None
    fn_args: dict[str, Any]
    options: dict[str, object]
    keras: dict[str, str]


@dataclasses.dataclass(frozen=True)
class TrainingRequest:
    """What a worker is asked to do.

    Attributes:
      source: The module.
      function: The name of the function to run, or None to go by the dialect.
      fn_args: What `run_fn` is given.
      options: How to run it.
      keras: Which Keras `tf.keras` is to be.
    """

    source: ModuleSource
    function: str | None
    fn_args: FnArgs
    options: TrainingOptions
    keras: KerasChoice

    def to_json(self) -> dict[str, object]:
        """Returns the request as JSON values, for `from_json`."""
        return {
            "source": dataclasses.asdict(self.source),
            "function": self.function,
            "fn_args": self.fn_args.to_json(),
            "options": dataclasses.asdict(self.options),
            "keras": dataclasses.asdict(self.keras),
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> TrainingRequest:
        """Rebuilds the request; what is secret in its configuration is masked in this process from now on."""
        remember([state["fn_args"].get(name) for name in ("custom_config", "hyperparameters")])
        return cls(
            ModuleSource.of(state["source"]),
            state["function"],
            FnArgs.from_json(state["fn_args"]),
            TrainingOptions(**with_tuples(state["options"])),
            KerasChoice(**state["keras"]),
        )
