"""Private names of the wheel `tensorflow-estimator` 2.15.0, its last release, which serves TensorFlow 2.15.1 to 2.21.

It has no Estimator of other names: `tf.estimator.Estimator` and `tf.compat.v1.estimator.Estimator` come from this
class. Those would import the wheel where it is not in use, or are missing before `tf.estimator` is restored.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf

_PACKAGE = "tensorflow_estimator.python.estimator"


def estimator_class() -> type[tf.estimator.Estimator] | None:
    """Returns the class that all Estimators are of, or None where this process has not imported it."""
    module = sys.modules.get(f"{_PACKAGE}.estimator")
    return module.Estimator if module is not None else None


def import_estimator_class() -> type[tf.estimator.Estimator]:
    """Imports the class that all Estimators are of."""
    found: type[tf.estimator.Estimator] = importlib.import_module(f"{_PACKAGE}.estimator").Estimator
    return found


def executor_constructor() -> tuple[object, str] | None:
    """Returns the hook point of `train_and_evaluate`, which gets its specs; None where it is not imported.

    Modules bind `train_and_evaluate` itself by name, so that a replacement of it would not be called.
    """
    module = sys.modules.get(f"{_PACKAGE}.training")
    return (module._TrainingExecutor, "__init__") if module is not None else None


def training_loop(estimator_class: type[tf.estimator.Estimator]) -> tuple[type[tf.estimator.Estimator], str]:
    """Returns the hook point of what trains, which returns the last step's loss; `train` returns the Estimator."""
    return estimator_class, "_train_model"


def model_fn_call(
    owner: type[tf.estimator.Estimator] | tf.estimator.Estimator,
) -> tuple[type[tf.estimator.Estimator] | tf.estimator.Estimator, str]:
    """Returns the hook point of what calls the model function with a graph open.

    A replacement of the model function would have to be made before each Estimator is, and `Estimator.model_fn` calls
    this.

    Args:
      owner: The class, or one Estimator.
    """
    return owner, "_call_model_fn"


def call_model_fn(
    estimator: tf.estimator.Estimator, features: object, labels: object, mode: str, config: tf.estimator.RunConfig
) -> tf.estimator.EstimatorSpec:
    """Calls an Estimator's model function with the open graph; returns its EstimatorSpec.

    The public `Estimator.model_fn` does the same, but subclasses give that name to their own model function.
    """
    owner, name = model_fn_call(estimator)
    return getattr(owner, name)(features, labels, mode, config)


def export_call(estimator_class: type[tf.estimator.Estimator]) -> tuple[type[tf.estimator.Estimator], str]:
    """Returns the hook point that all public ways to export pass; it gets the folder first."""
    return estimator_class, "_export_all_saved_models"


def move(estimator: tf.estimator.Estimator, model_dir: str) -> None:
    """Makes an Estimator work in another folder; the public attributes are read-only.

    A new Estimator cannot be made: a subclass may take any arguments.
    """
    estimator._model_dir = model_dir
    estimator._config = estimator.config.replace(model_dir=model_dir)


def serving_receiver_fn_of(
    exporter: tf.estimator.Exporter,
) -> Callable[[], tf.estimator.export.ServingInputReceiver] | None:
    """Returns the serving input function of one of TensorFlow's exporters, which keeps it to itself; else None."""
    own = getattr(exporter, "_saved_model_exporter", exporter)
    return getattr(own, "_serving_input_receiver_fn", None)


def add_serving_graph(
    estimator: tf.estimator.Estimator,
    builder: tf.saved_model.Builder,
    receiver_fn: Callable[[], tf.estimator.export.ServingInputReceiver],
    mode: str,
) -> None:
    """Adds an Estimator's graph for serving to a SavedModel builder, as its export does, but without the variables.

    The public `export_saved_model` requires a checkpoint.
    """
    estimator._add_meta_graph_for_mode(
        builder, {mode: receiver_fn}, None, save_variables=False, mode=mode, check_variables=False
    )


def read_eval_metrics(folder: str) -> dict[Any, dict[str, float]]:
    """Returns {step: metrics} of the evaluations that an Estimator logged in a folder.

    The event files are public, and the wheel's early stopping, which is public, reads them by this.
    """
    early_stopping = importlib.import_module(f"{_PACKAGE}.early_stopping")
    metrics: dict[Any, dict[str, float]] = early_stopping.read_eval_metrics(folder)
    return metrics
