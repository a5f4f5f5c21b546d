"""Adds the cause and a remedy, if known, to an exception of a training module; advises before the training."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from absl import logging

from .. import plugins
from ..errors import TrainerError
from ..modules.source import imports_in
from ..runtime.files import storage_errors
from ..runtime.logs import exceptions

if TYPE_CHECKING:
    from ..engines.training_request import TrainingRequest
    from ..modules.keras_version import KerasChoice

_WRITE_SAVED_MODELS = {"tensorflow", "keras", "tf_keras"}
_HINTS = "generic_trainer.hints"  # group of entry points: functions that return advice for an exception, or ""
_MAX_QUOTED = 1000  # maximum length of a quoted TensorFlow error, in characters


def add_hints(error: Exception, request: TrainingRequest) -> None:
    """Adds notes to the module's exception: the module's path and, if known, the cause and a remedy."""
    if isinstance(error, TrainerError):
        return
    exceptions.add_note(error, f"Raised by the training module {request.source.path}")
    own = advice_on(error, request.keras)
    lacks_data = not (own or request.fn_args.train_files) and _has_frame_naming("train_files", error)
    no_data = "The run has no training data: --train-files was not given." if lacks_data else ""
    for hint in filter(None, (*own, no_data, storage_errors.hint(error, request.fn_args.serving_model_dir))):
        exceptions.add_note(error, hint)
    if text := exceptions.tensorflow_message(error):
        exceptions.add_summary(error, f"TensorFlow's message contains bytes that are not text: {text[:_MAX_QUOTED]}")


def advice_on(error: BaseException, keras: KerasChoice | None) -> list[str]:
    """Returns advice on a module's exception: on the Keras version, if there is one, and from registered hints."""
    registered = cast("Mapping[str, Callable[[BaseException], str]]", plugins.load(_HINTS)).values()
    return list(filter(None, [keras.hint(error) if keras else "", *(hint(error) for hint in registered)]))


def _has_frame_naming(name: str, error: BaseException) -> bool:
    """Whether code in the traceback of an exception, or of its causes, uses a name, as attribute or as text."""
    codes = [frame.f_code for cause in exceptions.chain(error) for frame, _ in traceback.walk_tb(cause.__traceback__)]
    return any(name in (*code.co_names, *code.co_consts) for code in codes)


def announce_check(run_fn: Callable[..., object], request: TrainingRequest) -> None:
    """Logs that a model must be a SavedModel if the user's own `run_fn` is in files that import no TensorFlow."""
    code, files = getattr(run_fn, "__code__", None), request.source.files
    imported = {name.partition(".")[0] for file in files for _, name in imports_in(file)}
    is_own = code is not None and code.co_filename in files
    if is_own and "parses" not in request.options.skip_checks and not imported & _WRITE_SAVED_MODELS:
        logging.info(
            "The module imports neither TensorFlow nor Keras. If its model is no SavedModel, such as one of "
            "scikit-learn, use --skip-check parses (skip_checks in Python); else the run will end with exit code 3."
        )
