"""Private names of the package `tensorflow-estimator` 2.15.0, its last release, used with TensorFlow 2.15.1 to 2.21.

All Estimators derive from one class, including `tf.estimator.Estimator` and `tf.compat.v1.estimator.Estimator`. The
public names would import the package where it is not used, and do not exist before `tf.estimator` is restored.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf

_PACKAGE = "tensorflow_estimator.python.estimator"
# Methods of all Estimators, to patch with `patching.replaced`.
TRAINING_LOOP = "_train_model"  # returns the last loss; `train` returns the Estimator
# Called while a graph is open, also by `Estimator.model_fn`. The model function itself would have to be patched before
# each Estimator is created.
MODEL_FN_CALL = "_call_model_fn"
EXPORT = "_export_all_saved_models"  # called by all public export methods; its first argument is the folder


def estimator_class() -> type[tf.estimator.Estimator] | None:
    """Returns the base class of all Estimators, or None if this process has not imported it."""
    module = sys.modules.get(f"{_PACKAGE}.estimator")
    return module.Estimator if module is not None else None


def import_estimator_class() -> type[tf.estimator.Estimator]:
    """Imports the base class of all Estimators."""
    kind: type[tf.estimator.Estimator] = importlib.import_module(f"{_PACKAGE}.estimator").Estimator
    return kind


def executor_class() -> type | None:
    """Returns the class that `train_and_evaluate` creates with its specs; None if it is not imported.

    Modules import the name `train_and_evaluate` itself, so a replacement of it would not be called.
    """
    module = sys.modules.get(f"{_PACKAGE}.training")
    return module._TrainingExecutor if module is not None else None


def call_model_fn(
    estimator: tf.estimator.Estimator, features: object, labels: object, mode: str, config: tf.estimator.RunConfig
) -> tf.estimator.EstimatorSpec:
    """Calls an Estimator's model function in the current graph; returns its EstimatorSpec.

    The public `Estimator.model_fn` does the same, but subclasses may override that name with their own model function.
    """
    return estimator._call_model_fn(features, labels, mode, config)


def call_input_fn(estimator: tf.estimator.Estimator, input_fn: Callable[..., object], mode: str) -> object:
    """Calls an input function in the current graph with those of `mode`, `params` and `config` that it takes.

    The Estimator has no public method that calls an input function without a model function.
    """
    import tensorflow as tf

    return estimator._call_input_fn(input_fn, mode, tf.distribute.InputContext())


def move(estimator: tf.estimator.Estimator, model_dir: str) -> None:
    """Changes an Estimator's model folder; the public attributes are read-only.

    Creating a new Estimator is not possible, because a subclass may take any arguments.
    """
    estimator._model_dir = model_dir
    configure(estimator, model_dir=model_dir)


def configure(estimator: tf.estimator.Estimator, **values: object) -> None:
    """Changes values of an Estimator's RunConfig, as `RunConfig.replace` does; see `move`."""
    estimator._config = estimator.config.replace(**values)


def weight_column(estimator: tf.estimator.Estimator) -> str:
    """Returns the feature that weights the examples of one of TensorFlow's own Estimators; "" without one.

    Only the head has it, which is a variable of the model function's closure.
    """
    for cell in getattr(estimator._model_fn, "__closure__", None) or ():
        column = getattr(cell.cell_contents, "_weight_column", None)
        if column is not None:
            return str(getattr(column, "key", column))
    return ""


def serving_receiver_fn_of(
    exporter: tf.estimator.Exporter,
) -> Callable[[], tf.estimator.export.ServingInputReceiver] | None:
    """Returns the serving input function of a TensorFlow exporter, which has no public name; None for others."""
    own = getattr(exporter, "_saved_model_exporter", exporter)
    return getattr(own, "_serving_input_receiver_fn", None)


def add_serving_graph(
    estimator: tf.estimator.Estimator,
    builder: tf.saved_model.Builder,
    receiver_fn: Callable[[], tf.estimator.export.ServingInputReceiver],
    mode: str,
) -> None:
    """Adds an Estimator's serving graph to a SavedModel builder, as its export does, but without the variables.

    The public `export_saved_model` requires a checkpoint.
    """
    estimator._add_meta_graph_for_mode(
        builder, {mode: receiver_fn}, None, save_variables=False, mode=mode, check_variables=False
    )


def read_eval_metrics(folder: str) -> dict[Any, dict[str, float]]:
    """Returns {step: metrics} of the evaluations that an Estimator logged in a folder.

    tensorflow-estimator's public early stopping reads the event files with this function.
    """
    early_stopping = importlib.import_module(f"{_PACKAGE}.early_stopping")
    metrics: dict[Any, dict[str, float]] = early_stopping.read_eval_metrics(folder)
    return metrics
