"""Hyper-parameter search with KerasTuner for the model of iris_keras.py in the same folder.

`tuner_fn(fn_args)` returns a KerasTuner and the arguments of `fit`. A pipeline calls it before `run_fn`, which gets the
best hyper-parameters as `fn_args.hyperparameters`; without a search it uses the defaults. `custom_config` may set
`trials` (default: 5) and the values that iris_keras.py reads from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras
import keras_tuner
from iris_keras import LEARNING_RATE, UNITS, build_model, export, fit_arguments

from generic_trainer import TunerFnResult  # or tfx.components.TunerFnResult, which is the same

if TYPE_CHECKING:
    from generic_trainer import FnArgs

TRIALS = 5


def build(hp: keras_tuner.HyperParameters) -> keras.Model:
    """Builds the model with the hyper-parameters of a trial."""
    learning_rate = hp.Float("learning_rate", 1e-3, 1e-1, sampling="log", default=LEARNING_RATE)
    return build_model(learning_rate, units=hp.Choice("units", [4, 16, 64], default=UNITS))


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """Searches for the learning rate and number of units with the highest accuracy on the eval split."""
    tuner = keras_tuner.RandomSearch(
        build,
        objective="val_accuracy",
        max_trials=(fn_args.custom_config or {}).get("trials", TRIALS),
        directory=fn_args.working_dir,  # an interrupted search resumes from here
        project_name="iris",
    )
    return TunerFnResult(tuner, fit_arguments(fn_args))


def run_fn(fn_args: FnArgs) -> None:
    """Trains with the best hyper-parameters, and exports the model."""
    hp = keras_tuner.HyperParameters.from_config(fn_args.hyperparameters or {"space": [], "values": {}})
    model = build(hp)
    model.fit(**fit_arguments(fn_args), callbacks=[keras.callbacks.TensorBoard(fn_args.model_run_dir)], verbose=2)
    export(model, fn_args.serving_model_dir)
