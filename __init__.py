"""Generic Trainer: a TFX-style trainer component for many kinds of TensorFlow training modules.

These names are the public API. They are imported lazily on first access, so `import generic_trainer` is cheap and
imports neither TensorFlow nor TFX.

    from generic_trainer import Trainer            # drop-in replacement for tfx.components.Trainer
    from generic_trainer import FnArgs, train      # training without a pipeline
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .components.trainer import Trainer
    from .components.tuner import Tuner
    from .executors.checkpoints.async_checkpoints import AsyncCheckpoints
    from .executors.dialects import Dialect, Evidence
    from .executors.dialects.converted_modules import prepare_for, run_as
    from .executors.engines.base import Engine
    from .executors.engines.strategies import strategy
    from .executors.errors import (
        CheckpointError,
        InputError,
        KerasVersionError,
        LateVariableError,
        ModelCheckError,
        ModuleError,
        StorageError,
        TrainerError,
        TrainingProcessError,
    )
    from .executors.fn_args import FnArgs
    from .executors.generic_executor import GenericExecutor
    from .executors.inputs.device_prefetch import prefetch_to_device
    from .executors.inputs.input_format import InputFormat
    from .executors.inputs.table_format import TableFormat
    from .executors.keras.callbacks import callbacks
    from .executors.monitoring.progress import report_progress
    from .executors.option import option
    from .executors.options import TrainingOptions
    from .executors.runtime.process.preemption import Preempted
    from .executors.saved_models.check import check_saved_model
    from .executors.saved_models.model_check import ModelCheck
    from .executors.training.callbacks import RunCallback
    from .executors.training.run import train
    from .executors.training.worker_callbacks import WorkerCallback
    from .executors.tuning.tuner_fn import TunerFnResult
    from .version import __version__

_HOMES = {
    "AsyncCheckpoints": "executors.checkpoints.async_checkpoints",
    "CheckpointError": "executors.errors",
    "Dialect": "executors.dialects.base",
    "Engine": "executors.engines.base",
    "Evidence": "executors.dialects.base",
    "FnArgs": "executors.fn_args",
    "GenericExecutor": "executors.generic_executor",
    "InputError": "executors.errors",
    "InputFormat": "executors.inputs.input_format",
    "KerasVersionError": "executors.errors",
    "LateVariableError": "executors.errors",
    "ModelCheck": "executors.saved_models.model_check",
    "ModelCheckError": "executors.errors",
    "ModuleError": "executors.errors",
    "Preempted": "executors.runtime.process.preemption",
    "RunCallback": "executors.training.callbacks",
    "StorageError": "executors.errors",
    "TableFormat": "executors.inputs.table_format",
    "Trainer": "components.trainer",
    "TrainerError": "executors.errors",
    "TrainingOptions": "executors.options",
    "TrainingProcessError": "executors.errors",
    "Tuner": "components.tuner",
    "TunerFnResult": "executors.tuning.tuner_fn",
    "WorkerCallback": "executors.training.worker_callbacks",
    "__version__": "version",
    "callbacks": "executors.keras.callbacks",
    "check_saved_model": "executors.saved_models.check",
    "option": "executors.option",
    "prepare_for": "executors.dialects.converted_modules",
    "prefetch_to_device": "executors.inputs.device_prefetch",
    "report_progress": "executors.monitoring.progress",
    "run_as": "executors.dialects.converted_modules",
    "strategy": "executors.engines.strategies",
    "train": "executors.training.run",
}

__all__ = [
    "AsyncCheckpoints",
    "CheckpointError",
    "Dialect",
    "Engine",
    "Evidence",
    "FnArgs",
    "GenericExecutor",
    "InputError",
    "InputFormat",
    "KerasVersionError",
    "LateVariableError",
    "ModelCheck",
    "ModelCheckError",
    "ModuleError",
    "Preempted",
    "RunCallback",
    "StorageError",
    "TableFormat",
    "Trainer",
    "TrainerError",
    "TrainingOptions",
    "TrainingProcessError",
    "Tuner",
    "TunerFnResult",
    "WorkerCallback",
    "__version__",
    "callbacks",
    "check_saved_model",
    "option",
    "prefetch_to_device",
    "prepare_for",
    "report_progress",
    "run_as",
    "strategy",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
