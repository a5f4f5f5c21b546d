"""Evaluation and prediction with an ElasticDL model file in a subprocess."""

from __future__ import annotations

import importlib
from typing import Any

from ...engines import child_process
from ...engines.training_request import TrainingRequest
from ...fn_args import FnArgs
from ...modules.source import find_source
from ...options import TrainingOptions
from ..loading import loaded
from ..needs import choose_keras


def run(action: str, module: str, model_name: str | None, fn_args: FnArgs, scratch: str) -> dict[str, float]:
    """Runs an action in a subprocess with the module's Keras version; returns the metrics by name.

    Args:
      action: "evaluate" or "predict".
      module: The model file.
      model_name: The name of the model definition; None for the standard names.
      fn_args: The job's arguments; its options are in `custom_config`.
      scratch: A temporary directory for local copies of remote or archived modules.

    Raises:
      ModuleError: When the file or one of its required definitions is missing.
      InputError: When there is no data or no checkpoint.
      Exception: Any exception that the file raises.
    """
    source = find_source(module, scratch)
    keras = choose_keras("auto", source.files)
    request = TrainingRequest(source, model_name, fn_args, TrainingOptions(), keras).to_json()
    return child_process.run(
        __name__, {**request, "action": action}, environment=keras.environment(), what=action, forked=True
    )


def execute(state: dict[str, Any]) -> dict[str, float]:
    """Runs the request in the subprocess; returns the metrics."""
    action = state.pop("action")
    request = TrainingRequest.from_json(state)
    with loaded(request.source) as module:
        job = importlib.import_module(f"{__package__}.run")
        result: dict[str, float] = getattr(job, action)(module, request.function, request.fn_args)
    return result
