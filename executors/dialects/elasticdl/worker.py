"""Evaluation and prediction of an ElasticDL model file, in a process of their own."""

from __future__ import annotations

import importlib
from typing import Any

from ...engines import child_process
from ...engines.training_request import TrainingRequest
from ...fn_args import FnArgs
from ...modules.source import find_source
from ...options import TrainingOptions
from ..loading import choose_keras, loaded


def run(action: str, module: str, model_name: str | None, fn_args: FnArgs, scratch: str) -> dict[str, float]:
    """Starts the process and waits for its answer.

    Args:
      action: "evaluate" or "predict".
      module: The model file.
      model_name: The model's name in it.
      fn_args: The job's arguments; its options are in custom_config.
      scratch: A folder for what has to be copied here first.

    Raises:
      ModuleError: When there is no such file, or a part of it is missing.
      InputError: When there is no data or no checkpoint.
      Exception: What the file raises.
    """
    source = find_source(module, scratch)
    keras = choose_keras("auto", source.files)
    request = TrainingRequest(source, model_name, fn_args, TrainingOptions(), keras).to_json()
    return child_process.run(
        __name__, {**request, "action": action}, environment=keras.environment(), what=action, forked=True
    )


def execute(state: dict[str, Any]) -> dict[str, float]:
    """Carries the request out, in the process; returns the metrics."""
    action = state.pop("action")
    request = TrainingRequest.from_json(state)
    with loaded(request.source) as module:
        job = importlib.import_module(f"{__package__}.run")
        result: dict[str, float] = getattr(job, action)(module, request.function, request.fn_args)
    return result
