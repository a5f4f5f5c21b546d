"""Runs the training module in the worker process: loads it, chooses its dialect, and calls `run_fn`.

An engine calls `execute` in this process or another one; arguments and result are JSON values.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping

from absl import logging

from ..dialects import adapters
from ..dialects.loading import loaded
from ..dialects.other_settings import changed_keras
from ..dialects.selection import choose
from ..dialects.signatures import require_has_run
from ..engines.training_request import TrainingRequest, TrainingResult
from ..errors import TrainingProcessError
from ..modules.seeds import make_repeatable
from ..runtime.files import file_io
from ..runtime.logs import exceptions
from ..saved_models.finished import delete_marker, mark_finished
from .hints import add_hints, announce_check
from .worker_callbacks import WorkerCallback, nested, registered_callbacks


def execute(state: dict[str, object]) -> dict[str, object]:
    """Executes a `TrainingRequest`; returns a `TrainingResult`.

    Raises:
      ModuleError: If no dialect matches the module.
      TrainingProcessError: If the module calls `sys.exit()`.
      Exception: Any exception that the module raises.
    """
    request = TrainingRequest.from_json(state)
    if request.key:
        delete_marker(file_io.parent(request.fn_args.serving_model_dir))  # of an attempt that is repeated
    try:
        result = train_module(request, registered_callbacks(request)).to_json()
    except SystemExit as error:
        # Without this, an exit code of 0 would be taken for a finished training.
        raise TrainingProcessError(
            f"The module {request.source.path} ended with SystemExit({error.code!r})"
            f"{exceptions.describe_handled(error)}. Return from its function instead of calling sys.exit() or exit(); "
            f"no model was published. {request.keras.hint(error)}".rstrip()
        ) from error
    except Exception as error:
        with contextlib.suppress(Exception):  # str() of a user-defined exception may raise; keep the original one
            add_hints(error, request)
        raise
    if request.key and request.fn_args.is_chief:
        mark_finished(request.fn_args.serving_model_dir, request.key, result)
    return result


def train_module(request: TrainingRequest, callbacks: Mapping[str, WorkerCallback]) -> TrainingResult:
    """Imports a module, chooses its dialect and calls its `run_fn`; see `execute`."""
    options, every, clock = request.options, callbacks.values(), time.perf_counter
    args, start = request.fn_args, clock()
    request.keras.check_this_process()
    with (
        nested(callback.loading() for callback in every),
        loaded(
            request.source, options.dialect, request.keras, args.checkpoint_dir, is_restartable=request.is_restartable
        ) as module,
    ):
        for callback in every:
            callback.imported(module)
        dialects = adapters()
        name, evidence = choose(module, request.function, options, dialects)
        for callback in every:
            callback.dialect = dialects[name]
            callback.chosen(name, evidence)
        run_fn = dialects[name].run_fn(module, request.function, options)
        logging.info("Dialect %s: %s.", name, evidence)
        announce_check(run_fn, request)
        for callback in every:
            args = callback.arguments(args)
        make_repeatable(args, options.deterministic)
        begin = clock()
        with nested(callback.around() for callback in every):
            returned = run_fn(args)
        if not file_io.exists(args.serving_model_dir):
            require_has_run(returned, f"{request.source.path}: {request.function or name}")
        end, keras = clock(), changed_keras(request.keras)
    phases = {"load": begin - start, "run_fn": end - begin}
    parts = {part: _json_result(part, callback, returned) for part, callback in callbacks.items()}
    return TrainingResult(name, evidence, phases, keras, parts)


def _json_result(part: str, callback: WorkerCallback, returned: object) -> object:
    result = callback.result(returned)
    try:
        json.dumps(result)
    except (TypeError, ValueError) as error:
        raise TypeError(f"The result of the worker callback {part!r} is not JSON: {error}") from error
    return result
